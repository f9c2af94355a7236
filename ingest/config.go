package ingest

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"binnacle/ingest/decode"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
)

// Config is how an ingester works. Fields without a value take the default that their comment names.
type Config struct {
	Kafka       string // host:port of a broker
	Topic       string // what is read; "telemetry"
	DeadLetters string // where refused records go; the topic's name with ".dlq"
	Group       string // consumer group; "binnacle"

	// How connections are made: TLS, SASL. The group's own use Dialer, all others Transport; nil is plain TCP.
	Dialer    *kafka.Dialer
	Transport kafka.RoundTripper

	Decode   decode.Options
	Register bool // unknown tenants are registered as they come; else their readings are dead letters

	Hold         time.Duration // longest wait of a reading in a bin; 30 min
	Future       time.Duration // accepted event time after the record's Kafka timestamp; 10 min
	Linger       time.Duration // how long a chunk stays in the head after it was acknowledged; 2 s
	NoteEvery    time.Duration // how often a device's first and last time are written to the catalog; 6 h, negative: with every chunk
	CommitEvery  time.Duration // how often offsets are committed; 1 s
	DrainBudget  time.Duration // how long shutdown may write what is in memory; 5 s
	MemoryBytes  int64         // bound of what is held in memory; 1 GiB
	MaxBehind    int64         // records that a bin may hold back the committed offset; 10 million
	MaxWrites    int           // writes in flight per partition; 32
	StampEvery   time.Duration // how often a partition's mark is renewed; 5 min
	WatchEvery   time.Duration // how often the topic is looked at for partitions that were added; 5 s
	RetryBackoff time.Duration // first pause after a write of unknown outcome, doubled up to 64 times of it; 50 ms

	Now        func() time.Time // time.Now
	Logger     *slog.Logger     // slog.Default
	Registerer prometheus.Registerer
}

func (c Config) withDefaults() Config {
	def(&c.Topic, "telemetry")
	def(&c.DeadLetters, c.Topic+".dlq")
	def(&c.Group, "binnacle")
	def(&c.Hold, 30*time.Minute)
	def(&c.Future, 10*time.Minute)
	def(&c.Linger, 2*time.Second)
	def(&c.NoteEvery, 6*time.Hour)
	def(&c.CommitEvery, time.Second)
	def(&c.DrainBudget, 5*time.Second)
	def(&c.MemoryBytes, 1<<30)
	def(&c.MaxBehind, 10_000_000)
	def(&c.MaxWrites, 32)
	def(&c.StampEvery, 5*time.Minute)
	def(&c.WatchEvery, 5*time.Second)
	def(&c.RetryBackoff, 50*time.Millisecond)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	return c
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// maxDrainBudget is less than the group's session timeout of 30 s: there are no heartbeats while the last generation drains.
const maxDrainBudget = 20 * time.Second

// Validate reports every fault at once.
func (c Config) Validate() error {
	var errs []error
	if c.Kafka == "" {
		errs = append(errs, errors.New("kafka: the address of a broker is missing"))
	}
	if c.DeadLetters == c.Topic && c.Topic != "" {
		errs = append(errs, fmt.Errorf("topic %q can't hold its own dead letters", c.Topic))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"hold", c.Hold}, {"future", c.Future}, {"linger", c.Linger}, {"commit-every", c.CommitEvery}, {"drain-budget", c.DrainBudget},
		{"stamp-every", c.StampEvery}, {"watch-every", c.WatchEvery}, {"retry-backoff", c.RetryBackoff}} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("%s %s is negative", d.name, d.value))
		}
	}
	if c.DrainBudget > maxDrainBudget {
		errs = append(errs, fmt.Errorf("drain-budget %s is above %s: the group would give the partitions away meanwhile", c.DrainBudget, maxDrainBudget))
	}
	for _, n := range []struct {
		name  string
		value int64
	}{{"memory", c.MemoryBytes}, {"max-behind", c.MaxBehind}, {"max-writes", int64(c.MaxWrites)}} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("%s %d is negative", n.name, n.value))
		}
	}
	return errors.Join(errs...)
}
