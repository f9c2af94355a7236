package ingest

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"binnacle/ingest/worker"
	"binnacle/internal/kafka"
	"binnacle/internal/settings"

	"github.com/prometheus/client_golang/prometheus"
)

// Config is how an ingester works. Its tags are package settings's: what a field means, and the default that it has
// without a value.
type Config struct {
	worker.Config

	Kafka       *kafka.Client `kong:"-"` // the cluster
	DeadLetters string        `help:"Topic that refused records go to. Default: the topic's name with .dlq."`
	Group       string        `help:"Consumer group." default:"binnacle"`

	DrainBudget time.Duration `help:"How long shutdown may write what is in memory." default:"5s"`
	MemoryBytes int64         `name:"memory-mb" help:"Bound of what ingest holds in memory, in MiB." type:"mib" default:"1024"`
	Session     time.Duration `name:"session-timeout" help:"How long the group waits for a process that does not answer before others take its partitions." default:"30s"`
	WatchEvery  time.Duration `kong:"-" default:"5s"` // how often the topic is looked at for partitions that were added
	// how long one attempt at a write may take: then its outcome is unknown
	Patience  time.Duration `kong:"-" default:"10s"`
	DeniedFor time.Duration `kong:"-" default:"1m"` // how long the store may deny access before the ingester gives up

	Now        func() time.Time      `kong:"-"` // time.Now
	Logger     *slog.Logger          `kong:"-"` // slog.Default
	Registerer prometheus.Registerer `kong:"-"`
}

func (c Config) withDefaults() Config {
	settings.Defaults(&c)
	c.DeadLetters = cmp.Or(c.DeadLetters, c.Topic+".dlq")
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	return c
}

// MinSession is what Apache Kafka and Event Hubs take as the shortest session (group.min.session.timeout.ms).
const MinSession = 6 * time.Second

// MaxDrainBudget is less than the group's session timeout as it is by default: there are no heartbeats while the last
// generation drains.
const MaxDrainBudget = 20 * time.Second

// Validate reports every fault at once.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate()}
	if c.Kafka == nil {
		errs = append(errs, errors.New("there is no cluster to read from"))
	}
	if c.DeadLetters == c.Topic && c.Topic != "" {
		errs = append(errs, fmt.Errorf("topic %q can't hold its own dead letters", c.Topic))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"drain-budget", c.DrainBudget}, {"watch-every", c.WatchEvery}, {"patience", c.Patience},
		{"denied-for", c.DeniedFor}} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("%s %s is negative", d.name, d.value))
		}
	}
	if c.Session < MinSession {
		errs = append(errs, fmt.Errorf("session-timeout %s is below %s, which no broker takes", c.Session, MinSession))
	}
	if c.DrainBudget >= c.Session {
		errs = append(errs, fmt.Errorf("drain-budget %s is not below session-timeout %s", c.DrainBudget, c.Session))
	}
	if c.DrainBudget > MaxDrainBudget {
		errs = append(errs, fmt.Errorf("drain-budget %s is above %s: the group would give the partitions away meanwhile",
			c.DrainBudget, MaxDrainBudget))
	}
	if c.MemoryBytes < 0 {
		errs = append(errs, fmt.Errorf("memory %d is negative", c.MemoryBytes))
	}
	return errors.Join(errs...)
}

// with has messages read by the schemas of a registry.
func (c Config) with(stores Stores) Config {
	if stores.Schemas != nil {
		c.Decode.Schemas = stores.Schemas
	}
	return c
}
