package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/heat/heatlog"
	"binnacle/internal/provision"
	"binnacle/internal/telemetry"
	"binnacle/internal/text/report"
	"binnacle/sharding"
	"binnacle/sharding/balance"
)

// BalanceConfig sets the balancer of placements.
type BalanceConfig struct {
	Balance string        `help:"Whether tenants' keys follow the load from day to day. off: no; advise: decisions are stored and shown, and not applied; on: they are applied." enum:"off,advise,on" default:"${balance}"`
	From    time.Duration `name:"balance-from" help:"Time of the day in UTC from which on the next day's keys are decided." default:"${balance_from}"`
	Every   time.Duration `name:"balance-every" help:"Time between two looks of the balancer." default:"5m"`
	Future  time.Duration `name:"balance-future" help:"Largest --future of the ingesters of other processes: keys are decided so long, and an hour, before the day that they are for, 4h at least." default:"1h"`
}

// lead returns how long before their day epochs are stored: by 20:00, or earlier where ingesters accept readings of a
// later time (rule W1).
func (c BalanceConfig) lead() time.Duration { return max(4*time.Hour, lead(c.Future)) }

// addBalancer adds the stage that decides epochs.
func (p *process) addBalancer(c BalanceConfig, client *cosmos.Client, directory *control.Directory) {
	if c.Balance == "off" {
		return
	}
	log := p.partLogger("balance")
	p.add("balance", provision.NewBalancer(provision.BalancerConfig{
		Epochs: directory, Decisions: control.NewDecisions(client.Documents()), Advise: c.Balance != "on",
		Loads: provision.Loads{Ranges: client, Heat: heatlog.NewReader(client.Heat())},
		Lease: provisionLease(client), Actions: actionsOf(client, "provision", log),
		From: c.From, Every: c.Every, Lead: c.lead(), Logger: log, Now: client.Clock().Now,
	}).Run)
}

// provisionLease returns the lease of the process that makes months and decides epochs.
func provisionLease(client *cosmos.Client) *control.Leases {
	return leasesOf(client, "provision")
}

// Placement is where tenants write to, and why.
type Placement struct {
	Tenants   []TenantPlacement  `json:"tenants"`
	Decisions []control.Decision `json:"decisions"`
}

// TenantPlacement is where one tenant writes to.
type TenantPlacement struct {
	Tenant string           `json:"tenant"`
	Pin    *balance.Pin     `json:"pin,omitempty"`
	Epochs []sharding.Epoch `json:"epochs"`
}

// shownDecisions is how many days of decisions are shown.
const shownDecisions = 60

// placementOf returns the placement of a tenant, of all with an empty name.
func placementOf(ctx context.Context, client *cosmos.Client, tenant string) (Placement, error) {
	out := Placement{Tenants: []TenantPlacement{}, Decisions: []control.Decision{}}
	tenants, err := control.NewTenants(client.Documents()).List(ctx)
	if err != nil {
		return out, err
	}
	for _, t := range tenants {
		if tenant == "" || t.Name == tenant {
			p := TenantPlacement{Tenant: t.Name, Epochs: t.Placement.Epochs()}
			if t.Pin != (balance.Pin{}) {
				p.Pin = &t.Pin
			}
			out.Tenants = append(out.Tenants, p)
		}
	}
	if tenant != "" && len(out.Tenants) == 0 {
		return out, fmt.Errorf("tenant %s: %w", tenant, control.ErrNoTenant)
	}
	since := telemetry.DayOf(time.Now().UnixMilli()) - shownDecisions
	found, err := control.NewDecisions(client.Documents()).List(ctx, tenant, since)
	out.Decisions = append(out.Decisions, found...)
	return out, err
}

// placementPath is the path of placements at the admin listener of a querier.
const placementPath = "/api/v1/placement"

// servePlacement answers where tenants write to, and why.
func servePlacement(client *cosmos.Client) operatorEndpoint {
	return func(r *http.Request) (int, any, error) {
		p, err := placementOf(r.Context(), client, r.URL.Query().Get("tenant"))
		return http.StatusOK, p, err
	}
}

// ExplainTenant is what `binnacle tenant explain` works with.
type ExplainTenant OfTenant

// Run prints where a tenant's readings are stored, and why.
func (cfg ExplainTenant) Run(ctx context.Context, env Env) error {
	client, err := cfg.Account.Connect(env.Logger)
	if err != nil {
		return err
	}
	defer client.Close()
	p, err := placementOf(ctx, client, cfg.Tenant)
	if err != nil {
		return err
	}
	if cfg.JSON {
		return json.NewEncoder(env.Stdout).Encode(p)
	}
	return printPlacement(env.Stdout, p)
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

func pinned(p *balance.Pin) string {
	switch {
	case p == nil:
		return ""
	case p.Keep:
		return ", pinned to the keys that it has"
	}
	return fmt.Sprintf(", pinned to %d keys", p.Keys)
}
