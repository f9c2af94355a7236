package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"binnacle/ingest"
	"binnacle/internal/ops/queryclient"
	"binnacle/internal/text/duration"
	"binnacle/internal/text/report"
)

// AdminClient sets which processes `binnacle bins` and `binnacle limits` ask.
type AdminClient struct {
	Admin     []string `help:"Admin listeners of the processes that ingest, each host:port or a URL." default:"127.0.0.1:7071"`
	TokenFile string   `name:"admin-token-file" help:"File with the admin token of those processes. Processes on this machine need none. Default: no token." placeholder:"FILE"`
	Tenant    string   `help:"Show this tenant only. Default: all tenants." placeholder:"NAME"`
	JSON      bool     `name:"json" help:"Print the JSON of each process on a line."`
}

var errNoIngest = errors.New("this process does not ingest")

// adminTimeout bounds a request to an admin listener.
const adminTimeout = time.Minute

// adminReport is a report of an ingester that its admin listener serves as JSON.
type adminReport[T any] struct {
	name  string
	path  string
	query url.Values
	print func(w io.Writer, admin string, report T) error
}

func (a adminReport[T]) run(ctx context.Context, c AdminClient, env Env) error {
	for i, admin := range c.Admin {
		var report T
		at := queryclient.Querier{At: admin, TokenFile: c.TokenFile, Timeout: adminTimeout}
		body, err := at.Get(ctx, a.path, a.query, &report)
		if refused, ok := errors.AsType[*queryclient.StatusError](err); ok && refused.Status == http.StatusNotFound {
			err = errNoIngest
		}
		if err != nil {
			return fmt.Errorf("read %s of %s: %w", a.name, admin, err)
		}
		switch {
		case c.JSON:
			_, err = env.Stdout.Write(body)
		case i > 0:
			fmt.Fprintln(env.Stdout)
			fallthrough
		default:
			err = a.print(env.Stdout, admin, report)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

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
