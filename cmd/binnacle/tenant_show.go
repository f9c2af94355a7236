package main

import "binnacle/internal/app"

type tenantListCommand struct {
	Tenant string `arg:"" optional:"" help:"Tenant to list. Default: all."`
	JSON   bool   `name:"json" help:"Print all settings as JSON, a tenant a line."`

	Config app.TokenConfig `kong:"embed"`
}

func (c *tenantListCommand) Run(e *env) error {
	return c.Config.ListTenants(e.ctx, c.Tenant, c.JSON, e.app())
}

type tenantShowCommand struct {
	Tenant string `arg:"" help:"Name of the tenant."`
	JSON   bool   `name:"json" help:"Print JSON."`

	Config app.TokenConfig `kong:"embed"`
}

func (tenantShowCommand) Help() string {
	return `Settings have the names and values of the flags of "binnacle tenant set"; default is what the roles are set to.

Examples:
  binnacle tenant show acme
  binnacle tenant show acme --json`
}

func (c *tenantShowCommand) Run(e *env) error {
	return c.Config.ShowTenant(e.ctx, c.Tenant, c.JSON, e.app())
}
