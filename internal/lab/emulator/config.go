package emulator

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/budget"
	"binnacle/internal/lab/emulator/engine"
)

// Key is the master key of every emulator of Cosmos DB, published by Microsoft. It is no secret.
const Key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

// Config sets how a Server keeps its data and what it models. DataDir or InMemory must be set; all else has a
// working zero value. Its tags name the command's flags.
type Config struct {
	// DataDir is the directory of the data, made when absent. One Server at a time may hold it.
	DataDir string `kong:"-"`
	// InMemory keeps the data in memory, without a log: for tests. DataDir is then not used.
	InMemory bool `kong:"-"`
	// Sync is for power failures. Without it, an acknowledged write survives the end of the process, however sudden:
	// it has been handed to the operating system.
	Sync bool `help:"Make every write survive a power failure. Default: writes survive the end of the process."`
	// Now is the clock of everything that is modelled: budgets, timestamps, time to live. Default
	// time.Now.
	Now func() time.Time `kong:"-"`

	PhysicalPartitions int `help:"Number of physical partitions of every new container. Default: by throughput, as in the service."`
	// Capacity is the mode of a new account, provisioned or serverless: one without a database.
	Capacity string `help:"Capacity mode of a new account: provisioned or serverless. A serverless one takes no throughput. PUT /_emulator/capacity makes it provisioned." enum:"provisioned,serverless" default:"provisioned"`
	// Limits are the service's, unless lowered.
	Limits Limits `kong:"embed"`
	// SplitTakes is the duration of a split by Now. A split is for storage, or for throughput beyond 10,000
	// RU/s for each physical partition; the service takes 4 to 6 h. Below zero: a split is done before the next
	// request.
	SplitTakes time.Duration `help:"Duration of a split of physical partitions. Negative: none." default:"5h"`

	// Faults lets clients on the same machine set rules by which the Server fails, at /_emulator/faults. Go code has
	// Server.Faults in any case.
	Faults bool `help:"Let clients on this machine inject faults by rules at /_emulator/faults."`
	// Model is how item sizes are charged.
	Model   ru.Model   `name:"ru-model" help:"Model of charges by item size: step, where a size between two rows of the table of the service is charged as the next row, or slope, on a line between both." default:"step"`
	Factors ru.Factors `name:"ru-factors" help:"File with the output of binnacle doctor --measure --json. Its factors multiply modelled charges. Default: none." placeholder:"FILE"`
	// Unlimited counts charges as always.
	Unlimited bool `help:"Count request units without ever answering 429."`

	Region string `help:"Name of the account's region." default:"South Central US"`
	// Consistency is Strong, BoundedStaleness, Session, ConsistentPrefix or Eventual. Every read sees the last write
	// under all of them.
	Consistency string `help:"Default consistency level of the account: ${enum}. The first two double the charge of reads." enum:"Strong,BoundedStaleness,Session,ConsistentPrefix,Eventual" default:"Session"`
	// Advertise is, without a value, scheme and host of the request, which works through every address the Server has.
	Advertise string `help:"Endpoint in the account document, such as https://127.0.0.1:8081/. Default: the endpoint of the request."`

	// SweepEvery is how often Run looks for expired items. Default 5 s.
	SweepEvery time.Duration `kong:"-"`
	// Logger takes what the storage engine reports. Default: nowhere.
	Logger *slog.Logger `kong:"-"`
	// Fatal is called when DataDir cannot be written, because its disk is full say. It must end the process:
	// the Server answers no more requests, and Close does not return. Default: a panic in a separate goroutine.
	Fatal func(error) `kong:"-"`
}

// engine returns what the room below needs of a configuration that has its defaults.
func (c Config) engine() engine.Config {
	return engine.Config{
		DataDir: c.DataDir, InMemory: c.InMemory, Sync: c.Sync, PhysicalPartitions: c.PhysicalPartitions,
		Serverless: c.Capacity == engine.Serverless,
		Rules:      budget.Rules{Unlimited: c.Unlimited, Longest: c.Limits.RetryAfter},
		Limits:     c.Limits, SplitTakes: c.SplitTakes, Model: c.Model.Corrected(c.Factors),
		Logger: c.Logger, Fatal: c.Fatal,
	}
}

func (c Config) withDefaults() (Config, error) {
	if c.DataDir == "" && !c.InMemory {
		return c, errors.New("emulator: DataDir or InMemory must be set")
	}
	if c.PhysicalPartitions < 0 {
		return c, errors.New("emulator: PhysicalPartitions must not be negative")
	}
	if c.Capacity != "" && c.Capacity != engine.Provisioned && c.Capacity != engine.Serverless {
		return c, fmt.Errorf("emulator: Capacity %q is neither %s nor %s", c.Capacity, engine.Provisioned, engine.Serverless)
	}
	c.Limits = c.Limits.WithDefaults()
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Region = cmp.Or(c.Region, "South Central US")
	c.Consistency = cmp.Or(c.Consistency, "Session")
	if strength(c.Consistency) < 0 {
		return c, fmt.Errorf("emulator: Consistency %q is none of %s", c.Consistency, strings.Join(levels, ", "))
	}
	switch {
	case c.SplitTakes == 0:
		c.SplitTakes = 5 * time.Hour
	case c.SplitTakes < 0:
		c.SplitTakes = 0
	}
	c.SweepEvery = cmp.Or(max(c.SweepEvery, 0), 5*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Fatal == nil {
		c.Fatal = func(err error) { go panic(err) }
	}
	return c, nil
}

// Limits are the bounds that the service sets; a test may lower them.
type Limits = engine.Limits

// PartitionStats is what one physical partition holds and has done.
type PartitionStats = engine.Stats
