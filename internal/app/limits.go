package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"binnacle/ingest"
	"binnacle/internal/duration"
	"binnacle/internal/report"
)

// limitsPath is where the admin endpoint of a process that ingests tells what has gone over limits.
const limitsPath = "/api/v1/limits"

// serveLimits answers operators which readings have gone over limits, of a tenant (tenant=) or of all.
func serveLimits(in *ingest.Ingester) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all, err := in.Limits(r.Context(), r.URL.Query().Get("tenant"))
		if err != nil {
			return // whoever asked has gone
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(all)
	})
}

// LimitsConfig is what `binnacle limits` asks.
type LimitsConfig struct {
	Admin  []string `help:"Admin endpoints of the processes that ingest: host:port, or a URL." default:"127.0.0.1:7071"`
	Tenant string   `help:"This tenant's only." placeholder:"NAME"`
	JSON   bool     `name:"json" help:"Print what the endpoints answer, a line each."`
}

// PrintLimits asks each process that ingests what has gone over limits, and prints it.
func PrintLimits(ctx context.Context, cfg LimitsConfig, env Env) error {
	for i, admin := range cfg.Admin {
		answer, err := askIngest(ctx, admin, limitsPath, url.Values{"tenant": {cfg.Tenant}})
		if err != nil {
			return fmt.Errorf("limits of %s: %w", admin, err)
		}
		if cfg.JSON {
			if _, err := env.Stdout.Write(answer); err != nil {
				return err
			}
			continue
		}
		var all ingest.Limits
		if err := json.Unmarshal(answer, &all); err != nil {
			return fmt.Errorf("limits of %s: %w", admin, err)
		}
		if i > 0 {
			fmt.Fprintln(env.Stdout)
		}
		if err := printLimits(env.Stdout, admin, all); err != nil {
			return err
		}
	}
	return nil
}

// printLimits writes what one process has found over limits as tables.
func printLimits(w io.Writer, admin string, l ingest.Limits) error {
	fmt.Fprintf(w, "%s\n", admin)
	if len(l.Passed) == 0 && len(l.Waiting) == 0 {
		_, err := fmt.Fprintln(w, "\n  no limit was passed")
		return err
	}
	rows := [][]string{{"waits in Kafka: tenant", "device", "limit", "topic", "partition", "offset", "since", "for"}}
	for _, x := range l.Waiting {
		device := x.Device
		if device == "" {
			device = "(all)"
		}
		rows = append(rows, []string{x.Tenant, device, x.Limit, x.Topic, strconv.Itoa(int(x.Partition)),
			report.Thousands(x.From), x.Since.UTC().Format("2006-01-02 15:04:05"),
			duration.String(max(0, l.Now.Sub(x.Since)).Round(time.Second))})
	}
	if len(rows) > 1 {
		fmt.Fprintln(w)
		if err := report.Grid(w, rows); err != nil {
			return err
		}
	}
	rows = [][]string{{"passed: tenant", "limit", "delayed", "refused", "last", "most by"}}
	for _, x := range l.Passed {
		most := ""
		for _, c := range x.Culprits[:min(3, len(x.Culprits))] {
			if most != "" {
				most += ", "
			}
			most += c.Device
		}
		rows = append(rows, []string{x.Tenant, x.Limit, report.Thousands(x.Delayed), report.Thousands(x.Refused),
			x.Last.UTC().Format("2006-01-02 15:04:05"), most})
	}
	fmt.Fprintln(w)
	return report.Grid(w, rows)
}
