package app

import (
	"cmp"
	"context"

	"binnacle/internal/charges"
	"binnacle/internal/charges/purpose"
	"binnacle/internal/ops"
	"binnacle/internal/rollups"
	"binnacle/internal/tenant"
)

// RollupsConfig configures a process that may make rollups together with other roles.
type RollupsConfig struct {
	Rollups bool           `help:"Make rollups, which panels over many devices read instead of chunks. Several processes share the work." default:"true" negatable:""`
	Maker   rollups.Config `kong:"embed"`
}

// RollupsRoleConfig is what `binnacle rollups` runs with.
type RollupsRoleConfig struct {
	Account ops.AccountConfig `kong:"embed,group='Cosmos DB'"`
	Rollups rollups.Config    `kong:"embed,group='Rollups'"`
	Admin   AdminConfig       `kong:"embed"`

	Check bool `help:"Check that everything the role needs exists, and exit."`
}

// Run makes rollups until the context ends, and returns nil then.
func (cfg RollupsRoleConfig) Run(ctx context.Context, env ops.Env) error {
	var faults faults
	faults.Add(cfg.Account.Validate())
	faults.Add(cfg.Rollups.Validate())
	if err := faults.Err(); err != nil {
		return err
	}
	cfg.Rollups.Hold = cmp.Or(cfg.Rollups.Hold, ops.DefaultHold)
	return roles{name: "rollups", account: cfg.Account, admin: cfg.Admin, check: cfg.Check,
		rollups: &cfg.Rollups}.run(ctx, env)
}

// addRollups builds the role and adds its stage.
func (p *process) addRollups(cfg rollups.Config, a account) error {
	cfg.Tenants = func() []tenant.Tenant { return a.directory.Snapshot().Tenants() }
	cfg.Lease = ops.LeasesOf(a.client, "rollups")
	cfg.Logger, cfg.Metrics = p.partLogger("rollups"), p.metrics
	w, err := ops.NewRollups(cfg, a.client, a.directory)
	if err != nil {
		return err
	}
	p.add("rollups", func(ctx context.Context) error {
		return w.Run(purpose.With(ctx, &purpose.Purpose{Kind: charges.Rollups}))
	})
	return nil
}
