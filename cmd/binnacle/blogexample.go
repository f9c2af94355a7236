package main

import (
	"binnacle/internal/blogexample"

	"golang.org/x/term"
)

type blogexampleCommand struct {
	Config blogexample.Config `kong:"embed"`
	JSON   bool               `name:"json" help:"Print the results as JSON."`
}

func (blogexampleCommand) Help() string {
	return `Microsoft's article "How to model and partition data using a real-world example", in its three
versions, on the embedded Cosmos DB: what each access pattern is charged, beside the article's
figures. Nothing outside the process is used. Request units are modelled.

Examples:
  binnacle blogexample
  binnacle blogexample --users 200 --physical-partitions 20
  binnacle blogexample --ru-model slope --json`
}

func (c *blogexampleCommand) Run(e *env) error {
	cfg := c.Config
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
