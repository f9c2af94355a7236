// Package replay publishes a file of readings to Kafka, one JSON message a reading, as devices do. It
// reads CSV, NDJSON in the message format and Influx line protocol, one reading a line, plain or gzipped.
// docs/operate/kafka.md is its manual.
//
// It knows Kafka only as a client. It must not know the store, nor how readings are ingested.
package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/control"
	"binnacle/internal/kafka"
	"binnacle/internal/settings"
	"binnacle/internal/stream/topics"
	"binnacle/internal/telemetry"
	"binnacle/internal/text/duration"
)

// Config sets what is published, and where to. Package settings reads its tags.
type Config struct {
	File string `arg:"" optional:"" help:"File with CSV, NDJSON or Influx line protocol; .gz is decompressed." placeholder:"FILE"`

	Kafka  kafka.Config `kong:"embed,group='Kafka'"`
	Topic  string       `help:"Topic to publish to; with --backfill its name with .backfill, if ingesters read that. With --from-dlq: the topics of the ingesters, as their --topic." default:"telemetry"`
	Format string       `help:"Format of the file: csv, ndjson or lp. Default: by its name." placeholder:"FORMAT"`

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

// DeadLetters says which dead letters are published again, and with what mended. Its tags are package settings's.
type DeadLetters struct {
	FromDLQ     bool     `name:"from-dlq" help:"Publish dead letters again instead of a file, each to the partition of its record. Dead letters that an earlier replay published are skipped."`
	DeadLetters string   `help:"Topic of the dead letters. Default: the name of the first topic with .dlq." placeholder:"TOPIC"`
	Reasons     []string `name:"reason" help:"Publish dead letters with this reason only. It can be repeated. Default: any reason." placeholder:"REASON"`
	Since       string   `help:"Publish dead letters refused since then: a duration before now such as 2h or 7d, or a time such as 2026-11-20T10:00:00Z. Default: all." placeholder:"TIME"`
	Set         []string `help:"Override the readings' tenant or device: tenant=NAME, device=ID. It can be repeated." placeholder:"NAME=VALUE"`
	DryRun      bool     `help:"Show what would be published without publishing it. With --backfill: say what that would cost."`
}

// only reports whether something is set that needs FromDLQ, which is not.
func (l DeadLetters) only() bool {
	return !l.FromDLQ && (l.DeadLetters != "" || len(l.Reasons) > 0 || l.Since != "" || len(l.Set) > 0 || l.DryRun)
}

// validateDeadLetters reports every fault of the settings of a replay of dead letters.
func (c Config) validateDeadLetters() error {
	var faults settings.Faults
	ofFiles := cmp.Or(c.File, c.Format, c.Tenant, c.Device, c.DeviceColumn, c.TimeColumn, c.ShiftTo)
	faults.Check(ofFiles == "", "--from-dlq reads no file: --format, --tenant, --device, --device-column, --time-column "+
		"and --shift-to are about files; --set mends dead letters")
	known := decode.Reasons()
	for _, r := range c.DeadLetters.Reasons {
		faults.Check(slices.Contains(known, decode.Reason(r)), "--reason %.80q: reasons are %v", r, known)
	}
	_, noTime := c.DeadLetters.since(time.Time{})
	_, noNames := c.DeadLetters.names()
	faults.Add(noTime, noNames, c.Messages.Check(), c.target())
	return faults.Err()
}

// since returns the time in ms from which on dead letters count.
func (l DeadLetters) since(now time.Time) (int64, error) {
	if l.Since == "" {
		return 0, nil
	}
	if d, err := duration.Parse(l.Since); err == nil && d >= 0 {
		return now.Add(-d).UnixMilli(), nil
	}
	at, err := duration.ParseInstant(l.Since, now)
	if err != nil {
		return 0, fmt.Errorf("--since %.80q is neither a duration, such as 2h, nor a time, such as 2026-11-20T10:00:00Z",
			l.Since)
	}
	return at, nil
}

func (l DeadLetters) names() (names decode.Names, err error) {
	var faults settings.Faults
	for _, pair := range l.Set {
		name, value, _ := strings.Cut(pair, "=")
		switch err = nil; name {
		case "tenant":
			names.Tenant, err = value, telemetry.CheckTenant(value)
		case "device":
			names.Device, err = value, telemetry.CheckDevice(value)
		default:
			err = errors.New("only tenant and device can be set")
		}
		faults.Check(err == nil, "--set %.160s: %w", pair, err)
	}
	return names, faults.Err()
}
