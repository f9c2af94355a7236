package main

import (
	"context"
	"errors"

	"binnacle/internal/app"
	"binnacle/internal/balance"
	"binnacle/internal/control"
)

type tenantCommand struct {
	List      tenantListCommand        `cmd:"" help:"List tenants with their settings."`
	Show      tenantShowCommand        `cmd:"" help:"Show everything that was set of a tenant."`
	Add       tenantAddCommand         `cmd:"" help:"Register a tenant before its first reading."`
	Set       tenantSetCommand         `cmd:"" help:"Change settings of a tenant, without a restart."`
	Explain   tenantExplainCommand     `cmd:"" help:"Show where a tenant's readings are stored, since when, and why."`
	Retention struct {
		Explain retentionExplainCommand `cmd:"" help:"Show which days of a device go when, and why."`
	} `cmd:"" help:"Show how long readings are kept."`
	Pin      tenantPinCommand           `cmd:"" help:"Set a tenant's number of keys, or keep its keys as they are, whatever the balancer finds."`
	Move     tenantMoveCommand          `cmd:"" help:"Place a tenant in containers of its own, or in shared ones, from a day on."`
	Copy     ofTenant[app.CopyConfig]   `cmd:"" help:"Copy chunks of a tenant to another account, and compare both."`
	Export   ofTenant[app.ExportConfig] `cmd:"" help:"Write a tenant's readings into files, a day each."`
	Suspend  tenantSuspendCommand       `cmd:"" help:"Refuse queries of a tenant; its readings are stored as before."`
	Resume   tenantResumeCommand        `cmd:"" help:"Answer queries of a suspended tenant again."`
	Cost     tenantCostCommand          `cmd:"" help:"Show what a month costs, by tenant."`
	Erase    ofTenant[app.EraseConfig]  `cmd:"" help:"Erase readings of a tenant or of one of its devices."`
	Erasures tenantErasuresCommand      `cmd:"" help:"List orders of erasure, and how far they are."`
	Token    struct {
		Add    tokenAddCommand    `cmd:"" help:"Create a token and print it. It is shown only once."`
		List   tokenListCommand   `cmd:"" help:"List tokens without their secrets."`
		Revoke tokenRevokeCommand `cmd:"" help:"Revoke a token. Roles apply it within half a minute."`
	} `cmd:"" help:"Manage bearer tokens of tenants."`
}

// ofTenant is a subcommand that is a tenant's name and its settings: they run it.
type ofTenant[C interface {
	Run(ctx context.Context, tenant string, env app.Env) error
}] struct {
	Tenant string `arg:"" help:"Name of the tenant."`

	Config C `kong:"embed"`
}

// Run runs the subcommand.
func (c *ofTenant[C]) Run(e *env) error { return c.Config.Run(e.ctx, c.Tenant, e.app()) }

type tenantListCommand struct {
	Tenant string `arg:"" optional:"" help:"Tenant to list. Default: all."`

	Config app.TokenConfig `kong:"embed"`
}

func (c *tenantListCommand) Run(e *env) error {
	return c.Config.ListTenants(e.ctx, c.Tenant, e.app())
}

type tenantShowCommand struct {
	Tenant string `arg:"" help:"Name of the tenant."`

	Config app.TokenConfig `kong:"embed"`
}

func (c *tenantShowCommand) Run(e *env) error {
	return c.Config.ShowTenant(e.ctx, c.Tenant, e.app())
}

type tenantExplainCommand struct {
	Tenant string `arg:"" help:"Name of the tenant."`

	Config app.TokenConfig `kong:"embed"`
}

func (c *tenantExplainCommand) Run(e *env) error {
	return app.ExplainTenant(e.ctx, c.Config, c.Tenant, e.app())
}

type retentionExplainCommand struct {
	Tenant string `arg:"" help:"Name of the tenant."`
	Device string `arg:"" help:"Id of the device."`

	Config app.TokenConfig `kong:"embed"`
}

func (c *retentionExplainCommand) Run(e *env) error {
	return c.Config.ExplainRetention(e.ctx, c.Tenant, c.Device, e.app())
}

type tenantPinCommand struct {
	Tenant string `arg:"" help:"Name of the tenant."`
	Keys   int    `help:"Number of first-level keys, from the next day that is decided on. The balancer chooses where they are." xor:"pin" placeholder:"N"`
	Keep   bool   `help:"Keep the keys as they are." xor:"pin"`
	Free   bool   `help:"Leave all to the balancer again." xor:"pin"`

	Config app.TokenConfig `kong:"embed"`
}

func (c *tenantPinCommand) Run(e *env) error {
	if c.Keys == 0 && !c.Keep && !c.Free {
		return errors.New("nothing to pin: give --keys, --keep or --free")
	}
	pin, err := control.PinChange(balance.Pin{Keep: c.Keep, Keys: c.Keys})
	if err != nil {
		return err
	}
	return c.Config.SetTenant(e.ctx, c.Tenant, []control.Change{pin}, e.app())
}

type tenantMoveCommand struct {
	Tenant    string `arg:"" help:"Name of the tenant."`
	Placement string `arg:"" help:"dedicated: containers of its own; shared: those of all other tenants." enum:"dedicated,shared"`
	From      string `help:"First UTC day of event times that is stored there. Default: the first one of the next container." placeholder:"YYYY-MM-DD"`

	Config app.TokenConfig `kong:"embed"`
}

func (c *tenantMoveCommand) Run(e *env) error {
	return c.Config.MoveTenant(e.ctx, c.Tenant, app.TenantMove{Placement: c.Placement, From: c.From}, e.app())
}

type tenantSuspendCommand struct {
	Tenant string `arg:"" help:"Name of the tenant."`
	Reason string `help:"Reason. Refused queries are answered with it." required:""`

	Config app.TokenConfig `kong:"embed"`
}

func (c *tenantSuspendCommand) Run(e *env) error {
	return c.Config.SuspendTenant(e.ctx, c.Tenant, c.Reason, e.app())
}

type tenantResumeCommand struct {
	Tenant string `arg:"" help:"Name of the tenant."`

	Config app.TokenConfig `kong:"embed"`
}

func (c *tenantResumeCommand) Run(e *env) error {
	return c.Config.ResumeTenant(e.ctx, c.Tenant, e.app())
}

type tenantCostCommand struct {
	Tenant string `arg:"" optional:"" help:"Tenant to show in detail. Default: a line for each."`

	Config app.CostConfig `kong:"embed"`
}

func (c *tenantCostCommand) Run(e *env) error { return c.Config.Cost(e.ctx, c.Tenant, e.app()) }

type tenantErasuresCommand struct {
	Tenant string `arg:"" optional:"" help:"Tenant to list. Default: all."`

	Config app.ErasuresConfig `kong:"embed"`
}

func (c *tenantErasuresCommand) Run(e *env) error {
	return app.ListErasures(e.ctx, c.Config, c.Tenant, e.app())
}
