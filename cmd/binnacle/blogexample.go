package main

import (
	"binnacle/internal/blogexample"
	"binnacle/internal/ru"

	"golang.org/x/term"
)

type blogexampleCommand struct {
	Users              int    `help:"Users of the blog; each has 5 to 50 posts." default:"40"`
	PhysicalPartitions int    `help:"Physical partitions of every container." default:"5"`
	Repeats            int    `help:"How often each access pattern is measured." default:"5"`
	Seed               uint64 `help:"The same data set for the same number." default:"1"`
	RUModel            string `name:"ru-model" help:"How the size of an item is charged: table, the service's published table, or linear." enum:"table,linear" default:"table"`
	JSON               bool   `name:"json" help:"Print the figures as JSON."`
}

// Help is shown below the flags.
func (blogexampleCommand) Help() string {
	return `Microsoft's article "How to model and partition data using a real-world example", in its three
versions, on the embedded Cosmos DB: what each access pattern is charged, beside the article's
figures. Nothing outside the process is used. Request units are modelled.

Examples:
  binnacle blogexample
  binnacle blogexample --users 200 --physical-partitions 20
  binnacle blogexample --ru-model linear --json`
}

// Run is called by kong.
func (c *blogexampleCommand) Run(e *env) error {
	cfg := blogexample.Config{Users: c.Users, PhysicalPartitions: c.PhysicalPartitions, Repeats: c.Repeats, Seed: c.Seed}
	if c.RUModel == "linear" {
		cfg.Model = ru.Linear
	}
	if term.IsTerminal(int(e.stderr.Fd())) {
		cfg.Progress = e.stderr
	}
	report, err := blogexample.Run(e.ctx, cfg)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(e.stdout, report)
	}
	return blogexample.Print(e.stdout, report)
}
