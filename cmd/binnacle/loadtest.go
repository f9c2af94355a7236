package main

import (
	"encoding/json"
	"io"
	"time"

	"binnacle/internal/loadtest"
	"binnacle/internal/ru"

	"golang.org/x/term"
)

type loadtestCommand struct {
	Scenario string        `help:"uniform: ten tenants of the same size; whale: one of ten has 80 % of the devices; all." enum:"uniform,whale,all" default:"all"`
	Devices  int           `help:"Simulated trucks of all tenants together." default:"800"`
	Interval time.Duration `help:"Time between two readings of a truck." default:"10s"`
	Minutes  int           `help:"Fleet time that is measured." default:"60"`
	Sample   time.Duration `help:"How much of that the layouts with a document per reading take." default:"2m"`
	Hold     time.Duration `help:"Longest time that a reading waits in Binnacle's memory." default:"1h"`
	Seed     uint64        `help:"The same readings for the same number." default:"1"`
	RUModel  string        `name:"ru-model" help:"How the size of a document is charged: table, the service's published table, or linear." enum:"table,linear" default:"table"`
	JSON     bool          `name:"json" help:"Print the figures as JSON."`
}

// Help is shown below the flags.
func (loadtestCommand) Help() string {
	return `The same readings go through three layouts, each on an embedded Cosmos DB with five physical
partitions: a document per reading by date, one by tenant and device, and Binnacle. Nothing outside
the process is used. Request units are modelled.

Examples:
  binnacle loadtest
  binnacle loadtest --scenario whale --seed 7
  binnacle loadtest --devices 2000 --interval 30s --minutes 120 --json`
}

// Run is called by kong.
func (c *loadtestCommand) Run(e *env) error {
	cfg := loadtest.Config{
		Scenarios: loadtest.AllScenarios(), Devices: c.Devices, Interval: c.Interval,
		Window: time.Duration(c.Minutes) * time.Minute, Sample: c.Sample, Hold: c.Hold, Seed: c.Seed,
	}
	if c.Scenario != "all" {
		cfg.Scenarios = []loadtest.Scenario{loadtest.Scenario(c.Scenario)}
	}
	if c.RUModel == "linear" {
		cfg.Model = ru.Linear
	}
	if term.IsTerminal(int(e.stderr.Fd())) {
		cfg.Progress = e.stderr
	}
	report, err := loadtest.Run(e.ctx, cfg)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(e.stdout, report)
	}
	return loadtest.Print(e.stdout, report)
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
