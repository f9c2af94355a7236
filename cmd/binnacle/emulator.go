package main

import "binnacle/internal/app"

type emulatorCommand struct {
	Cosmos             string `help:"Address to listen on. Port 0 takes a free one." default:"127.0.0.1:8081"`
	DataDir            string `help:"Directory that holds the data." default:"./binnacle-data/cosmos"`
	PhysicalPartitions int    `help:"Physical partitions of every new container. Default: as the service does."`
	Sync               bool   `help:"Make every write survive a power failure, not only the end of the process."`
	RUModel            string `name:"ru-model" help:"How item sizes are charged: table, the service's published table, or linear." enum:"table,linear" default:"table"`
	Unlimited          bool   `help:"Count request units, but never answer 429."`
}

// Help is shown below the flags.
func (emulatorCommand) Help() string {
	return `Any official Cosmos DB client may connect, with the emulators' public key.

Examples:
  binnacle emulator --data-dir ./cosmos
  binnacle emulator --cosmos 127.0.0.1:0 --physical-partitions 5`
}

// Run is called by kong.
func (c *emulatorCommand) Run(e *env) error {
	return app.Emulator(e.ctx, app.EmulatorConfig{
		Cosmos: c.Cosmos, DataDir: c.DataDir, PhysicalPartitions: c.PhysicalPartitions, Sync: c.Sync,
		Linear: c.RUModel == "linear", Unlimited: c.Unlimited, Stdout: e.stdout, Logger: e.log,
	})
}
