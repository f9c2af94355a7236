package main

import "binnacle/internal/app"

// limitsCommand tells which readings have gone over limits of their tenants.
type limitsCommand struct {
	Config app.LimitsConfig `kong:"embed"`
}

// Help is shown below the flags.
func (limitsCommand) Help() string {
	return `Readings above a rate of their tenant wait in Kafka; those above a number or a size are dead letters. This asks
processes that ingest, by their admin endpoints, what waits and what was passed by whom since their partitions came
to them. binnacle tenant set says what the limits are.

Examples:
  binnacle limits
  binnacle limits --tenant acme --admin ingest-0:7071,ingest-1:7071`
}

// Run is called by kong.
func (c *limitsCommand) Run(e *env) error {
	return app.PrintLimits(e.ctx, c.Config, e.app())
}
