package main

import "binnacle/internal/queryclient"

type gapsCommand struct {
	queryclient.Gaps `kong:"embed"`
}

func (gapsCommand) Help() string {
	return `The exit code is 0 unless chunks are missing from the store, or the querier does not answer.

Examples:
  binnacle gaps truck-0000 --tenant acme
  binnacle gaps truck-0000 --tenant acme --from -7d --expect 10s
  binnacle gaps --tenant acme
  binnacle gaps m1 --api https://binnacle.example.com --token-file token --from 2026-11-20T00:00:00Z --json`
}

func (c *gapsCommand) Run(e *env) error { return c.Gaps.Run(e.ctx, e.stdout) }
