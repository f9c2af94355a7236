package main

import "binnacle/internal/app"

type fleetCommand struct {
	Config app.FleetConfig `kong:"embed"`
}

func (fleetCommand) Help() string {
	return `Simulated trucks that drive, each with ten metrics. What can't be published is kept for a minute and
published when the broker is back.

Examples:
  binnacle fleet --fleet 1000 --fleet-interval 10s
  binnacle fleet --kafka broker.example:9092 --topic telemetry --fleet-tenants acme --kafka-compression zstd`
}

func (c *fleetCommand) Run(e *env) error { return app.Fleet(e.ctx, c.Config, e.app()) }
