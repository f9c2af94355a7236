package ops

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"binnacle/internal/ops/queryclient"
	"binnacle/internal/telemetry"
	"binnacle/internal/text/duration"
	"binnacle/internal/text/report"
	"binnacle/query/httpapi"
)

// ExplainConfig sets the query of `binnacle explain`.
type ExplainConfig struct {
	Query string        `arg:"" help:"PromQL, or a path of the API such as /api/v1/readings?from=-1h."`
	Time  string        `help:"PromQL: instant of the query, or end of its range. Default: now."`
	Range time.Duration `help:"PromQL: length of the range that ends at --time. Default: an instant query."`
	Step  time.Duration `help:"PromQL: step of the range." default:"1m"`
	JSON  bool          `name:"json" help:"Print the JSON of the API."`

	queryclient.Querier
}

// Run asks the API to explain a query, and prints the answer.
func (cfg ExplainConfig) Run(ctx context.Context, env Env) error {
	path := cfg.Query
	if !strings.HasPrefix(path, "/") {
		path = cfg.promql()
	}
	at, err := url.Parse(path)
	if err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	values := at.Query()
	values.Set("explain", "true")
	var e httpapi.Explanation
	body, err := cfg.Get(ctx, at.Path, values, &e)
	if err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	if cfg.JSON {
		_, err = env.Stdout.Write(body)
		return err
	}
	return printExplanation(env.Stdout, e)
}

func (c ExplainConfig) promql() string {
	values := url.Values{"query": {c.Query}}
	if c.Range == 0 {
		if c.Time != "" {
			values.Set("time", c.Time)
		}
		return "/prometheus/api/v1/query?" + values.Encode()
	}
	end := time.Now()
	if t, ok := telemetry.ParseRFC3339(c.Time); ok {
		end = t
	} else if s, err := strconv.ParseFloat(c.Time, 64); err == nil {
		end = time.UnixMilli(int64(s * 1000))
	}
	values.Set("start", end.Add(-c.Range).UTC().Format(time.RFC3339Nano))
	values.Set("end", end.UTC().Format(time.RFC3339Nano))
	values.Set("step", strconv.FormatFloat(c.Step.Seconds(), 'f', -1, 64))
	return "/prometheus/api/v1/query_range?" + values.Encode()
}

func printExplanation(w io.Writer, e httpapi.Explanation) error {
	if len(e.Reads) == 0 {
		_, err := fmt.Fprintln(w, "nothing was read")
		return err
	}
	for _, r := range e.Reads {
		all := func(names []string, what string) string {
			if len(names) == 0 {
				return "all " + what
			}
			return strings.Join(names[:min(len(names), 5)], ", ") + map[bool]string{true: ", …"}[len(names) > 5]
		}
		guess := ""
		if r.Estimated.Guessed {
			guess = ", and what is found: nothing of it was read before"
		}
		rows := [][]string{
			{"range", r.From + " to " + r.To}, {"devices", all(r.Devices, "devices")}, {"metrics", all(r.Metrics, "metrics")},
			{"how", r.How},
			{"estimated", fmt.Sprintf("%.1f RU, %.0f documents, %d scans%s", r.Estimated.RequestUnits, r.Estimated.Documents,
				r.Estimated.Scans, guess)},
			{"charged", fmt.Sprintf("%.1f RU, %d documents, %d keys in %d containers", r.Charged.RequestUnits,
				r.Charged.Documents, r.Charged.Keys, r.Charged.Containers)},
			{"known before", fmt.Sprintf("%d documents", r.Charged.Cached)},
			{"from heads", fmt.Sprintf("%d rows", r.Charged.HeadRows)},
			{"from rollups", fmt.Sprintf("%d documents, and %d known before", r.Charged.Rollups, r.Charged.RollupsCached)},
		}
		if err := report.List(w, rows); err != nil {
			return err
		}
		scans := [][]string{{"operation", "container", "key", "devices", "from", "to", "stored since", "documents", "RU"}}
		for _, s := range r.Scans {
			devices := s.Device
			switch {
			case s.Devices > 0:
				devices = fmt.Sprintf("%d named", s.Devices)
			case devices == "":
				devices = "all"
			}
			scans = append(scans, []string{s.Operation, s.Container, s.TenantShard, devices, s.From, s.To, s.StoredSince,
				strconv.Itoa(s.Documents), fmt.Sprintf("%.1f", s.RequestUnits)})
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		rollups := [][]string{{"operation", "container", "key", "rollup", "from", "to", "documents", "RU"}}
		for _, l := range r.Rollups {
			rollups = append(rollups, []string{l.Operation, l.Container, l.TenantShard, l.Rollup, l.From, l.To,
				strconv.Itoa(l.Documents), fmt.Sprintf("%.1f", l.RequestUnits)})
		}
		shown := [][]string{{"key", "day", "rollups from", "to", "as of", "devices read raw"}}
		for _, d := range r.Shown {
			shown = append(shown, []string{d.TenantShard, d.Day, d.From, d.To, d.AsOf, strconv.Itoa(d.Raw)})
		}
		for i, table := range [][][]string{scans, rollups, shown} {
			if i > 0 && len(table) == 1 {
				continue
			}
			if err := report.List(w, table); err != nil {
				return err
			}
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintf(w, "answered in %s\n", duration.String(time.Duration(e.Seconds*1e9).Round(time.Millisecond)))
	return err
}
