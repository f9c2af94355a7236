package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"binnacle/internal/lab/loadtest"
	"binnacle/internal/ops"
)

type loadtestCommand struct {
	Scenario string          `help:"Scenario. uniform: ten tenants of the same size; whale: one of ten tenants has 80 % of the devices; zipf: a thousand tenants by Zipf's law; hot-device: one device reports half of all readings; month-roll: a month ends; tenant-explodes: one grows for three days; reconnect: half of the devices send late; main: uniform and whale; or all." enum:"uniform,whale,zipf,hot-device,month-roll,tenant-explodes,reconnect,main,all" default:"main"`
	Minutes  int             `help:"Measured fleet time, in minutes. Default: an hour, or a day with a hold of 12h and more." default:"0" placeholder:"MINUTES"`
	Config   loadtest.Config `kong:"embed"`
	HTML     string          `name:"html" help:"Write a page with heat maps, curves and prices to FILE." placeholder:"FILE"`
	Check    bool            `help:"Exit with 1 unless Binnacle keeps its promises: hottest physical partition at most 1.2 times the mean with the balancer, 0.5 % of answers 429, a minute of waiting, 1/200 of the RU of other layouts."`
	JSON     bool            `name:"json" help:"Print JSON."`

	Simulate   bool                `help:"Simulate up to 50,000,000 devices, chunk by chunk."`
	Simulation loadtest.Simulation `kong:"embed,group='Simulation'"`

	OnTarget bool              `name:"target" help:"Put layouts on the Cosmos DB account of --cosmos instead, each in a container that is made and deleted again. Its price is shown first and confirmed." group:"Real account"`
	Yes      bool              `help:"Use the account without asking." group:"Real account"`
	Target   loadtest.Target   `kong:"embed,group='Real account'"`
	Account  ops.AccountConfig `kong:"embed,group='Real account'"`
}

func (c *loadtestCommand) Run(e *env) error {
	cfg := c.Config
	cfg.Window, cfg.Progress = time.Duration(c.Minutes)*time.Minute, e.progress()
	if c.Simulate {
		return c.simulate(e, cfg)
	}
	if c.OnTarget {
		return c.target(e, cfg)
	}
	switch c.Scenario {
	case "main":
		cfg.Scenarios = loadtest.MainScenarios()
	case "all":
		cfg.Scenarios = loadtest.AllScenarios()
	default:
		cfg.Scenarios = []loadtest.Scenario{loadtest.Scenario(c.Scenario)}
	}
	if cfg.Progress == nil {
		fmt.Fprintln(e.stderr, "The load test runs: a minute or two for the main scenarios, half an hour for all.")
	}
	report, err := loadtest.Run(e.ctx, cfg)
	if err != nil {
		return err
	}
	if c.HTML != "" {
		report.Command = strings.ReplaceAll("binnacle "+strings.Join(os.Args[1:], " "), c.HTML, "report.html")
		if err := writePage(c.HTML, report); err != nil {
			return err
		}
	}
	err = printReport(e, c.JSON, report, loadtest.Print)
	if faults := report.Check(); err == nil && c.Check && len(faults) > 0 {
		return fmt.Errorf("figures that do not keep what Binnacle promises:\n%s", strings.Join(faults, "\n"))
	}
	return err
}

func (c *loadtestCommand) simulate(e *env, cfg loadtest.Config) error {
	if c.HTML != "" || c.Check || c.OnTarget {
		return errors.New("--html, --check and --target are not for --simulate")
	}
	if c.Scenario == "main" {
		c.Scenario = string(loadtest.Zipf)
	}
	report, err := loadtest.Simulate(e.ctx, cfg, c.Simulation, loadtest.Scenario(c.Scenario))
	if err != nil {
		return err
	}
	return printReport(e, c.JSON, report, loadtest.PrintSimulation)
}

// target measures layouts on an account, after what they cost was confirmed.
func (c *loadtestCommand) target(e *env, cfg loadtest.Config) error {
	cfg.Scenarios = []loadtest.Scenario{loadtest.Scenario(c.Scenario)}
	if c.Scenario == "main" {
		cfg.Scenarios[0] = loadtest.Whale
	}
	if c.HTML != "" || c.Check {
		return errors.New("--html and --check are not for --target")
	}
	if err := cfg.ValidateTarget(c.Target); err != nil {
		return err
	}
	if err := c.confirm(e); err != nil {
		return err
	}
	client, err := c.Account.Connect(e.log)
	if err != nil {
		return err
	}
	defer client.Close()
	report, err := loadtest.RunTarget(e.ctx, cfg, c.Target, client)
	if err != nil {
		return err
	}
	return printReport(e, c.JSON, report, loadtest.PrintTarget)
}

// confirm shows what a run makes on an account and what that costs, and asks whether it may go on.
func (c *loadtestCommand) confirm(e *env) error {
	fmt.Fprintf(e.stderr, "On %s the load test makes %d containers named %s…, one after another, each of %d RU/s and "+
		"billed for an hour at least: $%.2f (list price). It writes for at most %s to each, and deletes it.\n",
		c.Account.Cosmos, len(c.Target.Layouts), loadtest.TargetPrefix, c.Target.RUs, c.Target.Dollars(), c.Target.Time)
	switch {
	case c.Yes:
		return nil
	case !isTerminal(os.Stdin):
		return errors.New("a real account is not used without --yes where nobody can be asked")
	}
	return e.confirm("Go on?")
}

func writePage(name string, report loadtest.Report) error {
	var page bytes.Buffer
	if err := loadtest.HTML(&page, report); err != nil {
		return err
	}
	if err := os.WriteFile(name, page.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the page of the load test: %w", err)
	}
	return nil
}
