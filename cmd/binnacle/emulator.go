package main

import (
	"time"

	"binnacle/internal/app"
)

type emulatorCommand struct {
	Cosmos             string        `help:"Address to listen on. Port 0 takes a free one." default:"127.0.0.1:8081"`
	CosmosCompute      string        `help:"Address of a second listener. It takes every item id in a path, as the service's compute gateway does; --cosmos has the rules of its routing gateway."`
	TLS                bool          `name:"tls" help:"Listen with TLS, with a certificate for localhost that is made once and kept in the data directory."`
	TLSCert            string        `name:"tls-cert" help:"Certificate to use instead, a PEM file. Needs --tls-key."`
	TLSKey             string        `name:"tls-key" help:"Its key, a PEM file."`
	Region             string        `help:"Name of the account's one region." default:"South Central US"`
	Advertise          string        `help:"Endpoint that the account document names, such as https://127.0.0.1:8081/. Default: the one that the client has used."`
	Consistency        string        `help:"Default consistency level of the account. Under the first two, reads are charged twice." enum:"Strong,BoundedStaleness,Session,ConsistentPrefix,Eventual" default:"Session"`
	DataDir            string        `help:"Directory that holds the data." default:"./binnacle-data/cosmos"`
	PhysicalPartitions int           `help:"Physical partitions of every new container. Default: as the service does."`
	PartitionBytes     int64         `help:"Bytes from which on a physical partition is split. Default: 50 GB."`
	SplitTakes         time.Duration `help:"How long splits take, for storage or for more throughput. Below zero: no time." default:"5h"`
	Sync               bool          `help:"Make every write survive a power failure, not only the end of the process."`
	RUModel            string        `name:"ru-model" help:"How item sizes are charged: table, the service's published table, or linear." enum:"table,linear" default:"table"`
	Unlimited          bool          `help:"Count request units, but never answer 429."`
	RefuseBefore       bool          `help:"Answer 429 to what would overdraw the second of its physical partition, instead of carrying the debt on."`
	Burst              bool          `help:"Let physical partitions below 3,000 RU/s save idle budget for 5 minutes and spend it in bursts."`
	PrefixVisitsAll    bool          `help:"Let queries over a prefix of a hierarchical key visit, and pay for, every physical partition."`
}

// Help is shown below the flags.
func (emulatorCommand) Help() string {
	return `Any official Cosmos DB client may connect, with the emulators' public key. The page /_emulator of the
endpoint shows every container's physical partitions and how hot they are.

Examples:
  binnacle emulator --data-dir ./cosmos
  binnacle emulator --cosmos 127.0.0.1:0 --physical-partitions 5
  binnacle emulator --tls --advertise https://localhost:8081/`
}

// Run is called by kong.
func (c *emulatorCommand) Run(e *env) error {
	return app.Emulator(e.ctx, app.EmulatorConfig{
		Cosmos: c.Cosmos, CosmosCompute: c.CosmosCompute, TLS: app.TLS{SelfMade: c.TLS, Cert: c.TLSCert, Key: c.TLSKey},
		Region: c.Region, Advertise: c.Advertise, Consistency: c.Consistency,
		DataDir: c.DataDir, PhysicalPartitions: c.PhysicalPartitions, PartitionBytes: c.PartitionBytes, SplitTakes: c.SplitTakes, Sync: c.Sync,
		Linear: c.RUModel == "linear", Unlimited: c.Unlimited, RefuseBefore: c.RefuseBefore, Burst: c.Burst,
		PrefixVisitsAll: c.PrefixVisitsAll, Stdout: e.stdout, Logger: e.log,
	})
}
