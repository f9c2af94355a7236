package main

import "binnacle/internal/app"

// rollupsCommand is the role that makes lanes, and what operators do about them.
type rollupsCommand struct {
	Run     rollupsRunCommand     `cmd:"" default:"withargs" help:"Make lanes and keep them right, until it is stopped."`
	List    rollupsListCommand    `cmd:"" help:"List the lanes of tenants, by day and metric, with what they take."`
	Rebuild rollupsRebuildCommand `cmd:"" help:"Make lanes anew, within --lanes-rus, while everything goes on."`
	Drop    rollupsDropCommand    `cmd:"" help:"Take lanes away: their days are answered from chunks."`
}

type rollupsRunCommand struct {
	Config app.RollupsRoleConfig `kong:"embed"`
}

func (rollupsRunCommand) Help() string {
	return `Makes lanes of chunks: one metric of all devices on a grid of minutes and half hours. Any number of processes share the work.

Examples:
  binnacle views --cosmos https://ACCOUNT.documents.azure.com:443/ --key-file keys --lanes-rus 500
  binnacle views --lanes-hold 30m --lanes-families L --lanes-first velocity,odometer
  binnacle views run --check`
}

func (c *rollupsRunCommand) Run(e *env) error { return app.Rollups(e.ctx, c.Config, e.app()) }

type rollupsListCommand struct {
	Config app.RollupsOfConfig `kong:"embed"`
}

func (rollupsListCommand) Help() string {
	return `It reads the lanes to measure them, within --lanes-rus: "read RU" is what that is charged, and what a panel over
the whole day pays when it reads all families, "write RU" what storing them once costs by the published prices. Beside it
stand the queries of the last week that lanes of the metric could answer, and the request units that they have saved.

Examples:
  binnacle views list --tenant acme --from 2026-11-20 --to 2026-11-20`
}

func (c *rollupsListCommand) Run(e *env) error { return app.ListRollups(e.ctx, c.Config, e.app()) }

type rollupsRebuildCommand struct {
	Config app.RebuildConfig `kong:"embed"`
}

func (rollupsRebuildCommand) Help() string {
	return `Examples:
  binnacle views rebuild --tenant acme --from 2026-10-01 --to 2026-10-31 --lanes-rus 300
  binnacle views rebuild --metric velocity --from 2026-10-01
  binnacle views rebuild --lanes-first velocity --lanes-metrics 20`
}

func (c *rollupsRebuildCommand) Run(e *env) error {
	return app.RebuildRollups(e.ctx, c.Config, e.app())
}

type rollupsDropCommand struct {
	Config app.RollupsOfConfig `kong:"embed"`
}

func (rollupsDropCommand) Help() string {
	return `The role makes lanes of recent days again, unless it is told --lanes-without.

Examples:
  binnacle views drop --tenant acme --from 2026-10-01 --to 2026-10-31`
}

func (c *rollupsDropCommand) Run(e *env) error { return app.DropRollups(e.ctx, c.Config, e.app()) }
