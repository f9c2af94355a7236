package app

import (
	"context"
	"fmt"
	"strings"

	"binnacle/internal/duration"
	"binnacle/internal/fleet"
)

// FleetConfig is what `binnacle fleet` runs with.
type FleetConfig struct {
	Kafka string       `help:"Address of a Kafka broker." default:"127.0.0.1:9092"`
	Topic string       `help:"Topic to publish to." default:"telemetry"`
	Fleet fleet.Config `kong:"embed"`
}

// Fleet publishes the readings of simulated trucks until the context ends, and returns nil then.
func Fleet(ctx context.Context, cfg FleetConfig, env Env) error {
	trucks := cfg.Fleet
	trucks.Kafka, trucks.Topic = cfg.Kafka, cfg.Topic
	if err := trucks.Validate(); err != nil {
		return err
	}
	return run(ctx, env, func(_ context.Context, p *process) error {
		p.addFleet(trucks)
		fmt.Fprintf(p.Stdout, "binnacle fleet\n  kafka   %s  topic %s\n  fleet   %s\n", cfg.Kafka, cfg.Topic, fleetLine(trucks))
		return nil
	})
}

func (p *process) addFleet(cfg fleet.Config) {
	cfg.Logger = p.part("fleet")
	p.add("fleet", fleet.New(cfg).Run)
}

// fleetLine says what a fleet does.
func fleetLine(c fleet.Config) string {
	return fmt.Sprintf("%d trucks, a reading every %s each, of the tenants %s in turn",
		c.Devices, duration.String(c.Interval), strings.Join(c.Tenants, " "))
}
