package main

import "binnacle/internal/app"

type tenantEraseCommand struct {
	Tenant string `arg:"" help:"Name of the tenant."`

	Config app.EraseConfig `kong:"embed"`
}

func (tenantEraseCommand) Help() string {
	return `It erases what was published before the command, of whole UTC days of event times. Queries leave the readings out
within 5 seconds. The role provision then sweeps the stored chunks, and takes rollups away that
show them. A device of the same name that reports afterwards is
a new one. Kafka keeps what it has until its retention ends, and so do backups.

Examples:
  binnacle tenant erase acme --device truck-7 --dry-run
  binnacle tenant erase acme --device truck-7
  binnacle tenant erase acme --device truck-7 --from 2026-01-01 --to 2026-02-01 --wait
  binnacle tenant erase acme --confirm acme`
}

func (c *tenantEraseCommand) Run(e *env) error { return app.Erase(e.ctx, c.Config, c.Tenant, e.app()) }

type tenantErasuresCommand struct {
	Tenant string `arg:"" optional:"" help:"Tenant to list. Default: all."`

	Config app.ErasuresConfig `kong:"embed"`
}

func (tenantErasuresCommand) Help() string {
	return `States: announced (its positions are not stored yet), hidden (no query answers what it erases), swept (no chunk has
it any more), cleared (no rollup has).

Examples:
  binnacle tenant erasures
  binnacle tenant erasures acme --json`
}

func (c *tenantErasuresCommand) Run(e *env) error {
	return app.ListErasures(e.ctx, c.Config, c.Tenant, e.app())
}
