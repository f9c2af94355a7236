package cosmosemu

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"binnacle/internal/cosmosemu/budget"
	"binnacle/internal/cosmosemu/engine"
	"binnacle/internal/ru"
)

// Key is the master key of every emulator of Cosmos DB, published by Microsoft. It is no secret.
const Key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

// Config says how a Server keeps its data and what it models. DataDir or InMemory must be set; all
// else has a working zero value.
type Config struct {
	// DataDir is the directory of the data, made when absent. One Server at a time may hold it.
	DataDir string
	// InMemory keeps the data in memory, without a log: for tests. DataDir is then not used.
	InMemory bool
	// Sync makes an acknowledged write survive a power failure. Without it, it survives the end of
	// the process, however sudden: it has been handed to the operating system.
	Sync bool
	// Now is the clock of everything that is modelled: budgets, timestamps, time to live. Default
	// time.Now.
	Now func() time.Time
	// PhysicalPartitions, when above zero, is the number of physical partitions of every new
	// container, whatever its throughput.
	PhysicalPartitions int
	// Unlimited switches the budgets off: nothing is answered 429. Charges are counted as always.
	Unlimited bool
	// RefuseBefore answers 429 to a request whose charge would overdraw the second of its physical
	// partition, before it does anything. Without it, a request is admitted while its second has some
	// budget left, and its debt is carried into the next seconds.
	RefuseBefore bool
	// Burst lets a physical partition of less than 3,000 RU/s save up to 300 seconds of budget that it
	// did not use, and spend it at up to 3,000 RU/s. Off by default: it hides hot partitions.
	Burst bool
	// PrefixVisitsAll makes a query over a prefix of a hierarchical key that arrives without a range of
	// effective partition keys visit, and pay for, every physical partition. Without it, only those
	// that the prefix touches. What the service does for such clients is not published.
	PrefixVisitsAll bool
	// Limits are the service's, unless lowered.
	Limits engine.Limits
	// SplitTakes is how long a split takes by Now: one for storage, or those that raising the
	// throughput beyond 10,000 RU/s for each physical partition needs. Default 5 h, as the service's
	// typical 4 to 6 h. Below zero: they are done before the next request.
	SplitTakes time.Duration
	// Region is the name of the one region. Default "South Central US".
	Region string
	// Consistency is the account's default consistency level: Strong, BoundedStaleness, Session,
	// ConsistentPrefix or Eventual. Default Session. Every read sees the last write under all of them;
	// under the first two, reads are charged twice.
	Consistency string
	// Advertise is the endpoint that the account document names, such as "https://127.0.0.1:8081/".
	// Default: scheme and host of the request, which works through every address the Server has.
	Advertise string
	// Model is how item sizes are charged. Default ru.TableT.
	Model ru.Model
	// SweepEvery is how often Run looks for expired items. Default 5 s.
	SweepEvery time.Duration
	// Logger takes what the storage engine reports. Default: nowhere.
	Logger *slog.Logger
}

// engine returns what the room below needs of a configuration that has its defaults.
func (c Config) engine() engine.Config {
	return engine.Config{
		DataDir: c.DataDir, InMemory: c.InMemory, Sync: c.Sync, PhysicalPartitions: c.PhysicalPartitions,
		Rules:           budget.Rules{Unlimited: c.Unlimited, Refuse: c.RefuseBefore, Burst: c.Burst},
		PrefixVisitsAll: c.PrefixVisitsAll, Limits: c.Limits, SplitTakes: c.SplitTakes, Model: c.Model, Logger: c.Logger,
	}
}

func (c Config) withDefaults() (Config, error) {
	if c.DataDir == "" && !c.InMemory {
		return c, errors.New("cosmosemu: DataDir or InMemory must be set")
	}
	if c.PhysicalPartitions < 0 {
		return c, errors.New("cosmosemu: PhysicalPartitions must not be negative")
	}
	c.Limits = c.Limits.WithDefaults()
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Region == "" {
		c.Region = "South Central US"
	}
	if c.Consistency == "" {
		c.Consistency = "Session"
	}
	if strength(c.Consistency) < 0 {
		return c, fmt.Errorf("cosmosemu: Consistency %q is none of %s", c.Consistency, strings.Join(levels, ", "))
	}
	switch {
	case c.SplitTakes == 0:
		c.SplitTakes = 5 * time.Hour
	case c.SplitTakes < 0:
		c.SplitTakes = 0
	}
	if c.SweepEvery <= 0 {
		c.SweepEvery = 5 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Limits are the bounds that the service sets; a test may lower them.
type Limits = engine.Limits

// PartitionStats is what one physical partition holds and has done.
type PartitionStats = engine.Stats
