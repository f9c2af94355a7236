package main

import "binnacle/internal/app"

type devCommand struct {
	Config app.DevConfig `kong:"embed"`
}

func (devCommand) Help() string {
	return `Examples:
  binnacle dev
  binnacle dev --fleet 0 --data-dir /var/tmp/trial
  binnacle dev --kafka 127.0.0.1:0 --cosmos 127.0.0.1:0 --api 127.0.0.1:0 --admin 127.0.0.1:0`
}

func (c *devCommand) Run(e *env) error { return app.Dev(e.ctx, c.Config, e.app()) }
