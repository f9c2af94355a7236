package main

import (
	"errors"
	"time"

	"binnacle/internal/app"
	"binnacle/internal/balance"
	"binnacle/internal/control"
)

type tenantCommand struct {
	List      tenantListCommand    `cmd:"" help:"List tenants with their settings."`
	Sizes     tenantSizesCommand   `cmd:"" help:"List the largest tenants with their numbers of devices, series, and values of tags and labels."`
	Set       tenantSetCommand     `cmd:"" help:"Change settings of a tenant, without a restart."`
	Explain   tenantExplainCommand `cmd:"" help:"Show where a tenant's readings are stored, since when, and why."`
	Retention struct {
		Explain retentionExplainCommand `cmd:"" hidden:"" help:"Show which days of a device go when, and why."`
	} `cmd:"" help:"Show how long readings are kept."`
	Pin      tenantPinCommand      `cmd:"" help:"Set a tenant's number of keys, or keep its keys as they are, whatever the balancer finds."`
	Suspend  tenantSuspendCommand  `cmd:"" hidden:"" help:"Refuse queries of a tenant; its readings are stored as before."`
	Resume   tenantResumeCommand   `cmd:"" hidden:"" help:"Answer queries of a suspended tenant again."`
	Erase    tenantEraseCommand    `cmd:"" help:"Erase readings of a tenant or of one of its devices."`
	Erasures tenantErasuresCommand `cmd:"" hidden:"" help:"List orders of erasure, and how far they are."`
	Token    struct {
		Add    tokenAddCommand    `cmd:"" help:"Create a token and print it. It is shown only once."`
		List   tokenListCommand   `cmd:"" help:"List tokens without their secrets."`
		Revoke tokenRevokeCommand `cmd:"" help:"Revoke a token. Roles apply it within half a minute."`
	} `cmd:"" help:"Manage bearer tokens of tenants."`
}

type tenantListCommand struct {
	Tenant string `arg:"" optional:"" help:"Tenant to list. Default: all."`

	Config app.TokenConfig `kong:"embed"`
}

func (c *tenantListCommand) Run(e *env) error {
	return app.ListTenants(e.ctx, c.Config, c.Tenant, e.app())
}

type tenantSizesCommand struct {
	Config app.SizesConfig `kong:"embed"`
}

func (tenantSizesCommand) Help() string {
	return `It reads the catalog of each tenant, at 930 request units for a million devices. Series are pairs of a device and
a metric; "binnacle cardinality --tenant" shows more of one tenant.

Examples:
  binnacle tenant sizes
  binnacle tenant sizes --top 5
  binnacle tenant sizes --json`
}

func (c *tenantSizesCommand) Run(e *env) error { return app.TenantSizes(e.ctx, c.Config, e.app()) }

type tenantSetCommand struct {
	Tenant    string               `arg:"" help:"Name of the tenant."`
	Lookback  *time.Duration       `name:"lookback" aliases:"promql-lookback" help:"Lookback of PromQL: age up to which a sample counts as the current one, such as 25m where devices report every ten minutes. 0s: as --promql-lookback of the query role."`
	Averages  control.Averages     `name:"averages" help:"exact: avg_over_time equals Prometheus' result in all bits; nearest: it may differ in the last bit, so that rollups can answer it for decimal values." enum:"exact,nearest," default:"" placeholder:"KIND"`
	Retention string               `name:"retention" help:"Retention by device: patterns with durations, such as meter-*=10y,default=400d; the first match counts. forever is without end. A shorter one hides what is older at once, for good." placeholder:"CLASSES"`
	Query     control.QueryLimits  `kong:"embed" set:"tenantlimit=unchanged"`
	Ingest    control.TenantIngest `kong:"embed" set:"tenantlimit=unchanged"`

	Config app.TokenConfig `kong:"embed"`
}

func (tenantSetCommand) Help() string {
	return `Limits are numbers, none, or default for the limits of the roles. Settings without a flag keep their values.
"binnacle tenant retention explain" shows what a retention does to a device.

Examples:
  binnacle tenant set acme --lookback 25m
  binnacle tenant set acme --averages nearest
  binnacle tenant set acme --retention 'default=400d,meter-*=10y'
  binnacle tenant set acme --query-rate 20 --query-rus 500 --query-rus-day 5e6
  binnacle tenant set acme --query-samples none --query-concurrency default
  binnacle tenant set acme --ingest-values 20000 --ingest-burst 5m --ingest-device-readings 10
  binnacle tenant set acme --ingest-devices 500 --ingest-over refuse --ingest-past 30d
  binnacle tenant set acme --ingest-label-values 1000 --ingest-total-series 200000`
}

func (c *tenantSetCommand) Run(e *env) error {
	changes := append(c.Query.Changes(), c.Ingest.Changes()...)
	if c.Lookback != nil {
		lookback, err := control.LookbackChange(*c.Lookback)
		if err != nil {
			return err
		}
		changes = append(changes, lookback)
	}
	if c.Averages != "" {
		averages, err := control.AveragesChange(c.Averages)
		if err != nil {
			return err
		}
		changes = append(changes, averages)
	}
	if c.Retention != "" {
		retention, err := control.RetentionChange(c.Retention, time.Now())
		if err != nil {
			return err
		}
		changes = append(changes, retention)
	}
	if len(changes) == 0 {
		return errors.New("nothing to set: give a flag such as --query-rate")
	}
	return c.Config.SetTenant(e.ctx, c.Tenant, changes, e.app())
}

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

type tokenAddCommand struct {
	Tenant  string          `arg:"" help:"Tenant that the token gives access to."`
	Scopes  []control.Scope `help:"Scopes of the token: read, write, admin." default:"read"`
	Expires time.Duration   `help:"Lifetime of the token, such as 90d. Default: unlimited."`
	Note    string          `help:"Note that token list shows, such as the user of the token."`

	Config app.TokenConfig `kong:"embed"`
}

func (tokenAddCommand) Help() string {
	return `Examples:
  binnacle tenant token add acme
  binnacle tenant token add acme --scopes read,admin --expires 90d --note "Grafana of the fleet team"`
}

func (c *tokenAddCommand) Run(e *env) error {
	t := control.Token{Tenant: c.Tenant, Scopes: c.Scopes, Note: c.Note}
	return c.Config.AddToken(e.ctx, t, c.Expires, e.app())
}

type tokenListCommand struct {
	Tenant string `arg:"" optional:"" help:"Tenant to list. Default: all."`

	Config app.TokenConfig `kong:"embed"`
}

func (c *tokenListCommand) Run(e *env) error {
	return app.ListTokens(e.ctx, c.Config, c.Tenant, e.app())
}

type tokenRevokeCommand struct {
	ID string `arg:"" name:"id" help:"Id of the token as listed: the part between its underscores."`

	Config app.TokenConfig `kong:"embed"`
}

func (c *tokenRevokeCommand) Run(e *env) error {
	return app.RevokeToken(e.ctx, c.Config, c.ID, e.app())
}
