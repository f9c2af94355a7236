package worker

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"binnacle/ingest/decode"
)

// Config is how a Worker works. Fields without a value take the default that their comment names.
type Config struct {
	Topic    string // what is read; "telemetry"
	Decode   decode.Options
	Register bool // unknown tenants are registered as they come; else their readings are dead letters

	Hold        time.Duration // longest wait of a reading in a bin; 30 min
	Future      time.Duration // accepted event time after the record's Kafka timestamp; 10 min
	Linger      time.Duration // how long a chunk stays in the head after it was acknowledged; 2 s
	NoteEvery   time.Duration // how often a device's first and last time are written to the catalog; 6 h, negative: with every chunk
	CommitEvery time.Duration // how often offsets are committed; 1 s
	MaxBehind   int64         // records that a bin may hold back the committed offset; 10 million
	MaxWrites   int           // writes in flight per partition; 32
	StampEvery  time.Duration // how often a partition's mark is renewed; 5 min

	RetryBackoff time.Duration // first pause after a job that failed, doubled up to 64 times of it; 50 ms
	FullBackoff  time.Duration // first pause after a create in a partition key that is full, doubled up to 24 times of it; 15 min
}

// WithDefaults is the config with a value in every field.
func (c Config) WithDefaults() Config {
	c.Topic = cmp.Or(c.Topic, "telemetry")
	c.Hold = cmp.Or(c.Hold, 30*time.Minute)
	c.Future = cmp.Or(c.Future, 10*time.Minute)
	c.Linger = cmp.Or(c.Linger, 2*time.Second)
	c.NoteEvery = cmp.Or(c.NoteEvery, 6*time.Hour)
	c.CommitEvery = cmp.Or(c.CommitEvery, time.Second)
	c.MaxBehind = cmp.Or(c.MaxBehind, 10_000_000)
	c.MaxWrites = cmp.Or(c.MaxWrites, 32)
	c.StampEvery = cmp.Or(c.StampEvery, 5*time.Minute)
	c.RetryBackoff = cmp.Or(c.RetryBackoff, 50*time.Millisecond)
	c.FullBackoff = cmp.Or(c.FullBackoff, 15*time.Minute)
	return c
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	var faults []error
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"hold", c.Hold}, {"future", c.Future}, {"linger", c.Linger}, {"commit-every", c.CommitEvery}, {"stamp-every", c.StampEvery},
		{"retry-backoff", c.RetryBackoff}, {"full-backoff", c.FullBackoff}} {
		if d.value < 0 {
			faults = append(faults, fmt.Errorf("%s %s is negative", d.name, d.value))
		}
	}
	for _, n := range []struct {
		name  string
		value int64
	}{{"max-behind", c.MaxBehind}, {"max-writes", int64(c.MaxWrites)}} {
		if n.value < 0 {
			faults = append(faults, fmt.Errorf("%s %d is negative", n.name, n.value))
		}
	}
	return errors.Join(faults...)
}
