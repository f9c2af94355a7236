package ops

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"binnacle/internal/cosmos"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/internal/text/nearest"
	"binnacle/internal/text/report"
	"binnacle/sharding"
)

// TenantInfo is what was set of a tenant, in the words of the flags of `tenant set`.
type TenantInfo struct {
	Tenant     string            `json:"tenant"`
	Registered time.Time         `json:"registered"`
	Settings   map[string]string `json:"settings"`
	Tags       map[string]string `json:"tags"`
	Suspended  *SuspensionInfo   `json:"suspended,omitempty"`
	Placement  string            `json:"placement"`
	Hides      []string          `json:"hides,omitempty"` // changes of retention, and what each hides

	order []string // names of the settings
}

// SuspensionInfo is since when and why queries of a tenant are refused.
type SuspensionInfo struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

func tenantInfo(t tenant.Tenant, today telemetry.Day) TenantInfo {
	info := TenantInfo{Tenant: t.Name, Registered: t.Created, Settings: map[string]string{}, Tags: map[string]string{},
		Placement: placementLine(t.Placement, today)}
	for _, s := range t.Settings() {
		info.Settings[s.Name], info.order = s.Value, append(info.order, s.Name)
	}
	maps.Copy(info.Tags, t.Tags)
	if s := t.Suspended; s != nil {
		info.Suspended = &SuspensionInfo{s.Since, s.Reason}
	}
	return info
}

// placementLine returns where a tenant writes to today, and what will change.
func placementLine(p *sharding.Placement, today telemetry.Day) string {
	var parts []string
	for i, e := range p.Epochs() {
		when := ""
		if i > 0 {
			when = " from " + dayText(e.From) + " on"
		}
		if e.From <= today {
			parts = parts[:0] // earlier epochs have ended
		}
		parts = append(parts, fmt.Sprintf("%s, %d keys%s", placementText(e), len(e.Slots), when))
	}
	return strings.Join(parts, "; ")
}

// noTenant returns the error for a name that no tenant has.
func noTenant(name string, names []string) error {
	if near := nearest.Name(name, names); near != "" {
		return fmt.Errorf("tenant %s: %w; did you mean %s?", name, tenant.ErrNoTenant, near)
	}
	return fmt.Errorf("tenant %s: %w", name, tenant.ErrNoTenant)
}

// ShowTenant is what `binnacle tenant show` works with.
type ShowTenant OfTenant

// Run prints what was set of a tenant.
func (cfg ShowTenant) Run(ctx context.Context, client *cosmos.Client, env Env) error {
	infos, err := cfg.on(client, env).infos(ctx, cfg.Tenant)
	if err != nil {
		return err
	}
	return env.print(cfg.JSON, infos[0], infos[0].print)
}

func (i TenantInfo) print(w io.Writer) error {
	rows := [][]string{{"tenant", i.Tenant}, {"registered", i.Registered.Format(time.RFC3339)}}
	for _, name := range i.order {
		rows = append(rows, []string{name, cmp.Or(i.Settings[name], "none")})
	}
	for _, name := range slices.Sorted(maps.Keys(i.Tags)) {
		rows = append(rows, []string{"tag", name + "=" + i.Tags[name]})
	}
	if s := i.Suspended; s != nil {
		rows = append(rows, []string{"suspended", s.Since.Format(time.RFC3339) + ": " + s.Reason})
	}
	return report.List(w, append(rows, []string{"placement", i.Placement}))
}
