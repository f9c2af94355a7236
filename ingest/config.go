package ingest

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"binnacle/ingest/worker"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
)

// Config is how an ingester works. Fields without a value take the default that their comment names.
type Config struct {
	worker.Config

	Kafka       string // host:port of a broker
	DeadLetters string // where refused records go; the topic's name with ".dlq"
	Group       string // consumer group; "binnacle"

	// How connections are made: TLS, SASL. The group's own use Dialer, all others Transport; nil is plain TCP.
	Dialer    *kafka.Dialer
	Transport kafka.RoundTripper

	DrainBudget time.Duration // how long shutdown may write what is in memory; 5 s
	MemoryBytes int64         // bound of what is held in memory; 1 GiB
	WatchEvery  time.Duration // how often the topic is looked at for partitions that were added; 5 s
	Patience    time.Duration // how long one attempt at a write may take: then its outcome is unknown; 10 s
	DeniedFor   time.Duration // how long the store may deny access before the ingester gives up; 1 min

	Now        func() time.Time // time.Now
	Logger     *slog.Logger     // slog.Default
	Registerer prometheus.Registerer
}

func (c Config) withDefaults() Config {
	c.Config = c.Config.WithDefaults()
	c.DeadLetters = cmp.Or(c.DeadLetters, c.Topic+".dlq")
	c.Group = cmp.Or(c.Group, "binnacle")
	c.DrainBudget = cmp.Or(c.DrainBudget, 5*time.Second)
	c.MemoryBytes = cmp.Or(c.MemoryBytes, 1<<30)
	c.WatchEvery = cmp.Or(c.WatchEvery, 5*time.Second)
	c.Patience = cmp.Or(c.Patience, 10*time.Second)
	c.DeniedFor = cmp.Or(c.DeniedFor, time.Minute)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	return c
}

// maxDrainBudget is less than the group's session timeout of 30 s: there are no heartbeats while the last generation drains.
const maxDrainBudget = 20 * time.Second

// Validate reports every fault at once.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate()}
	if c.Kafka == "" {
		errs = append(errs, errors.New("kafka: the address of a broker is missing"))
	}
	if c.DeadLetters == c.Topic && c.Topic != "" {
		errs = append(errs, fmt.Errorf("topic %q can't hold its own dead letters", c.Topic))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"drain-budget", c.DrainBudget}, {"watch-every", c.WatchEvery}, {"patience", c.Patience}, {"denied-for", c.DeniedFor}} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("%s %s is negative", d.name, d.value))
		}
	}
	if c.DrainBudget > maxDrainBudget {
		errs = append(errs, fmt.Errorf("drain-budget %s is above %s: the group would give the partitions away meanwhile", c.DrainBudget, maxDrainBudget))
	}
	if c.MemoryBytes < 0 {
		errs = append(errs, fmt.Errorf("memory %d is negative", c.MemoryBytes))
	}
	return errors.Join(errs...)
}
