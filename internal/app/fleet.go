package app

import (
	"context"
	"fmt"
	"strings"

	"binnacle/internal/kafka"
	"binnacle/internal/lab/fleet"
	"binnacle/internal/ops"
	"binnacle/internal/text/duration"
)

// FleetConfig is what `binnacle fleet` runs with.
type FleetConfig struct {
	Kafka kafka.Config `kong:"embed,group='Kafka'"`
	Topic string       `help:"Topic to publish to." default:"telemetry"`
	Fleet fleet.Config `kong:"embed"`
}

// Run publishes the readings of simulated trucks until the context ends, and returns nil then.
func (cfg FleetConfig) Run(ctx context.Context, env ops.Env) error {
	return run(ctx, env, func(_ context.Context, p *process) error {
		cluster, err := p.openKafka(cfg.Kafka)
		if err != nil {
			return err
		}
		trucks := cfg.Fleet
		trucks.Topic = cluster.Topic(cfg.Topic)
		if err := trucks.Validate(); err != nil {
			return err
		}
		p.addFleet(trucks)
		fmt.Fprintf(p.Stdout, "binnacle fleet\n  kafka   %s  topic %s\n  fleet   %s\n",
			cluster.Address(), cfg.Topic, fleetLine(trucks))
		return nil
	})
}

func (p *process) addFleet(cfg fleet.Config) {
	cfg.Logger = p.partLogger("fleet")
	p.add("fleet", fleet.New(cfg).Run)
}

func fleetLine(c fleet.Config) string {
	return fmt.Sprintf("%d trucks, a reading every %s each, of the tenants %s in turn",
		c.Devices, duration.String(c.Interval), strings.Join(c.Tenants, " "))
}
