package ingest

import (
	"cmp"
	"log/slog"
	"math/rand/v2"
	"time"

	"binnacle/ingest/worker"
	"binnacle/internal/kafka"
	"binnacle/internal/settings"
	"binnacle/internal/store"
	"binnacle/internal/stream"
	"binnacle/internal/stream/topics"

	"github.com/prometheus/client_golang/prometheus"
)

// Config sets up an ingester. Its tags are the tags of package settings: flag, help, and default.
type Config struct {
	worker.Config

	Kafka       *kafka.Client `kong:"-"` // the cluster
	Topics      []string      `name:"topic" sep:"none" help:"Topics with readings, separated by commas. A name between slashes is a regular expression for whole names; it also matches topics made later. NAME=TENANT binds a topic to a tenant: its messages need not name one and may name no other. /lines[.](.+)/=$$1 binds each topic to the tenant in its name. A name that ends in .backfill is for backfills: the topic need not exist. Default: telemetry and telemetry.backfill." default:"telemetry,telemetry.backfill" placeholder:"TOPIC"`
	DeadLetters string        `help:"Topic of the dead letters. Default: the name of the first topic with .dlq." placeholder:"TOPIC"`
	Group       string        `help:"Consumer group of the ingesters." default:"binnacle"`
	Assign      string        `help:"Read partitions ORDINAL, ORDINAL+COUNT and so on without joining the group, so that a restart moves no partition of another process. auto/COUNT takes the ordinal from the end of the host name, as in a StatefulSet. All processes of the group need it, each with its own ordinal. Default: join the group." placeholder:"ORDINAL/COUNT"`

	// UseJournal is on or off; it sets Worker.Journal.
	UseJournal string `name:"journal" help:"on: rows of open bins also go to the journal, a topic named like theirs with .journal, so that a restart neither cuts nor replays them. off: no journal, and a hold of 30m unless --hold is set." enum:"on,off" default:"on"`
	SpillDir   string `kong:"-"` // where blocks go when memory is short; empty: bins are cut early instead

	DrainBudget  time.Duration `help:"Longest time that a shutdown spends on storing open bins." default:"5s"`
	CatalogBytes int64         `name:"catalog-memory-mb" help:"Memory for cached catalogs, in MiB. Ingest compares readings with them to find new devices and metrics. A million devices with eight tags take about 140 MiB." type:"mib" default:"256"`

	MemoryBytes int64         `name:"memory-mb" help:"Most memory of open bins, in MiB." type:"mib" default:"1024"`
	Session     time.Duration `name:"session-timeout" help:"Time after which the group gives the partitions of a process that does not answer to others." default:"30s"`
	// WatchEvery is the time between checks for new topics and partitions. GoneAfter is the time after which a topic
	// that is missing counts as deleted.
	WatchEvery time.Duration `kong:"-" default:"5s"`
	GoneAfter  time.Duration `kong:"-" default:"30s"`
	// SnapshotAge is the age from which on a snapshot is read again because chains wait for a newer one. The directory
	// reads changes more often than that; this is for when it can't, and for the end of the process.
	SnapshotAge time.Duration `kong:"-" default:"2500ms"`
	// how long one attempt at a write may take: then its outcome is unknown
	Patience  time.Duration `kong:"-" default:"10s"`
	DeniedFor time.Duration `kong:"-" default:"1m"` // how long the store may deny access before the ingester gives up

	Now        func() time.Time      `kong:"-"` // time.Now
	Logger     *slog.Logger          `kong:"-"` // slog.Default
	Registerer prometheus.Registerer `kong:"-"`
}

func (c Config) withDefaults() Config {
	c.Logger = cmp.Or(c.Logger, slog.Default())
	settings.Defaults(&c)
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

// Validate reports every fault at once, by the names of flags.
func (c Config) Validate() error {
	_, faulty := c.Set()
	faults := settings.Faults{c.Config.Validate(), faulty, CheckAssign(c.Assign)}
	faults.Check(c.DrainBudget >= 0 && c.DrainBudget <= MaxDrainBudget, "--drain-budget %s: it lies between 0 and %s",
		c.DrainBudget, MaxDrainBudget)
	faults.Check(c.Session >= MinSession, "--session-timeout %s: at least %s are needed", c.Session, MinSession)
	faults.Check(c.Session < MinSession || c.DrainBudget < c.Session,
		"--drain-budget %s: it must be below --session-timeout %s", c.DrainBudget, c.Session)
	faults.Check(c.UseJournal == "on" || c.UseJournal == "off", "--journal %q: it is on or off", c.UseJournal)
	return faults.Err()
}

// Set returns the topics that are read.
func (c Config) Set() (topics.Set, error) { return topics.Parse(c.Topics, c.DeadLetters) }

// with adds a schema registry's schemas for decoding and turns on the journal, if stores have them.
func (c Config) with(stores Stores) Config {
	if c.Config.Journal = stores.Journal != nil; c.Nonce == nil {
		c.Nonce = rand.Uint64
	}
	if stores.Schemas != nil {
		c.Decode.Schemas = stores.Schemas
	}
	return c
}

// Stores is everything outside that a Worker's jobs need.
type Stores struct {
	Chunks      store.Writer
	Directory   Directory
	Catalog     store.Catalog
	Streams     *stream.Streams
	DeadLetters DeadLetterWriter
	Journal     Journal // nil without a journal
	Blocks      Blocks  // the journal's, for a takeover; only an Ingester needs them
	Schemas     Schemas // nil where no registry is configured
}
