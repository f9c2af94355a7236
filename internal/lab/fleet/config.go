package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"binnacle/internal/kafka"
	"binnacle/internal/telemetry"
)

// Config sets the devices of a fleet and where they publish. Its tags are package settings's.
type Config struct {
	// Topic is the topic to publish to. A Publisher replaces it.
	Topic *kafka.Topic `kong:"-"`

	// Devices is the number of trucks; a fleet of 0 reports nothing.
	Devices int `name:"fleet" help:"Number of simulated trucks. Each reports ten metrics every --fleet-interval. 0: none." default:"${fleet=20}"`

	Interval time.Duration `name:"fleet-interval" help:"Time between two readings of a truck." default:"1s"`

	// Tenants own the trucks in turn: truck i belongs to tenant i modulo their number, so a truck stays with its tenant
	// when Devices grows.
	Tenants []string `name:"fleet-tenants" help:"Tenants of the trucks, in turn." default:"acme,globex"`

	// Seed decides the trucks and their sequences of values.
	Seed uint64 `name:"fleet-seed" help:"Seed of the trucks' routes." default:"1"`

	// Publisher, if not nil, replaces Kafka.
	Publisher Publisher `kong:"-"`

	Now    func() time.Time `kong:"-"` // time.Now if nil
	Logger *slog.Logger     `kong:"-"` // nil logs nothing
}

// Record is a message of a device. Its key keeps the order among the device's messages.
type Record struct {
	Key   []byte // tenant/device
	Value []byte // a reading as JSON
}

// Publisher sends records. One goroutine at a time calls it. It keeps the order of records with equal keys.
type Publisher interface {
	// Publish returns the unacknowledged records, in order, and the reason; nil and nil once all are durable. A returned
	// record may still have arrived. The contents of the slices must not change until they are acknowledged.
	Publish(ctx context.Context, records []Record) ([]Record, error)
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.Publisher == nil && c.Topic == nil {
		fault("a fleet needs a topic to publish to")
	}
	for _, tenant := range c.Tenants {
		if err := telemetry.CheckTenant(tenant); err != nil {
			faults = append(faults, err)
		}
	}
	if c.Devices < 0 {
		fault("a fleet of %d devices", c.Devices)
	}
	if c.Interval < 0 || c.Interval > 0 && c.Interval < time.Millisecond {
		fault("a report every %s: at least 1ms must lie between two", c.Interval)
	}
	return errors.Join(faults...)
}

func (c Config) withDefaults() Config {
	if len(c.Tenants) == 0 {
		c.Tenants = []string{"acme", "globex"}
	}
	c.Interval = cmp.Or(c.Interval, time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}
