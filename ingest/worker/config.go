package worker

import (
	"errors"
	"fmt"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/settings"
)

// Config is how a Worker works. Its tags are package settings's: what a field means, and the default that it has
// without a value.
type Config struct {
	Topic    string         `help:"Topic that readings are published to." default:"telemetry"`
	Decode   decode.Options `kong:"embed"`
	Register bool           `kong:"-"` // unknown tenants are registered as they come; else their readings are dead letters

	Hold   time.Duration `help:"Longest time that a reading waits in memory before it is written." default:"${hold=30m}"`
	Future time.Duration `help:"How far an event time may lie after its record's Kafka timestamp." default:"10m"`
	// Past is what Worker accepts; 0 is the tenant's retention, or 400 days where it keeps for ever, and negative any
	// age.
	Past        time.Duration `help:"How old a reading may be, such as 400d, within the retention. 0: any age in dev, else 400 days where a tenant keeps for ever."`
	CommitEvery time.Duration `help:"How often offsets are committed." default:"1s"`
	MaxBehind   int64         `help:"Records that a bin may hold back the committed offset." default:"10000000"`
	MaxWrites   int           `help:"Writes in flight for each partition." default:"32"`
	Linger      time.Duration `kong:"-" default:"2s"` // how long a chunk stays in the head after it was acknowledged
	// how often first and last of a device go to the catalog; negative: with every chunk
	NoteEvery  time.Duration `kong:"-" default:"6h"`
	StampEvery time.Duration `kong:"-" default:"5m"` // how often a partition's mark is renewed

	// first pause after a job that failed, doubled up to 64 times of it
	RetryBackoff time.Duration `kong:"-" default:"50ms"`
	// FullBackoff is the first pause after a create in a partition key that is full, doubled up to 24 times of it.
	FullBackoff time.Duration `kong:"-" default:"15m"`
}

// WithDefaults is the config with a value in every field.
func (c Config) WithDefaults() Config {
	settings.Defaults(&c)
	return c
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	var faults []error
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"hold", c.Hold}, {"future", c.Future}, {"linger", c.Linger}, {"commit-every", c.CommitEvery},
		{"stamp-every", c.StampEvery},
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
