package main

import (
	"encoding/json"
	"io"
	"time"

	"binnacle/internal/loadtest"

	"golang.org/x/term"
)

type loadtestCommand struct {
	Scenario string          `help:"uniform: ten tenants of the same size; whale: one of ten has 80 % of the devices; all." enum:"uniform,whale,all" default:"all"`
	Minutes  int             `help:"Fleet time that is measured." default:"60"`
	Config   loadtest.Config `kong:"embed"`
	JSON     bool            `name:"json" help:"Print the figures as JSON."`
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
	cfg := c.Config
	cfg.Scenarios, cfg.Window = loadtest.AllScenarios(), time.Duration(c.Minutes)*time.Minute
	if c.Scenario != "all" {
		cfg.Scenarios = []loadtest.Scenario{loadtest.Scenario(c.Scenario)}
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
