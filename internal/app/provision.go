package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/provision"
	"binnacle/internal/store"
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
	documents, err := base(ctx, cfg, client)
	if err != nil {
		return err
	}
	policy := provision.DefaultPolicy()
	policy.HotRUs, policy.WarmRUs, policy.ColdRUs = cfg.HotRUs, cfg.WarmRUs, cfg.ColdRUs
	p, err := provision.New(provision.Config{
		Containers: client.Containers(), Policy: policy, Every: cfg.Every, Logger: cfg.Logger,
		Directory: control.NewDirectory(control.DirectoryConfig{Documents: documents, Logger: cfg.Logger}),
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

// base is the control documents that the plan is made from. Without a dry run, what they need is made first.
func base(ctx context.Context, cfg ProvisionConfig, client *cosmos.Client) (control.Documents, error) {
	if !cfg.DryRun {
		if err := client.EnsureBase(ctx); err != nil {
			return nil, fmt.Errorf("make the database in %s: %w", cfg.Cosmos, err)
		}
		return client.Documents(), nil
	}
	containers, err := client.Containers().List(ctx)
	if err != nil {
		return nil, fmt.Errorf("look into %s: %w", cfg.Cosmos, err)
	}
	if !slices.Contains(containers, store.ControlContainer) {
		return noDocuments{}, nil
	}
	return client.Documents(), nil
}

// noDocuments are the control documents of an account that Binnacle has never seen: a dry run makes not even their container.
type noDocuments struct{ control.Documents }

// List is control.Documents.
func (noDocuments) List(context.Context, string) ([]control.Document, error) { return nil, nil }
