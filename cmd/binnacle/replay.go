package main

import (
	"fmt"
	"io"
	"time"

	"binnacle/internal/app"
	"binnacle/internal/replay"

	"golang.org/x/term"
)

type replayCommand struct {
	File string `arg:"" help:"CSV, NDJSON or Influx line protocol; a name that ends in .gz is gunzipped." placeholder:"FILE"`

	Kafka  string `help:"Address of a Kafka broker." default:"127.0.0.1:9092"`
	Topic  string `help:"Topic to publish to." default:"telemetry"`
	Format string `help:"csv, ndjson or lp. Default: by the file's name, else by its first lines." placeholder:"FORMAT"`

	Tenant       string `help:"Tenant of readings whose file does not name one."`
	Device       string `help:"Device of readings whose file does not name one."`
	DeviceColumn string `help:"CSV: the column that holds the device id." placeholder:"COLUMN"`
	TimeColumn   string `help:"CSV: the column that holds the time. Default: the first one with such a name." placeholder:"COLUMN"`

	LPDeviceTag string   `name:"lp-device-tag" help:"Line protocol: the tag that holds the device id." placeholder:"TAG"`
	LPTenantTag string   `name:"lp-tenant-tag" help:"Line protocol: the tag that holds the tenant." placeholder:"TAG"`
	LPTags      []string `name:"lp-tags" help:"Line protocol: tags that describe the device. All others are labels." placeholder:"TAG"`
	LPMetric    string   `name:"lp-metric" help:"Line protocol: name a metric measurement_field (full) or by the field alone (field)." enum:"full,field" default:"full"`

	ShiftTo string  `help:"now: move all times so that the file's last one is now." enum:",now" default:"" placeholder:"now"`
	Rate    float64 `help:"Readings a second. Default: as fast as it goes."`

	Backfill    bool          `help:"Grant what the file holds: its readings are accepted however old they are, within the tenant's retention."`
	BackfillFor time.Duration `name:"backfill-for" help:"How long the grant is good." default:"7d"`
	Cosmos      string        `help:"Address of Cosmos DB, where the grant is written." default:"127.0.0.1:8081"`
	Key         string        `help:"Master key of the account. Default: the emulators' public key." placeholder:"KEY"`
}

// Help is shown below the flags.
func (replayCommand) Help() string {
	return `Examples:
  binnacle replay machine.csv --tenant acme --device m1 --time-column timestamp
  binnacle replay trucks.lp.gz --tenant acme --lp-device-tag name --lp-tags fleet,driver,model
  binnacle replay readings.ndjson --shift-to now --rate 100
  binnacle replay archive-2019.csv.gz --tenant acme --device-column truck --backfill`
}

// Run is called by kong.
func (c *replayCommand) Run(e *env) error {
	var progress io.Writer
	if term.IsTerminal(int(e.stderr.Fd())) {
		progress = e.stderr
	}
	cfg := replay.Config{
		File: c.File, Format: c.Format, Tenant: c.Tenant, Device: c.Device, DeviceColumn: c.DeviceColumn, TimeColumn: c.TimeColumn,
		LPDeviceTag: c.LPDeviceTag, LPTenantTag: c.LPTenantTag, LPTags: c.LPTags, BareField: c.LPMetric == "field",
		ShiftToNow: c.ShiftTo == "now", Rate: c.Rate, Kafka: c.Kafka, Topic: c.Topic, Progress: progress,
	}
	if c.Backfill {
		backfills, err := app.NewBackfills(c.Cosmos, c.Key, c.BackfillFor, e.log)
		if err != nil {
			return err
		}
		defer backfills.Close()
		cfg.Grant = backfills.Grant
	}
	summary, err := replay.Run(e.ctx, cfg)
	if summary.Records > 0 || err == nil {
		if printed := summary.Print(e.stdout); printed != nil && err == nil {
			err = fmt.Errorf("print the summary: %w", printed)
		}
	}
	return err
}
