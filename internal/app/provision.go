package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/provision"
)

// ProvisionConfig is what `binnacle provision` runs with.
type ProvisionConfig struct {
	Cosmos string
	Key    string
	DryRun bool
	Once   bool
	Every  time.Duration

	HotRUs, WarmRUs, ColdRUs int

	Stdout io.Writer
	Logger *slog.Logger
}

// Provision prints and applies the plan: once, or until the context ends.
func Provision(ctx context.Context, cfg ProvisionConfig) error {
	client, err := connect(cfg.Cosmos, cfg.Key, cfg.Logger)
	if err != nil {
		return err
	}
	defer client.Close()
	if !cfg.DryRun {
		if err := client.EnsureBase(ctx); err != nil {
			return fmt.Errorf("make the database in %s: %w", cfg.Cosmos, err)
		}
	}
	policy := provision.DefaultPolicy()
	policy.HotRUs, policy.WarmRUs, policy.ColdRUs = cfg.HotRUs, cfg.WarmRUs, cfg.ColdRUs
	p, err := provision.New(provision.Config{
		Containers: client.Containers(), Policy: policy, Every: cfg.Every, Logger: cfg.Logger,
		Directory: control.NewDirectory(control.DirectoryConfig{Documents: client.Documents(), Logger: cfg.Logger}),
	})
	if err != nil {
		return err
	}
	var steps []provision.Step
	if cfg.DryRun {
		steps, err = p.Plan(ctx)
	} else {
		steps, err = p.Once(ctx)
	}
	if err == nil || len(steps) > 0 {
		err = errors.Join(err, provision.Print(cfg.Stdout, steps))
	}
	if err != nil || cfg.DryRun || cfg.Once {
		return err
	}
	return p.Run(ctx)
}
