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

	DrainBudget  time.Duration // how long shutdown may write what is in memory; 5 s
	MemoryBytes  int64         // bound of what is held in memory; 1 GiB
	WatchEvery   time.Duration // how often the topic is looked at for partitions that were added; 5 s
	RetryBackoff time.Duration // first pause after a write of unknown outcome, doubled up to 64 times of it; 50 ms

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
	c.RetryBackoff = cmp.Or(c.RetryBackoff, 50*time.Millisecond)
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
	}{{"drain-budget", c.DrainBudget}, {"watch-every", c.WatchEvery}, {"retry-backoff", c.RetryBackoff}} {
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
