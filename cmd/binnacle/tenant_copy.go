package main

import "binnacle/internal/app"

type tenantCopyCommand struct {
	Tenant string `arg:"" help:"Name of the tenant."`

	Config app.CopyConfig `kong:"embed"`
}

func (tenantCopyCommand) Help() string {
	return `Chunks are created at the target and never changed there, so that the same command goes on where it was interrupted,
and adds what has come since. The tenant's settings and orders of erasure go first. Provision must run at the target: it makes the
containers. Readings that are in no chunk yet are not copied. At the end all that was asked for is compared; if
something differs, the command fails. With --follow it goes on with what the source stores, until Ctrl-C ends it.

Examples:
  binnacle tenant copy acme --to-cosmos https://west.documents.azure.com --to-key-file west.key --dry-run
  binnacle tenant copy acme --to-cosmos https://west.documents.azure.com --to-key-file west.key --rus 2000 --follow
  binnacle tenant copy acme --to-cosmos 127.0.0.1:9081 --device truck-7 --from 2026-01-01 --to 2026-02-01`
}

func (c *tenantCopyCommand) Run(e *env) error {
	return app.CopyTenant(e.ctx, c.Config, c.Tenant, e.app())
}
