package main

import "binnacle/internal/app"

type limitsCommand struct {
	Config app.LimitsConfig `kong:"embed"`
}

func (limitsCommand) Help() string {
	return `Readings above a tenant's rate limits wait in Kafka; those above its limits of numbers and sizes become dead letters.
This shows which readings wait and which devices exceeded limits, since the ingester got its partitions.
"binnacle tenant set" sets limits.

Examples:
  binnacle limits
  binnacle limits --tenant acme --admin ingest-0:7071,ingest-1:7071`
}

func (c *limitsCommand) Run(e *env) error {
	return app.PrintLimits(e.ctx, c.Config, e.app())
}
