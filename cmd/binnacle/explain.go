package main

import "binnacle/internal/app"

type explainCommand struct {
	app.ExplainConfig `kong:"embed"`
}

// Help is shown below the flags.
func (explainCommand) Help() string {
	return `The query is run, and costs what it costs.

Examples:
  binnacle explain --tenant acme 'avg by (fleet) (velocity)'
  binnacle explain --tenant acme --range 6h --step 5m 'rate(odometer[5m])'
  binnacle explain --tenant acme '/api/v1/readings?device=truck-0000&from=-1d'`
}

// Run is called by kong.
func (c *explainCommand) Run(e *env) error { return app.Explain(e.ctx, c.ExplainConfig, e.app()) }
