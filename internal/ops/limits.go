package ops

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"binnacle/ingest"
	"binnacle/internal/text/duration"
	"binnacle/internal/text/report"
)

// LimitsPath is the path of exceeded limits at the admin listener of an ingester.
const LimitsPath = "/api/v1/limits"

// ServeLimits answers which tenants exceed their limits in an ingester.
func ServeLimits(in *ingest.Ingester) Endpoint {
	return func(r *http.Request) (int, any, error) {
		all, err := in.Limits(r.Context(), r.URL.Query().Get("tenant"))
		return http.StatusOK, all, err
	}
}

// LimitsConfig sets what `binnacle limits` asks for.
type LimitsConfig struct {
	AdminClient `kong:"embed"`
}

// Run asks each process that ingests which limits were exceeded, and prints them.
func (cfg LimitsConfig) Run(ctx context.Context, env Env) error {
	return adminReport[ingest.Limits]{"limits", LimitsPath, url.Values{"tenant": {cfg.Tenant}}, printLimits}.run(
		ctx, cfg.AdminClient, env)
}

func printLimits(w io.Writer, admin string, l ingest.Limits) error {
	fmt.Fprintf(w, "%s\n", admin)
	if len(l.Exceeded) == 0 && len(l.Deferred) == 0 {
		_, err := fmt.Fprintln(w, "\n  no limit was exceeded")
		return err
	}
	rows := [][]string{{"waits in Kafka: tenant", "device", "limit", "topic", "partition", "offset", "since", "for"}}
	for _, x := range l.Deferred {
		rows = append(rows, []string{x.Tenant, cmp.Or(x.Device, "(all)"), x.Limit, x.Topic, strconv.Itoa(int(x.Partition)),
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
	for _, x := range l.Exceeded {
		var most []string
		for _, c := range x.TopDevices[:min(3, len(x.TopDevices))] {
			most = append(most, c.Device)
		}
		rows = append(rows, []string{x.Tenant, x.Limit, report.Thousands(x.Delayed), report.Thousands(x.Refused),
			x.Last.UTC().Format("2006-01-02 15:04:05"), strings.Join(most, ", ")})
	}
	fmt.Fprintln(w)
	return report.Grid(w, rows)
}
