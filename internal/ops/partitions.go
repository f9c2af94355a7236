package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/heat"
	"binnacle/internal/heat/heatlog"
	"binnacle/internal/retry"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/text/report"
	"binnacle/sharding"
)

// PartitionsPath is the path of the heat of physical partitions at the admin listener of a querier.
const PartitionsPath = "/api/v1/partitions"

// How long a time a report covers.
const (
	defaultHeatSince = time.Hour
	maxHeatSince     = 45 * 24 * time.Hour
	hourlySteps      = 12 * time.Hour // from there on steps are hours
)

// listedDevices is how many devices a report lists.
const listedDevices = 10

// PartitionsConfig sets what `binnacle partitions` prints.
type PartitionsConfig struct {
	Container string        `help:"Container of chunks or rollups. Default: the chunks of today that tenants share." placeholder:"NAME"`
	Since     time.Duration `help:"How far back." default:"1h"`
	Watch     bool          `help:"Print it again every minute, until it is stopped."`
	JSON      bool          `name:"json" help:"Print JSON, a report a line."`
}

// Run prints how hot the physical partitions of a container are, and why.
func (cfg PartitionsConfig) Run(ctx context.Context, client *cosmos.Client, env Env) error {
	directory := control.NewDirectory(control.DirectoryConfig{Documents: client.Documents()})
	for {
		snapshot, err := directory.Refresh(ctx)
		if err != nil {
			return err
		}
		s := HeatSource{Client: client, Snapshot: func() *control.Snapshot { return snapshot }}
		r, err := s.Report(ctx, HeatRequest{Container: cfg.Container, Since: cfg.Since}, time.Now())
		if err == nil {
			err = env.print(cfg.JSON, r, func(w io.Writer) error { return printPartitions(w, r) })
		}
		if err != nil || !cfg.Watch {
			return err
		}
		if retry.Pause(ctx, time.Minute) != nil {
			return nil
		}
		fmt.Fprintln(env.Stdout)
	}
}

// HeatSource is where a report of partitions comes from.
type HeatSource struct {
	Client   *cosmos.Client
	Snapshot func() *control.Snapshot
}

// HeatRequest is what a report is of.
type HeatRequest struct {
	Container string
	Since     time.Duration
}

// check fills in what is not set, and returns the first fault.
func (r *HeatRequest) check(known *control.Snapshot, now time.Time) error {
	if r.Container == "" {
		r.Container = known.SharedOn(telemetry.DayOf(now.UnixMilli()))
	}
	_, _, chunks := sharding.ParseContainer(r.Container)
	_, _, rollups := sharding.ParseRollupsContainer(r.Container)
	switch {
	case !chunks && !rollups && r.Container != store.CatalogContainer:
		return unfit("container %q: containers of chunks, of rollups and %s are allowed", r.Container,
			store.CatalogContainer)
	case r.Since < time.Minute || r.Since > maxHeatSince:
		return unfit("since %s: 1m to %s are allowed", r.Since, maxHeatSince)
	}
	return nil
}

// Report returns the report of a container.
func (s HeatSource) Report(ctx context.Context, req HeatRequest, now time.Time) (heat.Report, error) {
	if err := req.check(s.Snapshot(), now); err != nil {
		return heat.Report{}, err
	}
	facts, err := s.Facts(ctx, req, now)
	if err == nil {
		facts.Devices, err = s.devices(ctx, heatlog.NewReader(s.Client.Heat()), req.Container, now)
	}
	if err != nil {
		return heat.Report{}, err
	}
	return heat.NewReport(facts), nil
}

// Facts returns what a report is made of, without devices. It reads the container's physical partitions from the
// account: after a split they are others, and unequal.
func (s HeatSource) Facts(ctx context.Context, req HeatRequest, now time.Time) (heat.Facts, error) {
	ranges, err := s.Client.RangesOf(ctx, req.Container)
	if err != nil {
		return heat.Facts{}, fmt.Errorf("read the physical partitions of %s: %w", req.Container, err)
	}
	bought, err := s.Client.Containers().ReadThroughput(ctx, req.Container)
	if err == nil && bought.Throughput.Shared { // more than the container has, and all that can be said
		bought, err = s.Client.Containers().ReadThroughput(ctx, store.Database)
	}
	if err != nil {
		return heat.Facts{}, err
	}
	if bought.Throughput.Serverless {
		bought.Throughput.RUs = int(ru.ServerlessRUs(len(ranges)))
	}
	step := heat.Minute
	if req.Since > hourlySteps {
		step = heat.Hour
	}
	from := now.Add(-req.Since).UnixMilli()
	span := heat.Span{From: from - from%step, To: now.UnixMilli(), Step: step}
	reader := heatlog.NewReader(s.Client.Heat())
	grid, err := reader.Grid(ctx, req.Container, span)
	if err != nil {
		return heat.Facts{}, err
	}
	forecast, err := reader.Forecast(ctx, now)
	return heat.Facts{Grid: grid, To: span.To, Forecast: forecast, Ranges: ranges,
		BoughtRUs: bought.Throughput.RUs, Autoscale: bought.Throughput.Autoscale}, err
}

// devices returns the devices with most load on a container of chunks, by the last record of today or yesterday.
func (s HeatSource) devices(ctx context.Context, reader *heatlog.Reader, container string, now time.Time) ([]heat.Share,
	error) {
	if _, _, ok := sharding.ParseContainer(container); !ok {
		return nil, nil // devices have no keys of their own
	}
	day := telemetry.DayOf(now.UnixMilli())
	all, err := reader.Weights(ctx, day)
	if err == nil && len(all) == 0 {
		all, err = reader.Weights(ctx, day-1)
	}
	if err != nil || len(all) == 0 {
		return nil, err
	}
	span := heat.Span{From: all[0].From, To: all[0].To, Step: heat.Hour}
	for _, w := range all {
		span.From, span.To = min(span.From, w.From), max(span.To, w.To)
	}
	span.From -= span.From % heat.Hour
	grid, err := reader.Grid(ctx, container, span)
	if err != nil {
		return nil, err
	}
	total := 0.0
	for i := range grid.Rows {
		sum := grid.Rows[i].Total()
		total += sum.Total()
	}
	var out []heat.Share
	for _, w := range all {
		tenant, ok := s.Snapshot().Tenant(w.Tenant)
		for _, d := range w.Devices {
			if !ok || d.RUs < total/1000 {
				continue
			}
			key := tenant.Placement.Key(d.Device, day, 0)
			if key.Container != container {
				continue
			}
			one := heat.Share{Tenant: w.Tenant, Device: d.Device, Key: key.TenantShard, Share: min(1, d.RUs/total),
				RUs: d.RUs / (float64(w.To-w.From) / 1000)}
			if n := len(tenant.Placement.Keys(d.Device, day+1)); n != len(tenant.Placement.Keys(d.Device, day)) {
				one.SlotsTomorrow = n
			}
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b heat.Share) int { return cmp.Compare(b.Share, a.Share) })
	return out[:min(listedDevices, len(out))], nil
}

// ServePartitions serves the report of a container (container=, since=). It is for operators: it names all tenants.
func (s HeatSource) ServePartitions(r *http.Request) (int, any, error) {
	q := r.URL.Query()
	since, err := sinceOf(q, defaultHeatSince)
	if err != nil {
		return 0, nil, err
	}
	found, err := s.Report(r.Context(), HeatRequest{q.Get("container"), since}, time.Now())
	return http.StatusOK, found, err
}

func printPartitions(w io.Writer, r heat.Report) error {
	auto := ""
	if r.Autoscale {
		auto = " at most"
	}
	fmt.Fprintf(w, "%s\n\n%s, %s to %s: %d RU/s%s may be used, %.0f for each partition\n\n", r.Diagnosis, r.Container,
		r.From.Format("2006-01-02 15:04"), r.To.Format("2006-01-02 15:04"), r.BoughtRUs, auto, r.PartitionRUs)
	rows := [][]string{
		{"", "share", "", "busiest", "of what", "", "bytes", "expected RU/s", "", "", ""},
		{"partition", "of RU", "RU/s", "RU/s", "it may use", "429", "stored", "in 1 h", "3 h", "6 h", "hottest keys"},
	}
	for _, p := range r.Partitions {
		var keys []string
		for _, k := range p.Keys[:min(3, len(p.Keys))] {
			keys = append(keys, fmt.Sprintf("%s %.0f %%", cmp.Or(k.Key, "others"), k.Share*100))
		}
		expected := func(h int) string {
			if h >= len(p.ExpectedRUs) {
				return "-"
			}
			return fmt.Sprintf("%.1f", p.ExpectedRUs[h])
		}
		rows = append(rows, []string{fmt.Sprint(p.Partition), fmt.Sprintf("%.0f %%", p.Share*100), fmt.Sprintf("%.1f", p.RUs),
			fmt.Sprintf("%.1f", p.BusiestRUs), fmt.Sprintf("%.0f %%", p.BusiestUsed*100), report.Thousands(p.Throttled),
			megabytes(p.Bytes), expected(1), expected(3), expected(6), strings.Join(keys, ", ")})
	}
	if err := report.Grid(w, rows); err != nil {
		return err
	}
	shares := func(head string, all []heat.Share, name func(heat.Share) string) error {
		if len(all) == 0 {
			return nil
		}
		rows := [][]string{{head, "of RU", "RU/s", "429"}}
		for _, s := range all {
			rows = append(rows, []string{cmp.Or(name(s), "others"), fmt.Sprintf("%.1f %%", s.Share*100),
				fmt.Sprintf("%.2f", s.RUs), report.Thousands(s.Throttled)})
		}
		fmt.Fprintln(w)
		return report.Grid(w, rows)
	}
	err := errors.Join(shares("tenant", r.Tenants, func(s heat.Share) string { return s.Tenant }),
		shares("device", r.Devices, func(s heat.Share) string { return s.Key + "/" + s.Device }))
	if r.FoldedKeys > 0 || r.LostRUs > 0 {
		fmt.Fprintf(w, "\n%d keys are in sums by slot alone; %.0f RU could not be written and are missing\n", r.FoldedKeys,
			r.LostRUs)
	}
	return err
}
