package app

import (
	"errors"
	"fmt"
	"time"

	"binnacle/ingest"
	"binnacle/internal/cosmos"
	"binnacle/internal/kafka"
	"binnacle/internal/ops"
	"binnacle/internal/schemaregistry"
	"binnacle/internal/stream"
)

func (f *faults) ingest(c ingest.Config) {
	const minMemory = 16 << 20 // the largest record and some bins at their target
	f.Add(c.Validate(), c.Decode.Check())
	f.Check(c.Past >= 0, "--past %s is negative; 0 is the default", c.Past)
	f.Check(c.MemoryBytes >= minMemory, "--memory-mb %d: at least %d are needed", c.MemoryBytes>>20, minMemory>>20)
}

// WritesConfig sets how chunks are written.
type WritesConfig struct {
	LowAfter time.Duration `name:"low-priority-after" help:"Age of a day from which on its chunks, such as a backfill's, are written at low priority. It needs an account with priority-based execution. 0 disables it." default:"2d"`
}

func (p *process) openKafka(cfg kafka.Config) (*kafka.Client, error) {
	c, err := kafka.New(cfg)
	if err != nil {
		return nil, err
	}
	p.onClose("the connections to Kafka", func() error { c.Close(); return nil })
	return c, nil
}

func (f *faults) registry(c schemaregistry.Config) {
	if c.URL == "" {
		return
	}
	_, err := schemaregistry.New(c)
	f.Check(err == nil, "--schema-registry %q is not the address of a server", c.URL)
	f.Check(c.Timeout > 0, "--schema-registry-timeout %s is not above 0", c.Timeout)
	f.Check(c.Misses > 0, "--schema-registry-misses %d is not above 0", c.Misses)
}

// stampEvery is how often a partition's mark is renewed.
const stampEvery = 5 * time.Minute

type ingestRole struct {
	cfg       ingest.Config
	writes    WritesConfig
	registry  schemaregistry.Config
	account   account
	directory ingest.Directory // asks for containers
	refusals  *Refusals        // nil: refused messages are counted, not logged
}

// newIngest builds the role that stores readings from Kafka as chunks. The ingester is a head for queries.
func (p *process) newIngest(r ingestRole) (*ingest.Ingester, error) {
	cfg, registry, a := r.cfg, r.registry, r.account
	set, err := cfg.Set()
	if err != nil {
		return nil, err
	}
	var letters ingest.DeadLetterWriter = ingest.NewTopicDeadLetterWriter(cfg.Kafka.Topic(set.DeadLetters()))
	if r.refusals != nil {
		r.refusals.DeadLetterWriter = letters
		letters = r.refusals
	}
	cfg.Logger, cfg.Registerer = p.partLogger("ingest"), p.metrics
	if a.client.Containers().IsServerless() {
		cfg.StampEvery = unhurried * stampEvery
	}
	if cfg.Now == nil {
		cfg.Now = a.client.Clock().Now
	}
	stores := ingest.Stores{
		Chunks:    a.client.Chunks().At(cosmos.Priority{LowAfter: r.writes.LowAfter}),
		Directory: r.directory, Catalog: a.client.Catalog(),
		Streams: stream.NewStreams(a.client.Documents()), DeadLetters: letters,
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
	p.heat.SetForecast(in.Forecast)
	p.adminMux.Handle("GET "+ops.BinsPath, ops.ServeBins(in))
	p.adminMux.Handle("GET "+ops.LimitsPath, ops.ServeLimits(in))
	if _, err := p.operatorsPage(); err != nil {
		return nil, err
	}
	p.readyWhen(func() error {
		switch left := in.Loading(); {
		case left > 0:
			return fmt.Errorf("ingest is loading the journal: %d records are left", left)
		case !in.CaughtUp():
			return errors.New("ingest is still reading what was in Kafka at the start")
		}
		return nil
	})
	return in, nil
}
