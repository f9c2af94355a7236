package main

import "binnacle/internal/app"

type binsCommand struct {
	app.BinsConfig `kong:"embed"`
}

func (binsCommand) Help() string {
	return `Open bins hold the readings that are in no chunk yet. Queries read them too. A restart loads them from the journal, or
reads their records again.

Examples:
  binnacle bins
  binnacle bins --admin ingest-0:7071,ingest-1:7071 --tenant acme --devices 20
  binnacle bins --devices 10 --by bytes --json`
}

func (c *binsCommand) Run(e *env) error { return app.PrintBins(e.ctx, c.BinsConfig, e.app()) }
