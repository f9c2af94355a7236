package main

import "binnacle/internal/app"

type tenantSuspendCommand struct {
	Tenant string `arg:"" help:"Name of the tenant."`
	Reason string `help:"Reason. Refused queries are answered with it." required:""`

	Config app.TokenConfig `kong:"embed"`
}

func (tenantSuspendCommand) Help() string {
	return `Queries of the tenant are refused within seconds, with status 403 and the reason. Its readings are stored as before.

Examples:
  binnacle tenant suspend acme --reason 'the contract has ended: mail billing@example.com'
  binnacle tenant resume acme`
}

func (c *tenantSuspendCommand) Run(e *env) error {
	return c.Config.SuspendTenant(e.ctx, c.Tenant, c.Reason, e.app())
}

type tenantResumeCommand struct {
	Tenant string `arg:"" help:"Name of the tenant."`

	Config app.TokenConfig `kong:"embed"`
}

func (tenantResumeCommand) Help() string {
	return `Examples:
  binnacle tenant resume acme`
}

func (c *tenantResumeCommand) Run(e *env) error {
	return c.Config.ResumeTenant(e.ctx, c.Tenant, e.app())
}
