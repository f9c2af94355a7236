package ops

import (
	"context"
	"errors"
	"time"

	"binnacle/internal/cosmos"
	"binnacle/internal/tenant"
)

// SetTenant is what `binnacle tenant set` works with.
type SetTenant struct {
	Tenant      string             `arg:"" help:"Name of the tenant."`
	Lookback    *time.Duration     `name:"lookback" aliases:"promql-lookback" help:"Lookback of PromQL: age up to which a sample counts as the current one, such as 25m where devices report every ten minutes. 0s: as --promql-lookback of the query role."`
	Retention   *string            `name:"retention" help:"Retention by device: patterns or tags with durations, such as meter-*=10y,{site=oslo}=2y,default=400d; the first match counts. forever is without end. A shorter one hides what is older for good, two hours later, and must be confirmed." placeholder:"CLASSES"`
	DisplayName *string            `name:"display-name" help:"Name of the tenant that people read. Empty: none." placeholder:"TEXT"`
	Contact     *string            `name:"contact" help:"Person or address to turn to about the tenant. Empty: none." placeholder:"TEXT"`
	Tags        map[string]string  `name:"tag" help:"Tag of the tenant, key=value; key= removes it. It may be repeated." mapsep:"none" placeholder:"KEY=VALUE"`
	Query       tenant.QueryLimits `kong:"embed" set:"tenantlimit=unchanged"`
	Ingest      tenant.Ingest      `kong:"embed" set:"tenantlimit=unchanged"`

	Confirmation `kong:"embed"`
	Output       `kong:"embed"`
}

// Run changes settings of a tenant, and prints the tenant.
func (cfg SetTenant) Run(ctx context.Context, client *cosmos.Client, env Env) error {
	changes := append(cfg.Query.Changes(), cfg.Ingest.Changes()...)
	if cfg.Lookback != nil {
		lookback, err := tenant.LookbackChange(*cfg.Lookback)
		if err != nil {
			return err
		}
		changes = append(changes, lookback)
	}
	for _, s := range []struct {
		name  string
		value *string
	}{{"retention", cfg.Retention}, {"display-name", cfg.DisplayName},
		{"contact", cfg.Contact}} {
		if s.value == nil {
			continue
		}
		more, err := tenant.Setting{Name: s.name, Value: *s.value}.Changes(time.Now)
		if err != nil {
			return err
		}
		changes = append(changes, more...)
	}
	tags, err := tenant.TagChanges(cfg.Tags)
	if err != nil {
		return err
	}
	changes = append(changes, tags...)
	if len(changes) == 0 {
		return errors.New("nothing to set: give a flag such as --query-rate")
	}
	o := cfg.on(client, env)
	hides, err := o.set(ctx, cfg.Tenant, changes, cfg.consent(env, cfg.Tenant))
	return o.changed(ctx, cfg.Tenant, hides, err)
}
