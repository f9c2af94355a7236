// Package audit compares the store with the protocol's invariants and against Kafka: chains without gap or overlap,
// each chunk under the key that the snapshot gives, and, where the log still has them, every record in a chunk or in
// the dead letters. docs/operate/diagnose.md is its manual.
//
// It only reads, but for Config.SetBack. It runs while others ingest and query, at the rate of request units that it is
// given.
package audit

import (
	"cmp"
	"io"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/kafka"
	"binnacle/internal/settings"
	"binnacle/internal/stream/topics"
	"binnacle/internal/telemetry"
	"binnacle/internal/text/duration"
)

// Config selects the chunks to audit. Its tags are package settings's.
type Config struct {
	From   string  `help:"First day to audit: a UTC day such as 2026-11-20, or a time in it, such as -2d. Default: today." placeholder:"TIME"`
	To     string  `help:"Last day to audit. Default: the first." placeholder:"TIME"`
	Tenant string  `help:"Tenant to audit. Default: all."`
	Device string  `help:"Device to audit. Default: all."`
	MaxRUs float64 `name:"max-rus" help:"Most request units a second, on average. 0 is no limit." default:"400"`

	Columns bool `help:"Read whole chunks and decode their columns. Default: only their headers."`
	Log     bool `help:"Also read Kafka: every reading in the log must be in a chunk or a dead letter."`
	SetBack bool `name:"set-back" help:"Set the group back to the first lost reading of each partition, so that ingesters store what is lost again. With --log, while ingesters are stopped."`
	NoKafka bool `name:"no-kafka" help:"Audit without Kafka: only the store."`
	JSON    bool `name:"json" help:"Print findings as JSON, one a line."`

	Kafka       kafka.Config   `kong:"embed,group='Kafka'"`
	Topics      []string       `name:"topic" sep:"none" help:"Topics with readings, as --topic of the ingesters. Default: telemetry and telemetry.backfill." default:"telemetry,telemetry.backfill" group:"Kafka" placeholder:"TOPIC"`
	DeadLetters string         `help:"Topic of the dead letters. Default: the name of the first topic with .dlq." group:"Kafka" placeholder:"TOPIC"`
	Group       string         `help:"Consumer group of the ingesters." default:"binnacle" group:"Kafka"`
	Messages    decode.Options `kong:"embed,group='Messages'"`

	Progress io.Writer        `kong:"-"` // a terminal that shows a progress bar; nil: none
	Now      func() time.Time `kong:"-"` // nil: time.Now
}

// maxDays bounds an audit: what is found of all its days is held until the log was read.
const maxDays = 400

// days returns the first and the last day, and every fault of the settings at once.
func (c Config) days() (first, last telemetry.Day, err error) {
	now := time.Now()
	if c.Now != nil {
		now = c.Now()
	}
	if c.From == "" && c.To == "" {
		c.From = "now"
	}
	var faults settings.Faults
	day := func(flag, text string) (d telemetry.Day) {
		d, _, err := duration.ParseDayOf(text, now)
		faults.Check(err == nil, "%s %q is neither a day such as 2026-11-20, nor a time such as -2d", flag, text)
		return d
	}
	first = day("--from", c.From)
	last = day("--to", cmp.Or(c.To, c.From))
	faults.Check(len(faults) > 0 || last >= first && last-first < maxDays, "--from %s --to %s: 1 to %d days", c.From, c.To,
		maxDays)
	if c.Tenant != "" {
		faults.Named("--tenant", telemetry.CheckTenant(c.Tenant))
	}
	if c.Device != "" {
		faults.Named("--device", telemetry.CheckDevice(c.Device))
	}
	faults.Check(c.MaxRUs >= 0, "--max-rus %v is not 0 or more", c.MaxRUs)
	faults.Check(!c.Log || !c.NoKafka, "--log needs Kafka: not with --no-kafka")
	faults.Check(!c.SetBack || c.Log && c.Tenant == "" && c.Device == "",
		"--set-back needs --log, without --tenant and --device: a group is set back for all")
	_, err = c.set()
	faults.Add(err, c.Messages.Check())
	return first, last, faults.Err()
}

func (c Config) set() (topics.Set, error) { return topics.Parse(c.Topics, c.DeadLetters) }
