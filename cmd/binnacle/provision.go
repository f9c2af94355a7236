package main

import (
	"strconv"

	"binnacle/internal/app"
	"binnacle/internal/provision"

	"github.com/alecthomas/kong"
)

func planDefaults() kong.Vars {
	p := provision.DefaultPolicy()
	return kong.Vars{"hot_rus": strconv.Itoa(p.HotRUs), "warm_rus": strconv.Itoa(p.WarmRUs),
		"cold_rus": strconv.Itoa(p.ColdRUs)}
}

type provisionCommand struct {
	Config app.ProvisionConfig `kong:"embed"`
}

func (provisionCommand) Help() string {
	return `Examples:
  binnacle provision --dry-run
  binnacle provision --once --hot-rus 12000
  binnacle provision --cosmos https://ACCOUNT.documents.azure.com:443/ --key KEY
  binnacle provision --once --journal-of telemetry --kafka broker-1:9092
  binnacle provision --export bicep > deploy/bicep/containers.bicep`
}

func (c *provisionCommand) Run(e *env) error { return app.Provision(e.ctx, c.Config, e.app()) }
