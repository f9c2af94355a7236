// Package replay publishes a file of readings to Kafka, one JSON message a reading, as devices do. It
// reads CSV, NDJSON in the message format and Influx line protocol, plain or gzipped.
// docs/operate/kafka.md is its manual.
//
// It knows Kafka only as a client. It must not know the store, nor how readings are ingested.
package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/control"
	"binnacle/internal/kafka"
	"binnacle/internal/settings"
	"binnacle/internal/stream/topics"
	"binnacle/internal/telemetry"
)

// Config sets what is published, and where to. Package settings reads its tags.
type Config struct {
	File string `arg:"" optional:"" help:"File with CSV, NDJSON or Influx line protocol; .gz is decompressed." placeholder:"FILE"`

	Kafka  kafka.Config `kong:"embed,group='Kafka'"`
	Topic  string       `help:"Topic to publish to; with --backfill its name with .backfill, if ingesters read that. With --from-dlq: the topics of the ingesters, as their --topic." default:"telemetry"`
	Format string       `help:"Format of the file: csv, ndjson or lp. Default: detected by its name or first lines." placeholder:"FORMAT"`

	Tenant       string `help:"Tenant of readings that name none."`
	Device       string `help:"Device of readings that name none."`
	DeviceColumn string `help:"CSV: column with the device id." placeholder:"COLUMN"`
	TimeColumn   string `help:"CSV: column with the time. Default: the first column named like a time." placeholder:"COLUMN"`

	DeadLetters DeadLetters    `kong:"embed,group='Dead letters'"`
	Messages    decode.Options `kong:"embed,group='Messages (for dead letters set these as for the ingesters)'"`

	Group        string `help:"Consumer group of the ingesters, whose commits say what they have decided on. If they read the topic with the name of --topic and .backfill, a backfill goes there." default:"binnacle"`
	AllowRefused bool   `help:"Exit with 0 although lines can't be read or records are refused."`

	ShiftTo string  `help:"now: shift all times so that the last one in the file is now. Default: no shift." enum:",now" default:"" placeholder:"now"`
	Rate    float64 `help:"Readings to publish a second. Default: as many as possible."`

	// Grant makes --backfill: it returns the id of a permission for a tenant's readings of a range of event times;
	// every record of them carries the id. For dead letters the work is but tenant and range. nil: no backfill.
	Grant func(ctx context.Context, w control.BackfillWork) (id string, err error) `kong:"-"`

	Progress io.Writer        `kong:"-"` // a terminal that shows a progress bar; nil: none
	Now      func() time.Time `kong:"-"` // nil: time.Now
}

// Validate reports every fault that can be seen without the file.
func (c Config) Validate() error {
	var faults settings.Faults
	faults.Check(c.File != "", "no file is named, nor --from-dlq")
	if c.Grant != nil {
		c.DeadLetters.DryRun = false // with --backfill, DryRun shows the cost
	}
	faults.Check(!c.DeadLetters.only(),
		"--dead-letters, --reason, --since, --set and --dry-run need --from-dlq; --dry-run may stand with --backfill too")
	if c.Format != "" {
		_, err := parseFormat(c.Format)
		faults.Add(err)
	}
	if c.Tenant != "" {
		faults.Named("--tenant", telemetry.CheckTenant(c.Tenant))
	}
	if c.Device != "" {
		faults.Named("--device", telemetry.CheckDevice(c.Device))
	}
	set, err := c.set()
	faults.Check(err != nil || !set.HasPatterns() && len(set.Named()) == 1, "--topic %s: a file is published to one topic",
		c.Topic)
	faults.Add(c.target())
	return faults.Err()
}

func (c Config) set() (topics.Set, error) {
	all := []string{c.Topic}
	if c.DeadLetters.FromDLQ && c.Topic == topics.Default { // ingesters read this topic by default
		all = append(all, topics.Default+topics.BackfillSuffix)
	}
	return topics.Parse(all, c.DeadLetters.DeadLetters)
}

func (c Config) to(t topics.Topic, letters string) Config {
	c.Topic, c.Messages.Bound, c.DeadLetters.DeadLetters = t.Name, t.Tenant, letters
	return c
}

// target reports what is wrong with where to publish, and how fast.
func (c Config) target() error {
	var faults settings.Faults
	faults.Check(c.Rate >= 0, "--rate %v is not 0 or more", c.Rate)
	_, err := c.set()
	faults.Add(c.Kafka.Validate(), err)
	return faults.Err()
}

// validateFor reports what a format needs and the flags do not give.
func (c Config) validateFor(f Format) error {
	var faults settings.Faults
	need := func(ok bool, text string) { faults.Check(ok, "%s: a %s file needs %s", c.File, f, text) }
	switch f {
	case CSV:
		need(c.Tenant != "", "--tenant")
		need(c.Device != "" || c.DeviceColumn != "", "--device or --device-column")
	case LineProtocol:
		need(c.Tenant != "" || c.Messages.TenantTag != "", "--tenant or --lp-tenant-tag")
		need(c.Device != "" || c.Messages.DeviceTag != "", "--device or --lp-device-tag")
	}
	return faults.Err()
}

// cluster is a topic of a Kafka cluster.
type cluster struct {
	client *kafka.Client
	topic  *kafka.Topic
	now    func() time.Time
	landed func(partition int, base int64, n int) // receives where records were appended; nil: ignored
}

// errNoTopic says that the topic does not exist. Waiting does not make it.
var errNoTopic = errors.New("no such topic")

func newCluster(cfg Config) (*cluster, error) {
	client, err := kafka.New(cfg.Kafka)
	if err != nil {
		return nil, err
	}
	set, err := cfg.set()
	if err != nil {
		client.Close()
		return nil, err
	}
	return &cluster{client: client, topic: client.Topic(set.Named()[0]), now: cfg.Now}, nil
}

func (c *cluster) close() { c.client.Close() }

// Partitions implements producer.
func (c *cluster) Partitions(ctx context.Context) (int, error) {
	ids, err := partitionsOf(ctx, c.client, c.topic)
	return len(ids), err
}

// partitionsOf returns the partitions of a topic that must exist.
func partitionsOf(ctx context.Context, client *kafka.Client, topic *kafka.Topic) ([]int, error) {
	ids, err := topic.Partitions(ctx)
	switch {
	case kafka.IsUnknownTopic(err):
		return nil, fmt.Errorf("%w: Kafka at %s has no topic %s", errNoTopic, client.Address(), topic.Name())
	case err != nil:
		return nil, fmt.Errorf("ask Kafka at %s for topic %s: %w", client.Address(), topic.Name(), err)
	}
	return ids, nil
}

// Produce implements producer.
func (c *cluster) Produce(ctx context.Context, partition int, messages []kafka.Message) error {
	now := c.now()
	for i := range messages {
		messages[i].Time = now
	}
	_, err := c.topic.ProduceTo(ctx, partition, messages, func(base int64, n int) {
		if c.landed != nil {
			c.landed(partition, base, n)
		}
	})
	if err != nil {
		return fmt.Errorf("publish to partition %d of topic %s of Kafka at %s: %w", partition, c.topic.Name(),
			c.client.Address(), err)
	}
	return nil
}
