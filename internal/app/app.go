// Package app builds the roles from their configuration and runs them: it is the one place that knows
// which implementation stands behind which contract. It has no rules of its own.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"binnacle/ingest/decode"
)

// DevConfig is what `binnacle dev` runs with. Addresses are host:port; port 0 takes a free one.
type DevConfig struct {
	Kafka  string // where the embedded broker listens
	Cosmos string // where the embedded Cosmos DB listens, beside the in-memory way in
	API    string // where queries are answered
	Admin  string // metrics, health, profiles

	DataDir    string        // holds kafka/ and cosmos/
	Partitions int           // of the topics
	Fleet      int           // simulated trucks; 0 none
	Hold       time.Duration // longest wait of a reading in memory
	Future     time.Duration // accepted event time after the record's Kafka timestamp
	Retention  time.Duration // of tenants that are new; 0 for ever
	Memory     int64         // bound of what ingest holds, bytes
	Decode     decode.Options

	PhysicalPartitions int // of every new container; 0 as the service does

	Stdout io.Writer
	Logger *slog.Logger
}

// Validate reports every fault that can be seen before anything is opened. Errors name the flags of `binnacle dev`.
func (c DevConfig) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(c.DataDir != "", "--data-dir is empty")
	check(c.Partitions >= 1, "--partitions %d: a topic has at least 1", c.Partitions)
	check(c.Fleet >= 0, "--fleet %d is negative", c.Fleet)
	check(c.Hold > 0, "--hold %s is not above 0", c.Hold)
	check(c.Future >= 0, "--future %s is negative", c.Future)
	check(c.Retention >= 0, "--retention %s is negative; 0 keeps for ever", c.Retention)
	check(c.Memory >= minMemory, "--memory-mb %d: at least %d are needed", c.Memory>>20, minMemory>>20)
	check(c.PhysicalPartitions >= 0, "--physical-partitions %d is negative; 0 does as the service", c.PhysicalPartitions)
	return errors.Join(faults...)
}

// minMemory is room for the largest record and for some bins at their target.
const minMemory = 16 << 20

// Names of what dev runs.
const (
	Topic       = "telemetry"
	DeadLetters = "telemetry.dlq"
	Group       = "binnacle"
)

// Dev runs everything in one process until the context ends, and returns nil then.
func Dev(ctx context.Context, cfg DevConfig) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	d := &dev{cfg: cfg, log: cfg.Logger, life: newLifecycle(cfg.Logger)}
	defer d.close()
	defer d.life.stop()
	err := d.open(ctx)
	if err == nil {
		err = d.start(ctx)
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // it was stopped while it started
	}
	if err != nil {
		return err
	}
	return d.life.wait(ctx)
}
