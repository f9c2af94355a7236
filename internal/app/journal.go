package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"binnacle/ingest/journal"
	"binnacle/internal/kafka"
	"binnacle/internal/lab/broker"
	"binnacle/internal/ops"
	"binnacle/internal/provision"
	"binnacle/internal/settings"
	"binnacle/internal/stream/topics"
)

// JournalConfig is which journals `binnacle provision` looks after.
type JournalConfig struct {
	Kafka kafka.Config  `kong:"embed"`
	Of    []string      `name:"journal-of" sep:"none" help:"Topics whose journals are created, grown and configured in the cluster of --kafka, as --topic of the ingesters. Default: none." placeholder:"TOPIC"`
	Keep  time.Duration `name:"journal-keep" help:"Shortest retention of the journal: the longest hold plus the longest outage after which no record is to be read again." default:"72h"`
}

func (f *faults) journal(c JournalConfig) {
	if len(c.Of) == 0 {
		return
	}
	_, err := c.set()
	f.Check(c.Keep > 0, "--journal-keep %s is not above 0", c.Keep)
	f.Add(err, c.Kafka.Validate())
}

// How `binnacle serve` keeps the journals of its own topics: for the longest wait of a reading, a day and the hold,
// and an outage just as long.
const (
	defaultJournalKeep = 72 * time.Hour
	journalCheckEvery  = 15 * time.Second // a topic that is found by its pattern has none yet
)

func (p *process) keepJournals(all kafka.Journals, every time.Duration) {
	log := p.partLogger("journal")
	p.add("journal", func(ctx context.Context) error { return provision.KeepJournal(ctx, all, every, log) })
}

func (c JournalConfig) set() (topics.Set, error) {
	set, err := topics.Parse(c.Of, "")
	if err != nil {
		return set, fmt.Errorf("--journal-of: %w", err)
	}
	return set, nil
}

func (p *process) provisionJournal(c JournalConfig, every time.Duration) error {
	if len(c.Of) == 0 {
		return nil
	}
	set, err := c.set()
	if err != nil {
		return err
	}
	cluster, err := p.openKafka(c.Kafka)
	if err != nil {
		return err
	}
	p.keepJournals(kafka.Journals{Sources: cluster.Sources(set), Keep: c.Keep}, every)
	return nil
}

func journalOnce(ctx context.Context, c JournalConfig, dry bool, env ops.Env) error {
	if len(c.Of) == 0 {
		return nil
	}
	set, err := c.set()
	if err != nil {
		return err
	}
	cluster, err := kafka.New(c.Kafka)
	if err != nil {
		return err
	}
	defer cluster.Close()
	all, err := kafka.Journals{Sources: cluster.Sources(set), Keep: c.Keep}.All(ctx)
	faults := settings.Faults{err}
	for _, j := range all {
		faults = append(faults, oneJournal(ctx, j, dry, env))
	}
	return faults.Err()
}

func oneJournal(ctx context.Context, j kafka.Journal, dry bool, env ops.Env) (err error) {
	var lines []string
	if dry {
		var changes []kafka.JournalChange
		changes, err = j.Plan(ctx)
		for _, change := range changes {
			lines = append(lines, change.What)
		}
	} else {
		lines, err = j.Ensure(ctx)
	}
	for _, line := range lines {
		fmt.Fprintf(env.Stdout, "journal  %s\n", line)
	}
	if err == nil && len(lines) == 0 {
		fmt.Fprintf(env.Stdout, "journal  topic %s is as it must be\n", j.Topic.Name())
	}
	return err
}

// withJournals sets which topics of an embedded broker are journals, and which of their records are needed.
func withJournals(cfg broker.Config) broker.Config {
	cfg.Journals = map[string]string{}
	for _, topic := range cfg.Topics {
		if own := kafka.JournalOf(topic); slices.Contains(cfg.Topics, own) {
			cfg.Journals[own] = topic
		}
	}
	cfg.Needed = func(metadata string) (from int64, ok bool) {
		c, ok := journal.ParseCommit(metadata)
		return c.From, ok
	}
	return cfg
}
