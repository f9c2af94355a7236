package main

import "binnacle/internal/queryclient"

type cardinalityCommand struct {
	queryclient.Cardinality `kong:"embed"`
}

// Help is shown below the flags.
func (cardinalityCommand) Help() string {
	return `What grows without an end, such as a tag with a value for each day, stands at the top of its list.

Examples:
  binnacle cardinality --tenant acme
  binnacle cardinality --tenant acme --match site=nord --match 'model=~x.*' --top 50
  binnacle cardinality --api https://binnacle.example.com --token-file token --json`
}

// Run is called by kong.
func (c *cardinalityCommand) Run(e *env) error { return c.Cardinality.Run(e.ctx, e.stdout) }
