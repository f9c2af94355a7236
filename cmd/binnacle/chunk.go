package main

import "binnacle/internal/app"

type chunkCommand struct {
	Config app.ChunkConfig `kong:"embed"`
}

func (chunkCommand) Help() string {
	return `Examples:
  binnacle chunk document.json --rows 100
  binnacle chunk 20261120.1.00003.000017 --tenant acme --device truck-0000`
}

func (c *chunkCommand) Run(e *env) error { return app.PrintChunk(e.ctx, c.Config, e.app()) }
