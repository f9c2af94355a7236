package main

import "binnacle/internal/app"

type tenantListCommand struct {
	Tenant string `arg:"" optional:"" help:"Tenant to list. Default: all."`

	Config app.TokenConfig `kong:"embed"`
}

func (tenantListCommand) Help() string {
	return `--json has every setting of each tenant; "binnacle tenant show" prints those of one.

Examples:
  binnacle tenant list
  binnacle tenant list acme
  binnacle tenant list --json`
}

func (c *tenantListCommand) Run(e *env) error {
	return c.Config.ListTenants(e.ctx, c.Tenant, e.app())
}

type tenantShowCommand struct {
	Tenant string `arg:"" help:"Name of the tenant."`

	Config app.TokenConfig `kong:"embed"`
}

func (tenantShowCommand) Help() string {
	return `Settings have the names and values of the flags of "binnacle tenant set"; default is what the roles are set to.

Examples:
  binnacle tenant show acme
  binnacle tenant show acme --json`
}

func (c *tenantShowCommand) Run(e *env) error {
	return c.Config.ShowTenant(e.ctx, c.Tenant, e.app())
}
