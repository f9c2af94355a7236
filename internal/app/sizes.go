package app

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/control"
	"binnacle/internal/report"
	"binnacle/internal/store"
)

// SizesConfig is what `binnacle tenant sizes` works with.
type SizesConfig struct {
	Top  int  `help:"Number of tenants to list." default:"20"`
	JSON bool `name:"json" help:"Print all tenants as JSON, one a line."`

	Account AccountConfig `kong:"embed,group='Cosmos DB'"`
}

// Validate reports every fault that can be seen without asking.
func (c SizesConfig) Validate() error {
	if c.Top < 1 {
		return fmt.Errorf("--top %d is not above 0", c.Top)
	}
	return nil
}

// size is how much the catalog has of a tenant.
type size struct {
	Tenant  string  `json:"tenant"`
	Devices int     `json:"devices"`
	Series  int     `json:"series"`  // pairs of a device and a metric
	Metrics int     `json:"metrics"` // names
	Tags    int     `json:"tags"`    // values of all tags
	Labels  int     `json:"labels"`  // values of all labels of readings
	Largest string  `json:"largest"` // the device of the most metrics
	RUs     float64 `json:"read_request_units"`
}

// Run prints what the catalog has of each tenant, of those of the most series first.
func (cfg SizesConfig) Run(ctx context.Context, env Env) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	client, err := cfg.Account.Connect(env.Logger)
	if err != nil {
		return err
	}
	defer client.Close()
	tenants, err := control.NewTenants(client.Documents()).List(ctx)
	if err != nil {
		return err
	}
	var sizes []size
	for _, t := range tenants {
		one, err := sizeOf(ctx, client.Catalog(), t.Name)
		if err != nil {
			return err
		}
		sizes = append(sizes, one)
	}
	slices.SortStableFunc(sizes, func(a, b size) int { return b.Series - a.Series })
	if cfg.JSON {
		out := json.NewEncoder(env.Stdout)
		for _, s := range sizes {
			if err := out.Encode(s); err != nil {
				return fmt.Errorf("print: %w", err)
			}
		}
		return nil
	}
	rows := [][]string{{"tenant", "devices", "series", "metrics", "values of tags", "values of labels", "largest device",
		"RU to read"}}
	for _, s := range sizes[:min(cfg.Top, len(sizes))] {
		row := []string{s.Tenant}
		for _, n := range []int{s.Devices, s.Series, s.Metrics, s.Tags, s.Labels} {
			row = append(row, report.Thousands(n))
		}
		rows = append(rows, append(row, s.Largest, fmt.Sprintf("%.1f", s.RUs)))
	}
	if err := report.List(env.Stdout, rows); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if more := len(sizes) - cfg.Top; more > 0 {
		if _, err := fmt.Fprintf(env.Stdout, "and %s more\n", report.Thousands(more)); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	return nil
}

// sizeOf reads the catalog of a tenant. It is let go of before the next one is read.
func sizeOf(ctx context.Context, of control.Catalog, tenant string) (s size, err error) {
	meter := &store.Meter{}
	ctx = store.WithMeter(ctx, meter)
	devices := control.NewCatalogCache(control.CatalogCacheConfig{Catalog: of})
	held, err := devices.Get(ctx, tenant, time.Time{})
	if err != nil {
		return s, err
	}
	s.Tenant, s.RUs = tenant, meter.Read().RUs
	held.Use(func(x *catalog.Index) {
		all := x.Select(nil, 0, x.Blocks())
		s.Devices = all.Len()
		metrics := all.Metrics()
		s.Metrics = len(metrics)
		for _, m := range metrics {
			s.Series += m.Devices
		}
		for _, t := range all.Tags() {
			s.Tags += t.Values
		}
		for _, l := range all.Labels() {
			s.Labels += l.Values
		}
		for _, d := range all.Largest(1) {
			s.Largest = strings.Clone(d.Device)
		}
	})
	return s, nil
}
