package ops

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/internal/text/report"
	"binnacle/sharding"
)

// Placement is where tenants write to, and why.
type Placement struct {
	Tenants   []TenantPlacement  `json:"tenants"`
	Decisions []control.Decision `json:"decisions"`
}

// TenantPlacement is where one tenant writes to.
type TenantPlacement struct {
	Tenant string           `json:"tenant"`
	Pin    *sharding.Pin    `json:"pin,omitempty"`
	Epochs []sharding.Epoch `json:"epochs"`
}

// shownDecisions is how many days of decisions are shown.
const shownDecisions = 60

// placementOf returns the placement of a tenant, of all with an empty name.
func placementOf(ctx context.Context, client *cosmos.Client, name string) (Placement, error) {
	out := Placement{Tenants: []TenantPlacement{}, Decisions: []control.Decision{}}
	tenants, err := tenant.NewTenants(client.Documents()).List(ctx)
	if err != nil {
		return out, err
	}
	for _, t := range tenants {
		if name == "" || t.Name == name {
			p := TenantPlacement{Tenant: t.Name, Epochs: t.Placement.Epochs()}
			if t.Pin != (sharding.Pin{}) {
				p.Pin = &t.Pin
			}
			out.Tenants = append(out.Tenants, p)
		}
	}
	if name != "" && len(out.Tenants) == 0 {
		return out, fmt.Errorf("tenant %s: %w", name, tenant.ErrNoTenant)
	}
	since := telemetry.DayOf(time.Now().UnixMilli()) - shownDecisions
	found, err := control.NewDecisions(client.Documents()).List(ctx, name, since)
	out.Decisions = append(out.Decisions, found...)
	return out, err
}

// PlacementPath is the path of placements at the admin listener of a querier.
const PlacementPath = "/api/v1/placement"

// ServePlacement answers where tenants write to, and why.
func ServePlacement(client *cosmos.Client) Endpoint {
	return func(r *http.Request) (int, any, error) {
		p, err := placementOf(r.Context(), client, r.URL.Query().Get("tenant"))
		return http.StatusOK, p, err
	}
}

// ExplainTenant is what `binnacle tenant explain` works with.
type ExplainTenant OfTenant

// Run prints where a tenant's readings are stored, and why.
func (cfg ExplainTenant) Run(ctx context.Context, client *cosmos.Client, env Env) error {
	p, err := placementOf(ctx, client, cfg.Tenant)
	if err != nil {
		return err
	}
	return env.print(cfg.JSON, p, func(w io.Writer) error { return printPlacement(w, p) })
}

func printPlacement(w io.Writer, p Placement) error {
	for _, t := range p.Tenants {
		fmt.Fprintf(w, "%s%s\n\n", t.Tenant, pinned(t.Pin))
		rows := [][]string{{"from", "placement", "keys", "devices with several", "slots"}}
		for i, e := range t.Epochs {
			from := e.From.String()
			if i == 0 {
				from = "the first"
			}
			slots := fmt.Sprint(e.Slots)
			if len(e.Slots) > 16 {
				slots = fmt.Sprint(e.Slots[:16]) + " ..."
			}
			rows = append(rows, []string{from, placementText(e), fmt.Sprint(len(e.Slots)), fmt.Sprint(len(e.Heavy)), slots})
		}
		if err := report.List(w, rows); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	rows := [][]string{{"decided", "for", "as", "tenant", "keys", "moved", "hottest/mean", "reason"}}
	for _, d := range slices.Backward(p.Decisions) {
		as := "decision"
		if d.Advice {
			as = "advice"
		}
		for _, c := range d.Changes {
			rows = append(rows, []string{d.Decided().Format(time.DateTime), d.Day.String(), as, c.Tenant,
				fmt.Sprintf("%d to %d", c.KeysBefore, c.KeysAfter), fmt.Sprint(c.Moved),
				fmt.Sprintf("%.2f to %.2f", c.Before, c.After), c.Reason})
		}
	}
	if len(rows) == 1 {
		_, err := fmt.Fprintf(w, "The balancer has changed nothing in the last %d days.\n", shownDecisions)
		return err
	}
	return report.List(w, rows)
}

func pinned(p *sharding.Pin) string {
	switch {
	case p == nil:
		return ""
	case p.Keep:
		return ", pinned to the keys that it has"
	}
	return fmt.Sprintf(", pinned to %d keys", p.Keys)
}
