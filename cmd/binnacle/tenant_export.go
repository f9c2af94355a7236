package main

import (
	"binnacle/internal/app"

	"golang.org/x/term"
)

type tenantExportCommand struct {
	Tenant string `arg:"" help:"Name of the tenant."`

	Config app.ExportConfig `kong:"embed"`
}

func (tenantExportCommand) Help() string {
	return `It asks the query API, and so has what the tenant's users read: stored readings and those that ingesters hold, each once.
A day is a file; export.json lists the files with their digests. A tenant's token is enough. The command fails where an answer is not
complete; with --resume it goes on.

Examples:
  binnacle tenant export acme --out acme-export
  binnacle tenant export acme --out truck-7 --device truck-7 --from 2026-01-01 --to 2026-02-01
  binnacle tenant export acme --out acme-export --api query.example.com:7070 --token-file acme.token --resume
  for file in acme-export/*.ndjson.gz; do binnacle replay "$file"; done`
}

func (c *tenantExportCommand) Run(e *env) error {
	if term.IsTerminal(int(e.stderr.Fd())) {
		c.Config.Progress = e.stderr
	}
	return app.ExportTenant(e.ctx, c.Config, c.Tenant, e.app())
}
