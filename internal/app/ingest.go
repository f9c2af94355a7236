package app

import (
	"binnacle/ingest"
	"binnacle/internal/control"
	"binnacle/internal/kafka"
	"binnacle/internal/schemaregistry"
)

// minMemory is room for the largest record and for some bins at their target.
const minMemory = 16 << 20

// ingest notes what is wrong with the settings of ingest.
func (f *faults) ingest(c ingest.Config) {
	f.check(c.Hold > 0, "--hold %s is not above 0", c.Hold)
	f.check(c.Future >= 0, "--future %s is negative", c.Future)
	f.check(c.Past >= 0, "--past %s is negative; 0 is the default", c.Past)
	f.check(c.CommitEvery > 0, "--commit-every %s is not above 0", c.CommitEvery)
	f.check(c.DrainBudget >= 0 && c.DrainBudget <= ingest.MaxDrainBudget,
		"--drain-budget %s: it lies between 0 and %s", c.DrainBudget, ingest.MaxDrainBudget)
	f.check(c.Session >= ingest.MinSession, "--session-timeout %s: at least %s are needed", c.Session, ingest.MinSession)
	f.check(c.Session < ingest.MinSession || c.DrainBudget < c.Session,
		"--drain-budget %s: it must be below --session-timeout %s",
		c.DrainBudget, c.Session)
	f.check(c.MaxBehind > 0, "--max-behind %d is not above 0", c.MaxBehind)
	f.check(c.MaxWrites > 0, "--max-writes %d is not above 0", c.MaxWrites)
	f.check(c.MemoryBytes >= minMemory, "--memory-mb %d: at least %d are needed", c.MemoryBytes>>20, minMemory>>20)
	err := c.Decode.Check()
	f.check(err == nil, "%v", err)
	f.check(c.DeadLetters != c.Topic, "--dead-letters %s: a topic can't hold its own dead letters", c.DeadLetters)
}

// openKafka makes the connections of all roles of the process to one cluster.
func (p *process) openKafka(cfg kafka.Config) (*kafka.Client, error) {
	c, err := kafka.New(cfg)
	if err != nil {
		return nil, err
	}
	p.onClose("the connections to Kafka", func() error { c.Close(); return nil })
	return c, nil
}

// registry notes what is wrong with the settings of the schema registry.
func (f *faults) registry(c schemaregistry.Config) {
	if c.URL == "" {
		return
	}
	_, err := schemaregistry.New(c)
	f.check(err == nil, "--schema-registry %q is not the address of a server", c.URL)
	f.check(c.Timeout > 0, "--schema-registry-timeout %s is not above 0", c.Timeout)
}

// newIngest builds the role that takes readings from Kafka to chunks in the account. Whoever asks for a container goes
// through the directory that is given; what the ingester holds is a head for queries.
func (p *process) newIngest(
	cfg ingest.Config, registry schemaregistry.Config, a account, directory ingest.Directory,
) (*ingest.Ingester, error) {
	letters := ingest.NewTopicUndertaker(cfg.Kafka.Topic(cfg.DeadLetters))
	cfg.Logger, cfg.Registerer = p.part("ingest"), p.metrics
	stores := ingest.Stores{
		Chunks: a.client.Chunks(), Directory: directory, Catalog: a.client.Catalog(),
		Streams: control.NewStreams(a.client.Documents()), Letters: letters,
	}
	if registry.URL != "" {
		schemas, err := schemaregistry.New(registry)
		if err != nil {
			return nil, err
		}
		stores.Schemas = schemas
	}
	in, err := ingest.New(cfg, stores)
	if err != nil {
		return nil, err
	}
	p.readyWhen(func() error {
		if !in.CaughtUp() {
			return errCatchingUp
		}
		return nil
	})
	return in, nil
}
