package main

import (
	"errors"
	"time"

	"binnacle/internal/app"
	"binnacle/internal/control"
)

type tenantAddCommand struct {
	Tenant    string        `arg:"" help:"Name of the tenant."`
	Retention time.Duration `help:"Retention of its readings, such as 400d; the ingesters' --retention does not count for it. Default: unlimited."`

	Config app.TokenConfig `kong:"embed"`
}

func (c *tenantAddCommand) Run(e *env) error {
	return c.Config.AddTenant(e.ctx, c.Tenant, c.Retention, e.app())
}

type tenantSetCommand struct {
	Tenant      string               `arg:"" help:"Name of the tenant."`
	Lookback    *time.Duration       `name:"lookback" aliases:"promql-lookback" help:"Lookback of PromQL: age up to which a sample counts as the current one, such as 25m where devices report every ten minutes. 0s: as --promql-lookback of the query role."`
	Averages    *string              `name:"averages" help:"exact: avg_over_time equals Prometheus' result in all bits; nearest: it may differ in the last bit, so that rollups can answer it for decimal values." placeholder:"KIND"`
	Retention   *string              `name:"retention" help:"Retention by device: patterns or tags with durations, such as meter-*=10y,{site=oslo}=2y,default=400d; the first match counts. forever is without end. A shorter one hides what is older at once, for good." placeholder:"CLASSES"`
	DisplayName *string              `name:"display-name" help:"Name of the tenant that people read. Empty: none." placeholder:"TEXT"`
	Contact     *string              `name:"contact" help:"Person or address to turn to about the tenant. Empty: none." placeholder:"TEXT"`
	Tags        map[string]string    `name:"tag" help:"Tag of the tenant, key=value; key= removes it. It may be repeated." mapsep:"none" placeholder:"KEY=VALUE"`
	Query       control.QueryLimits  `kong:"embed" set:"tenantlimit=unchanged"`
	Ingest      control.TenantIngest `kong:"embed" set:"tenantlimit=unchanged"`

	Config app.TokenConfig `kong:"embed"`
}

func (c *tenantSetCommand) Run(e *env) error {
	changes := append(c.Query.Changes(), c.Ingest.Changes()...)
	if c.Lookback != nil {
		lookback, err := control.LookbackChange(*c.Lookback)
		if err != nil {
			return err
		}
		changes = append(changes, lookback)
	}
	for _, s := range []struct {
		name  string
		value *string
	}{{"averages", c.Averages}, {"retention", c.Retention}, {"display-name", c.DisplayName}, {"contact", c.Contact}} {
		if s.value == nil {
			continue
		}
		more, err := control.Setting{Name: s.name, Value: *s.value}.Changes(time.Now())
		if err != nil {
			return err
		}
		changes = append(changes, more...)
	}
	tags, err := control.TagChanges(c.Tags)
	if err != nil {
		return err
	}
	changes = append(changes, tags...)
	if len(changes) == 0 {
		return errors.New("nothing to set: give a flag such as --query-rate")
	}
	return c.Config.SetTenant(e.ctx, c.Tenant, changes, e.app())
}
