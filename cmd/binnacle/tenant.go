package main

import (
	"errors"

	"binnacle/internal/app"
	"binnacle/internal/balance"
	"binnacle/internal/control"
)

type tenantCommand struct {
	List      tenantListCommand    `cmd:"" help:"List tenants with their settings."`
	Show      tenantShowCommand    `cmd:"" help:"Show everything that was set of a tenant."`
	Add       tenantAddCommand     `cmd:"" help:"Register a tenant before its first reading."`
	Sizes     tenantSizesCommand   `cmd:"" help:"List the largest tenants with their numbers of devices, series, and values of tags and labels."`
	Set       tenantSetCommand     `cmd:"" help:"Change settings of a tenant, without a restart."`
	Explain   tenantExplainCommand `cmd:"" help:"Show where a tenant's readings are stored, since when, and why."`
	Retention struct {
		Explain retentionExplainCommand `cmd:"" help:"Show which days of a device go when, and why."`
	} `cmd:"" help:"Show how long readings are kept."`
	Pin      tenantPinCommand      `cmd:"" help:"Set a tenant's number of keys, or keep its keys as they are, whatever the balancer finds."`
	Move     tenantMoveCommand     `cmd:"" help:"Place a tenant in containers of its own, or in shared ones, from a day on."`
	Copy     tenantCopyCommand     `cmd:"" help:"Copy chunks of a tenant to another account, and compare both."`
	Export   tenantExportCommand   `cmd:"" help:"Write a tenant's readings into files, a day each."`
	Suspend  tenantSuspendCommand  `cmd:"" help:"Refuse queries of a tenant; its readings are stored as before."`
	Resume   tenantResumeCommand   `cmd:"" help:"Answer queries of a suspended tenant again."`
	Cost     tenantCostCommand     `cmd:"" help:"Show what a month costs, by tenant."`
	Erase    tenantEraseCommand    `cmd:"" help:"Erase readings of a tenant or of one of its devices."`
	Erasures tenantErasuresCommand `cmd:"" help:"List orders of erasure, and how far they are."`
	Token    struct {
		Add    tokenAddCommand    `cmd:"" help:"Create a token and print it. It is shown only once."`
		List   tokenListCommand   `cmd:"" help:"List tokens without their secrets."`
		Revoke tokenRevokeCommand `cmd:"" help:"Revoke a token. Roles apply it within half a minute."`
	} `cmd:"" help:"Manage bearer tokens of tenants."`
}

type tenantSizesCommand struct {
	Config app.SizesConfig `kong:"embed"`
}

func (tenantSizesCommand) Help() string {
	return `It reads the catalog of each tenant, at 930 request units for a million devices. Series are pairs of a device and
a metric; /api/v1/cardinality of the query API shows more of one tenant.

Examples:
  binnacle tenant sizes
  binnacle tenant sizes --top 5
  binnacle tenant sizes --json`
}

func (c *tenantSizesCommand) Run(e *env) error { return app.TenantSizes(e.ctx, c.Config, e.app()) }

type tenantExplainCommand struct {
	Tenant string `arg:"" help:"Name of the tenant."`

	Config app.TokenConfig `kong:"embed"`
}

func (tenantExplainCommand) Help() string {
	return `Examples:
  binnacle tenant explain acme`
}

func (c *tenantExplainCommand) Run(e *env) error {
	return app.ExplainTenant(e.ctx, c.Config, c.Tenant, e.app())
}

type retentionExplainCommand struct {
	Tenant string `arg:"" help:"Name of the tenant."`
	Device string `arg:"" help:"Id of the device."`

	Config app.TokenConfig `kong:"embed"`
}

func (retentionExplainCommand) Help() string {
	return `Examples:
  binnacle tenant retention explain acme meter-7`
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

func (tenantPinCommand) Help() string {
	return `Examples:
  binnacle tenant pin acme --keys 20
  binnacle tenant pin acme --keep
  binnacle tenant pin acme --free`
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
