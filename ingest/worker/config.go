package worker

import (
	"binnacle/binning"
	"binnacle/ingest/admit"
	"binnacle/ingest/bins"
	"binnacle/ingest/catalogupdates"
	"binnacle/ingest/decode"
	"binnacle/ingest/write"
	"binnacle/internal/settings"
	"binnacle/internal/tenant"
	"cmp"
	"math"
	"time"
)

// Config is how a Worker works. Its tags are package settings's: what a field means, and the default that it has
// without a value.
type Config struct {
	Topic    string         `kong:"-"` // the topic that the partition belongs to
	Decode   decode.Options `kong:"embed"`
	Register bool           `kong:"-"` // unknown tenants are registered as they come; else their readings are dead letters
	// Registrations bounds how many tenants are registered. No record waits for that: the tenants' readings are
	// deferred until then. With nil Feed fails with *UnknownTenant, and the caller registers.
	Registrations *admit.Registrations `kong:"-"`
	RegisterRate  int                  `help:"Most tenants that a process registers in a minute for the readings of one topic; four times as many in all. Readings of further new tenants wait in Kafka, for --held-for at most." default:"120"`

	// Hold defaults to 12 h with a journal and to 30 min without.
	Hold time.Duration `help:"Longest time that a reading waits in memory before it is stored. From 12h on the time begins at the end of the reading's day." default:"${hold=0s}" placeholder:"${hold=12h}"`
	// Journal turns on the journal of open bins' rows.
	Journal      bool          `kong:"-"`
	JournalEvery time.Duration `help:"Longest time until a reading is in the journal." default:"15m"`
	// Shelf takes blocks when memory is short. With nil they are written early instead.
	Shelf binning.Shelf `kong:"-"`
	// Nonce returns a random number that no other process returns. It must be set with a journal.
	Nonce func() uint64 `kong:"-"`

	// Limits apply to tenants without limits of their own.
	Limits  tenant.IngestLimits `kong:"embed,prefix='tenant-'"`
	HeldFor time.Duration       `help:"Longest time that readings above their tenant's rate limit wait in Kafka before they are refused. After a crash, records above the oldest of them are read again." default:"15m"`

	// FairAfter disables fairness when it is negative.
	FairAfter time.Duration `help:"Lag of a partition from which on the tenant that sends the most is deferred, so that others need not wait. Deferred readings are read later; none is refused. Negative disables it." default:"500ms"`

	Future time.Duration `help:"Furthest that an event time may lie after the Kafka timestamp of its record." default:"10m"`
	// Past is what Worker accepts; 0 is the tenant's retention, or 400 days without one, and negative any age.
	Past        time.Duration `help:"Greatest age of a reading, such as 400d, within the tenant's retention. Default: any age in dev; elsewhere 400d for tenants without a retention."`
	CommitEvery time.Duration `help:"Time between two commits of offsets." default:"1s"`
	// MaxBehind is 10 million without a journal unless it is set; with one there is no bound but the source's retention.
	MaxBehind int64         `help:"Most records that an open bin may hold back the committed offset. Default: no limit, or 10 million with --journal=off." default:"0" placeholder:"RECORDS"`
	MaxWrites int           `help:"Most writes in flight for each Kafka partition." default:"32"`
	Linger    time.Duration `kong:"-" default:"2s"` // how long a chunk stays in the head after it was acknowledged
	// CatalogEvery is how often the times of a device that still reports are written to the catalog. Until then the
	// journal has them, if there is one. Negative: with every chunk, before its offsets are committed.
	CatalogEvery time.Duration `kong:"-" default:"168h"`
	// CatalogWait is the pause after an update of the catalog, so that devices share pages; negative: no pause.
	CatalogWait time.Duration `kong:"-" default:"10s"`
	StampEvery  time.Duration `kong:"-" default:"5m"` // how often a partition's mark is renewed

	// first pause after a job that failed, doubled up to 64 times of it
	RetryBackoff time.Duration `kong:"-" default:"50ms"`
	// FullBackoff is the first pause after a create in a partition key that is full, doubled up to 24 times of it.
	FullBackoff time.Duration `kong:"-" default:"15m"`
}

// WithDefaults returns the config with a value in every field.
func (c Config) WithDefaults() Config {
	settings.Defaults(&c)
	hold, behind := 30*time.Minute, int64(10_000_000)
	if c.Journal {
		hold, behind = bins.LongHold, math.MaxInt64/4 // sums with offsets must not overflow
	}
	c.Hold, c.MaxBehind = cmp.Or(c.Hold, hold), cmp.Or(c.MaxBehind, behind)
	return c
}

// MaxJobs returns the most jobs of one Worker that may be in flight: writes, catalog updates, publications of three
// kinds, registrations, a lookup of label values, a stamp, an append.
func (c Config) MaxJobs() int {
	return c.MaxWrites + catalogupdates.MaxRunning + write.MaxPublications + write.PublicationsAtOnce + 1 +
		admit.MaxRegistering + 3
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	var faults settings.Faults
	faults.Check(c.Hold >= 0, "--hold %s is negative; 0 is the default", c.Hold)
	faults.Check(c.Future >= 0, "--future %s is negative", c.Future)
	faults.Check(c.HeldFor >= 0, "--held-for %s is negative", c.HeldFor)
	faults.Check(c.MaxBehind >= 0, "--max-behind %d is negative; 0 is the default", c.MaxBehind)
	faults.Check(c.RegisterRate >= 0, "--register-rate %d is negative", c.RegisterRate)
	faults.Check(c.CommitEvery > 0, "--commit-every %s is not above 0", c.CommitEvery)
	faults.Check(c.JournalEvery > 0, "--journal-every %s is not above 0", c.JournalEvery)
	faults.Check(c.MaxWrites > 0, "--max-writes %d is not above 0", c.MaxWrites)
	return faults.Err()
}
