package main

import "binnacle/internal/app"

// rollupsCommand is the role that makes rollups, and what operators do about them.
type rollupsCommand struct {
	Run     rollupsRunCommand     `cmd:"" default:"withargs" help:"Make rollups and keep them right, until it is stopped."`
	List    rollupsListCommand    `cmd:"" help:"List the rollups of tenants, by day and metric, with what they take."`
	Rebuild rollupsRebuildCommand `cmd:"" help:"Make rollups anew, within --rollup-budget, while everything goes on."`
	Drop    rollupsDropCommand    `cmd:"" help:"Take rollups away: their days are answered from chunks."`
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
	return `It reads the rollups to measure them, within --rollup-budget: "read RU" is what that is charged, and what a panel over
the whole day pays when it reads all families, "write RU" what storing them once costs by the published prices. Beside it
stand the queries of the last week that rollups of the metric could answer, and the request units that they have saved.

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
