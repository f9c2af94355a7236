package main

import "binnacle/internal/app"

type actionsCommand struct {
	Config app.ActionsConfig `kong:"embed"`
}

func (actionsCommand) Help() string {
	return `Examples:
  binnacle actions
  binnacle actions --since 365d --tenant acme --json`
}

func (c *actionsCommand) Run(e *env) error { return app.Actions(e.ctx, c.Config, e.app()) }
