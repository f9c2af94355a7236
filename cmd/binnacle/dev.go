package main

import (
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/app"
)

// lineProtocol are the flags that say how line protocol is read.
type lineProtocol struct {
	LPDeviceTag string   `name:"lp-device-tag" help:"Line protocol: the tag that holds the device id." default:"device"`
	LPTenantTag string   `name:"lp-tenant-tag" help:"Line protocol: the tag that holds the tenant." default:"tenant"`
	LPTags      []string `name:"lp-tags" help:"Line protocol: tags that describe the device. All others are labels." placeholder:"TAG"`
	LPMetric    string   `name:"lp-metric" help:"Line protocol: name a metric measurement_field (full) or by the field alone (field)." enum:"full,field" default:"full"`
}

func (l lineProtocol) options() decode.Options {
	return decode.Options{DeviceTag: l.LPDeviceTag, TenantTag: l.LPTenantTag, Tags: l.LPTags, BareField: l.LPMetric == "field"}
}

type devCommand struct {
	Kafka  string `help:"Address of the embedded Kafka broker. Port 0 takes a free one." default:"127.0.0.1:9092"`
	Cosmos string `help:"Address of the embedded Cosmos DB." default:"127.0.0.1:8081"`
	API    string `name:"api" help:"Address of the query API." default:"127.0.0.1:7070"`
	Admin  string `help:"Address of metrics, health and profiles." default:"127.0.0.1:7071"`

	DataDir    string        `help:"Directory that holds kafka/ and cosmos/." default:"./binnacle-data"`
	Partitions int           `help:"Partitions of the topics." default:"4"`
	Fleet      int           `help:"Simulated trucks, each with a reading of ten metrics a second. 0 for none." default:"20"`
	Hold       time.Duration `help:"Longest time that a reading waits in memory before it is written." default:"30s"`
	Future     time.Duration `help:"How far an event time may lie after its record's Kafka timestamp." default:"10m"`
	Retention  time.Duration `help:"How long readings of new tenants are kept, such as 30d. Default: for ever."`
	MemoryMB   int           `name:"memory-mb" help:"Bound of what ingest holds in memory, in MiB." default:"1024"`

	PhysicalPartitions int `help:"Physical partitions of every new container of the embedded Cosmos DB. Default: as the service does."`

	lineProtocol
}

// Help is shown below the flags.
func (devCommand) Help() string {
	return `Examples:
  binnacle dev
  binnacle dev --fleet 0 --data-dir /var/tmp/trial
  binnacle dev --kafka 127.0.0.1:0 --cosmos 127.0.0.1:0 --api 127.0.0.1:0 --admin 127.0.0.1:0`
}

// Run is called by kong.
func (c *devCommand) Run(e *env) error {
	return app.Dev(e.ctx, app.DevConfig{
		Kafka: c.Kafka, Cosmos: c.Cosmos, API: c.API, Admin: c.Admin,
		DataDir: c.DataDir, Partitions: c.Partitions, Fleet: c.Fleet, Hold: c.Hold, Future: c.Future, Retention: c.Retention,
		Memory: int64(c.MemoryMB) << 20, Decode: c.options(), PhysicalPartitions: c.PhysicalPartitions,
		Stdout: e.stdout, Logger: e.log,
	})
}
