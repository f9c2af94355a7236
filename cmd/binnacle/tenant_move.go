package main

import "binnacle/internal/app"

type tenantMoveCommand struct {
	Tenant    string `arg:"" help:"Name of the tenant."`
	Placement string `arg:"" help:"dedicated: containers of its own; shared: those of all other tenants." enum:"dedicated,shared"`
	From      string `help:"First UTC day of event times that is stored there. Default: the first one of the next container." placeholder:"YYYY-MM-DD"`

	Config app.TokenConfig `kong:"embed"`
}

func (tenantMoveCommand) Help() string {
	return `Nothing is copied: readings of earlier days stay where they are, and queries read both. Each container of its own has a
price of its own: "binnacle provision --dry-run" shows it.

Examples:
  binnacle tenant move acme dedicated
  binnacle tenant move acme shared --from 2027-01-01`
}

func (c *tenantMoveCommand) Run(e *env) error {
	return c.Config.MoveTenant(e.ctx, c.Tenant, app.TenantMove{Placement: c.Placement, From: c.From}, e.app())
}
