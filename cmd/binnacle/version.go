package main

import "binnacle/internal/app"

type versionCommand struct {
	JSON bool `name:"json" help:"Print the version as JSON."`
}

func (c *versionCommand) Run(e *env) error { return app.ThisVersion().Print(e.stdout, c.JSON) }
