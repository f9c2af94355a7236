package main

import "binnacle/internal/app"

type binsCommand struct {
	app.BinsConfig `kong:"embed"`
}

// Help is shown below the flags.
func (binsCommand) Help() string {
	return `What is held is in no chunk yet. Heads answer it; a restart loads it from the journal, or reads it again.

Examples:
  binnacle bins
  binnacle bins --admin ingest-0:7071,ingest-1:7071 --tenant acme --devices 20
  binnacle bins --devices 10 --by bytes --json`
}

// Run is called by kong.
func (c *binsCommand) Run(e *env) error { return app.PrintBins(e.ctx, c.BinsConfig, e.app()) }
