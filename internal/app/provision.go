package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"binnacle/ingest"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/provision"
	"binnacle/internal/store"
)

// ProvisionConfig is what `binnacle provision` runs with.
type ProvisionConfig struct {
	Account AccountConfig `kong:"embed"`

	DryRun bool          `help:"Print the plan and change nothing."`
	Once   bool          `help:"Apply the plan once and end."`
	Every  time.Duration `help:"Time between two rounds." default:"1m"`

	HotRUs  int `name:"hot-rus" help:"RU/s of the current month's containers." default:"${hot_rus}" group:"Throughput"`
	WarmRUs int `name:"warm-rus" help:"RU/s of the month before it." default:"${warm_rus}" group:"Throughput"`
	ColdRUs int `name:"cold-rus" help:"RU/s of older months." default:"${cold_rus}" group:"Throughput"`
}

// Provision prints and applies the plan: once, or until the context ends.
func Provision(ctx context.Context, cfg ProvisionConfig, env Env) error {
	client, err := cfg.Account.connect(env.Logger)
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
		Containers: client.Containers(), Policy: policy, Every: cfg.Every, Logger: env.Logger,
		Directory: control.NewDirectory(control.DirectoryConfig{Documents: documents, Logger: env.Logger}),
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
		err = errors.Join(err, provision.Print(env.Stdout, steps))
	}
	if err != nil || cfg.DryRun || cfg.Once {
		return err
	}
	return p.Run(ctx)
}

// provisionFor adds the stage that makes containers for the ingest of this process. It returns the directory as ingest is to
// use it: what ingest asks for is made at once.
func (p *process) provisionFor(a account) (ingest.Directory, error) {
	containers, err := provision.New(provision.Config{
		Containers: a.client.Containers(), Directory: a.directory, Policy: provision.DevPolicy(),
		Poll:   30 * time.Second, // who asks is in this process, and wakes it
		Logger: p.part("provision"), Registerer: p.metrics,
	})
	if err != nil {
		return nil, err
	}
	p.add("provision", containers.Run)
	return askingDirectory{a.directory, containers.Wake}, nil
}

// base is the control documents that the plan is made from. Without a dry run, what they need is made first.
func base(ctx context.Context, cfg ProvisionConfig, client *cosmos.Client) (control.Documents, error) {
	if !cfg.DryRun {
		if err := client.EnsureBase(ctx); err != nil {
			return nil, fmt.Errorf("make the database in %s: %w", cfg.Account.Cosmos, err)
		}
		return client.Documents(), nil
	}
	containers, err := client.Containers().List(ctx)
	if err != nil {
		return nil, fmt.Errorf("look into %s: %w", cfg.Account.Cosmos, err)
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

// askingDirectory wakes provision when ingest asks for a container.
type askingDirectory struct {
	*control.Directory
	wake func()
}

// AskMonth is ingest.Directory.
func (a askingDirectory) AskMonth(ctx context.Context, container string) error {
	if err := a.Directory.AskMonth(ctx, container); err != nil {
		return err
	}
	a.wake()
	return nil
}

// AskMonthFor is ingest.Directory.
func (a askingDirectory) AskMonthFor(ctx context.Context, container, tenant string) error {
	if err := a.Directory.AskMonthFor(ctx, container, tenant); err != nil {
		return err
	}
	a.wake()
	return nil
}
