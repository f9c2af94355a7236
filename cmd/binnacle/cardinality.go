package main

import "binnacle/internal/queryclient"

type cardinalityCommand struct {
	queryclient.Cardinality `kong:"embed"`
}

func (cardinalityCommand) Help() string {
	return `A tag or label that grows without bound, such as one with a value for each day, tops its list.

Examples:
  binnacle cardinality --tenant acme
  binnacle cardinality --tenant acme --match site=nord --match 'model=~x.*' --top 50
  binnacle cardinality --api https://binnacle.example.com --token-file token --json`
}

func (c *cardinalityCommand) Run(e *env) error { return c.Cardinality.Run(e.ctx, e.stdout) }
