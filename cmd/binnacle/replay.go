package main

import (
	"errors"
	"fmt"
	"time"

	"binnacle/internal/ops"
	"binnacle/internal/ops/replay"
)

type replayCommand struct {
	Config replay.Config `kong:"embed"`

	Backfill    bool              `help:"Allow a backfill for the file's readings: they are accepted at any age within the tenant's retention." group:"Backfill"`
	BackfillFor time.Duration     `name:"backfill-for" help:"Lifetime of the backfill permission." default:"7d" group:"Backfill"`
	Account     ops.AccountConfig `kong:"embed,group='Backfill'"` // where the grant is written
}

func (c *replayCommand) Run(e *env) error {
	cfg := c.Config
	cfg.Progress = e.progress()
	if c.Backfill {
		backfills, err := ops.NewBackfills(c.Account, e.log)
		if err != nil {
			return err
		}
		defer backfills.Close()
		backfills.Lasts, backfills.Says, backfills.DryRun = c.BackfillFor, e.stdout, cfg.DeadLetters.DryRun
		cfg.Grant = backfills.Allow
		if !cfg.DeadLetters.FromDLQ && cfg.Validate() == nil {
			if cfg.Topic, err = backfills.Topic(e.ctx, cfg.Kafka, cfg.Group, cfg.Topic); err != nil {
				return err
			}
		}
	}
	if cfg.DeadLetters.FromDLQ {
		summary, err := replay.RunDeadLetters(e.ctx, cfg)
		if summary.Selected > 0 || err == nil {
			err = errors.Join(err, printed(summary.Print(e.stdout)))
		}
		return err
	}
	summary, err := replay.Run(e.ctx, cfg)
	if summary.Records > 0 || err == nil && !cfg.DeadLetters.DryRun {
		err = errors.Join(err, printed(summary.Print(e.stdout)))
	}
	return err
}

func printed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("print the summary: %w", err)
}
