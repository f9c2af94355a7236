package main

import "binnacle/internal/app"

type partitionsCommand struct {
	Config app.PartitionsConfig `kong:"embed"`
}

func (partitionsCommand) Help() string {
	return `Begins with one line that says what is wrong, if anything is. Request units are those that all processes were charged, as
they wrote them into the container heat: up to five minutes late.

Examples:
  binnacle partitions
  binnacle partitions --since 24h --container rollups-2026-11
  binnacle partitions --watch`
}

func (c *partitionsCommand) Run(e *env) error { return app.Partitions(e.ctx, c.Config, e.app()) }
