package app

import (
	"context"
	"fmt"
	"strings"

	"binnacle/internal/lab/broker"
	"binnacle/internal/ops"
)

// BrokerConfig sets `binnacle broker`.
type BrokerConfig struct {
	Broker    broker.Config `kong:"embed"`
	DataDir   string        `help:"Data directory." default:"./binnacle-data/kafka"`
	Topics    []string      `help:"Topics that are created unless they exist." default:"telemetry,telemetry.dlq,telemetry.journal"`
	Groups    []string      `help:"Consumer groups that must have committed a record before it is deleted." default:"binnacle"`
	Advertise string        `help:"Address that clients get to connect to, host:port. Default: the listening address." placeholder:"ADDRESS"`
}

// Run serves the embedded Kafka alone until the context ends, and returns nil then.
func (cfg BrokerConfig) Run(ctx context.Context, env ops.Env) error {
	in := cfg.Broker
	in.DataDir, in.Topics, in.Groups, in.Advertise = cfg.DataDir, cfg.Topics, cfg.Groups, cfg.Advertise
	var faults faults
	faults.Check(cfg.DataDir != "", "--data-dir is empty")
	faults.Check(in.Partitions >= 1, "--partitions %d: a topic has at least 1", in.Partitions)
	faults.Check(in.RetentionBytes >= 0, "--kafka-mb %d is negative", in.RetentionBytes>>20)
	if err := faults.Err(); err != nil {
		return err
	}
	return run(ctx, env, func(_ context.Context, p *process) error {
		if err := writable(cfg.DataDir); err != nil {
			return err
		}
		b, err := p.openBroker(in)
		if err != nil {
			return err
		}
		fmt.Fprintf(p.Stdout, "binnacle broker\n  kafka   %s  no login\n  topics  %s\n  data    %s\n",
			b.Addr(), strings.Join(cfg.Topics, " "), cfg.DataDir)
		return nil
	})
}

func (p *process) openBroker(cfg broker.Config) (*broker.Broker, error) {
	cfg = withJournals(cfg)
	cfg.Logger, cfg.Fatal = p.partLogger("kafka"), p.Fatal
	b, err := broker.Open(cfg)
	if err != nil {
		return nil, err
	}
	p.onClose("the embedded Kafka", b.Close)
	p.add("kafka", b.Run)
	return b, nil
}
