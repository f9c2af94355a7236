package main

import (
	"encoding/json"
	"fmt"

	"binnacle/internal/cosmos"
	"binnacle/internal/ops"
	"binnacle/internal/ops/audit"
)

type auditCommand struct {
	Config  audit.Config      `kong:"embed"`
	Account ops.AccountConfig `kong:"embed,group='Account'"`
}

func (c *auditCommand) Run(e *env) error {
	cfg := c.Config
	cfg.Progress = e.progress()
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
	return sum.Check()
}
