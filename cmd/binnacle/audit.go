package main

import (
	"encoding/json"
	"fmt"

	"binnacle/internal/app"
	"binnacle/internal/audit"
	"binnacle/internal/cosmos"

	"golang.org/x/term"
)

type auditCommand struct {
	Config  audit.Config      `kong:"embed"`
	Account app.AccountConfig `kong:"embed,group='Account'"`
}

func (auditCommand) Help() string {
	return `The exit code is 0 only without findings. Without --from it audits today.

Examples:
  binnacle audit --from 2026-11-01 --to 2026-11-20
  binnacle audit --from 2026-11-20 --log --max-rus 1000
  binnacle audit --from 2026-11-20 --tenant acme --device truck-0000 --columns --json`
}

func (c *auditCommand) Run(e *env) error {
	cfg := c.Config
	if term.IsTerminal(int(e.stderr.Fd())) {
		cfg.Progress = e.stderr
	}
	client, err := c.Account.Connect(e.log)
	if err != nil {
		return err
	}
	defer client.Close()
	stores := audit.Stores{
		Headers:    client.Chunks().At(cosmos.Priority{Low: true}),
		Containers: client.Containers(), Documents: client.Documents(),
	}
	sum, err := audit.Run(e.ctx, cfg, stores, func(f audit.Finding) error {
		if cfg.JSON {
			return json.NewEncoder(e.stdout).Encode(f)
		}
		_, err := fmt.Fprintln(e.stdout, f)
		return err
	})
	if err != nil {
		return err
	}
	if err := sum.Print(e.stdout, cfg.JSON); err != nil {
		return fmt.Errorf("print the summary: %w", err)
	}
	if sum.Findings > 0 {
		return fmt.Errorf("%d findings", sum.Findings)
	}
	return nil
}
