package main

import "binnacle/internal/app"

type explainCommand struct {
	app.ExplainConfig `kong:"embed"`
}

func (explainCommand) Help() string {
	return `It runs the query, and so costs as much as the query.

Examples:
  binnacle explain --tenant acme 'avg by (fleet) (velocity)'
  binnacle explain --tenant acme --range 6h --step 5m 'rate(odometer[5m])'
  binnacle explain --tenant acme '/api/v1/readings?device=truck-0000&from=-1d'`
}

func (c *explainCommand) Run(e *env) error { return app.Explain(e.ctx, c.ExplainConfig, e.app()) }
