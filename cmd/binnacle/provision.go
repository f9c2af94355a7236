package main

import (
	"strconv"
	"time"

	"binnacle/internal/app"
	"binnacle/internal/provision"

	"github.com/alecthomas/kong"
)

// planDefaults are the defaults of flags that stand in the policy.
func planDefaults() kong.Vars {
	p := provision.DefaultPolicy()
	return kong.Vars{"hot_rus": strconv.Itoa(p.HotRUs), "warm_rus": strconv.Itoa(p.WarmRUs), "cold_rus": strconv.Itoa(p.ColdRUs)}
}

type provisionCommand struct {
	Cosmos string `help:"Address of Cosmos DB, host:port or URL." default:"127.0.0.1:8081"`
	Key    string `help:"Master key of the account. Default: the emulators' public key." placeholder:"KEY"`

	DryRun bool          `help:"Print the plan and change nothing."`
	Once   bool          `help:"Apply the plan once and end."`
	Every  time.Duration `help:"Time between two rounds." default:"1m"`

	HotRUs  int `name:"hot-rus" help:"RU/s of the current month's containers." default:"${hot_rus}"`
	WarmRUs int `name:"warm-rus" help:"RU/s of the month before it." default:"${warm_rus}"`
	ColdRUs int `name:"cold-rus" help:"RU/s of older months." default:"${cold_rus}"`
}

// Help is shown below the flags.
func (provisionCommand) Help() string {
	return `Examples:
  binnacle provision --dry-run
  binnacle provision --once --hot-rus 12000
  binnacle provision --cosmos https://ACCOUNT.documents.azure.com:443/ --key KEY`
}

// Run is called by kong.
func (c *provisionCommand) Run(e *env) error {
	return app.Provision(e.ctx, app.ProvisionConfig{
		Cosmos: c.Cosmos, Key: c.Key, DryRun: c.DryRun, Once: c.Once, Every: c.Every,
		HotRUs: c.HotRUs, WarmRUs: c.WarmRUs, ColdRUs: c.ColdRUs, Stdout: e.stdout, Logger: e.log,
	})
}
