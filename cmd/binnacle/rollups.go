package main

import "binnacle/internal/app"

// rollupsCommand is the role that makes rollups, and the commands of operators for them.
type rollupsCommand struct {
	Run     rollupsRunCommand     `cmd:"" default:"withargs" help:"Make rollups and correct them, until stopped."`
	List    rollupsListCommand    `cmd:"" help:"List the rollups of tenants by day and metric, with their sizes and charges."`
	Rebuild rollupsRebuildCommand `cmd:"" help:"Rebuild rollups within --rollup-budget, while queries and ingest continue."`
	Drop    rollupsDropCommand    `cmd:"" help:"Delete rollups: queries then read chunks."`
}

type rollupsRunCommand struct {
	Config app.RollupsRoleConfig `kong:"embed"`
}

func (rollupsRunCommand) Help() string {
	return `Makes rollups of chunks: one metric of all devices on a grid of minutes and half hours. Any number of processes share the work.

Examples:
  binnacle rollups --cosmos https://ACCOUNT.documents.azure.com:443/ --key-file keys --rollup-budget 500
  binnacle rollups --rollup-hold 30m --rollup-families L --rollup-first velocity,odometer
  binnacle rollups run --check`
}

func (c *rollupsRunCommand) Run(e *env) error { return app.Rollups(e.ctx, c.Config, e.app()) }

type rollupsListCommand struct {
	Config app.RollupsOfConfig `kong:"embed"`
}

func (rollupsListCommand) Help() string {
	return `The command reads the rollups, within --rollup-budget. "read RU" is the charge of that read: a panel over the whole day pays
it if it reads all families. "write RU" is the published price of storing them once.

Examples:
  binnacle rollups list --tenant acme --from 2026-11-20 --to 2026-11-20`
}

func (c *rollupsListCommand) Run(e *env) error { return app.ListRollups(e.ctx, c.Config, e.app()) }

type rollupsRebuildCommand struct {
	Config app.RebuildConfig `kong:"embed"`
}

func (rollupsRebuildCommand) Help() string {
	return `Examples:
  binnacle rollups rebuild --tenant acme --from 2026-10-01 --to 2026-10-31 --rollup-budget 300
  binnacle rollups rebuild --metric velocity --from 2026-10-01
  binnacle rollups rebuild --rollup-first velocity --rollup-metrics 20`
}

func (c *rollupsRebuildCommand) Run(e *env) error {
	return app.RebuildRollups(e.ctx, c.Config, e.app())
}

type rollupsDropCommand struct {
	Config app.RollupsOfConfig `kong:"embed"`
}

func (rollupsDropCommand) Help() string {
	return `The role makes rollups of recent days again, unless it runs with --rollup-without.

Examples:
  binnacle rollups drop --tenant acme --from 2026-10-01 --to 2026-10-31`
}

func (c *rollupsDropCommand) Run(e *env) error { return app.DropRollups(e.ctx, c.Config, e.app()) }
