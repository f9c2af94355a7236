package main

import "binnacle/internal/app"

type chunkCommand struct {
	Chunk string `arg:"" name:"file-or-id" help:"A file that holds a chunk document, or the id of a stored chunk."`

	Cosmos string `help:"Address of Cosmos DB, host:port or URL." default:"127.0.0.1:8081"`
	Key    string `help:"Master key of the account. Default: the emulators' public key." placeholder:"KEY"`
	Tenant string `help:"Whose chunk it is; needed with an id."`
	Device string `help:"Of which device; without it all devices of the tenant are searched."`
	Rows   int    `help:"How many rows are printed." default:"10"`
}

// Help is shown below the flags.
func (chunkCommand) Help() string {
	return `Examples:
  binnacle chunk document.json --rows 100
  binnacle chunk 20261120.1.00003.000017 --tenant acme --device truck-0000`
}

// Run is called by kong.
func (c *chunkCommand) Run(e *env) error {
	return app.PrintChunk(e.ctx, app.ChunkConfig{
		FileOrID: c.Chunk, Cosmos: c.Cosmos, Key: c.Key, Tenant: c.Tenant, Device: c.Device, Rows: c.Rows, Stdout: e.stdout, Logger: e.log,
	})
}
