package main

import "binnacle/internal/app"

type tenantCostCommand struct {
	Tenant string `arg:"" optional:"" help:"Tenant to show in detail. Default: a line for each."`

	Config app.CostConfig `kong:"embed"`
}

func (tenantCostCommand) Help() string {
	return `Every process counts what it is charged, and stores its counters every minute. usage is throughput that was used; idle
is what nobody used of the containers that a tenant's requests went to; floors are containers that serve all tenants
alike. Prices are list prices; docs/guides/tenants.md has the rules.

Examples:
  binnacle tenant cost
  binnacle tenant cost acme --month 2026-11
  binnacle tenant cost --json
  binnacle tenant cost --format focus > bill.csv`
}

func (c *tenantCostCommand) Run(e *env) error { return c.Config.Cost(e.ctx, c.Tenant, e.app()) }
