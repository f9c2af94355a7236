//go:build unix

package app_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/catalog"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/rollups"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/query"
	"binnacle/query/prom"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

var (
	panelDevices = flag.Int("panels.devices", 8, "devices of TestPanels")
	panelDays    = flag.Int("panels.days", 2, "days of its long panel, of a reading a minute")
	panelAsks    = flag.Int("panels.asks", 0, "how often TestPanels asks once more, for the mean of warm answers")
	panelEvery   = flag.Duration("panels.every", 4*time.Minute, "how often TestDashboardForAnHour refreshes")
	panelHold    = flag.Duration("panels.hold", time.Minute, "hold of its ingesters; chunks are of an hour at least")
	panelMetrics = flag.Int("panels.metrics", 10, "metrics of the last day, the days before have two")
)

// panels is a fleet in an embedded Cosmos DB: a day of a reading every 10 s, and days before it of one a minute.
type panels struct {
	account   *emulator.Server
	client    *cosmos.Client
	directory *control.Directory
	tenant    tenant.Tenant
	now       time.Time
	devices   int
	// The long panel shows the days from first on. The short panel shows the last day alone.
	first, day telemetry.Day
	// hours is how much of the short panel's day is filled; 0 fills it.
	hours int
	// interval is how far apart the readings of a device are in the short panel.
	interval time.Duration
	// chunks is into how many chunks a device's readings of the short panel go.
	chunks int
	// defaults gives the querier the limits that a query process has by default.
	defaults bool
	values   int
	// bytes is the size of all chunks.
	bytes int
	reported
}

// reported is what devices report.
type reported struct {
	names []string // of metrics
	tags  func(device int) map[string]string
	// value is what devices of a kind report of a metric, so long after the first day began.
	value func(metric, kind int, since time.Duration) float64
}

// plain is what devices of no kind in particular report.
func plain() (r reported) {
	for m := range *panelMetrics {
		r.names = append(r.names, metricOf(m))
	}
	r.tags = func(d int) map[string]string { return map[string]string{"fleet": fmt.Sprint(d % 5)} }
	r.value = func(metric, kind int, since time.Duration) float64 {
		if metric == 0 {
			return math.Floor(since.Seconds()/10) * float64(kind+3) / 10
		}
		return math.Round(300+280*math.Sin(since.Seconds()*float64(metric+1)/1500+float64(kind*31))) / 10
	}
	return r
}

const panelDay telemetry.Day = 20777

func newPanels(t *testing.T, devices, days int, of reported) *panels {
	p := &panels{devices: devices, day: panelDay, hours: 24, interval: 10 * time.Second, chunks: 24,
		reported: of}
	p.first = p.day - telemetry.Day(days) + 1
	return p.begin(t)
}

// begin opens the account, when the filled hours of the last day are over.
func (p *panels) begin(t *testing.T) *panels {
	p.now = time.UnixMilli(p.day.Start()).Add(time.Duration(p.hours) * time.Hour)
	p.open(t, emulator.Config{InMemory: true, Unlimited: true, Now: func() time.Time { return p.now }}, nil)
	return p
}

// open makes the account and tells the catalog of the devices. change changes the client, where it is not nil.
func (p *panels) open(t *testing.T, account emulator.Config, change func(*cosmos.Config)) {
	server, err := emulator.Open(account)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	p.account = server
	cfg := cosmos.Config{Endpoint: server.Endpoint(), Credential: cosmos.FixedKey(emulator.Key),
		Transport: server.Transport()}
	if change != nil {
		change(&cfg)
	}
	p.client, err = cosmos.New(cfg)
	require.NoError(t, err)
	t.Cleanup(p.client.Close)
	require.NoError(t, p.client.EnsureBase(t.Context()))
	knowStream(t, p.client.Documents())
	p.directory = control.NewDirectory(control.DirectoryConfig{Documents: p.client.Documents(), Now: account.Now})
	view, err := p.directory.Register(t.Context(), "acme")
	require.NoError(t, err)
	p.tenant, _ = view.Tenant("acme")
	for m := sharding.Month.Of(p.first); m.First <= p.day; m = m.Next() {
		container := sharding.Container("", m)
		for _, name := range []string{container, sharding.RollupsContainer(container)} {
			require.NoError(t, p.client.Containers().Create(t.Context(), name, store.Throughput{RUs: 400}))
		}
		require.NoError(t, p.directory.AskMonth(t.Context(), container, ""))
	}
	var said []catalog.Entry
	for d := range p.devices {
		e := storetest.Entry(deviceOf(d), p.tags(d), p.names...)
		e.First, e.Last = p.first.Start(), p.day.End()-1
		said = append(said, e)
	}
	pages, err := catalog.Pages(said, 1, "")
	require.NoError(t, err)
	for _, page := range pages {
		require.NoError(t, p.client.Catalog().Create(t.Context(), "acme", page.ID, page.Doc))
	}
}

const kinds = 8 // of devices, by what they report

func deviceOf(d int) string { return fmt.Sprintf("truck-%04d", d) }

func metricOf(m int) string {
	if m == 0 {
		return "km_total"
	}
	return fmt.Sprintf("metric_%d", m)
}

// at is what devices of a kind report of a metric at an instant.
func (p *panels) at(metric, kind int, instant int64) float64 {
	return p.value(metric, kind, time.Duration(instant-p.first.Start())*time.Millisecond)
}

// fill stores days, so many chunks a day of each device.
func (p *panels) fill(t *testing.T, from, to telemetry.Day, interval time.Duration, chunks, metrics int) {
	step := interval.Milliseconds()
	millis := int(telemetry.DayMillis)
	if to == p.day && p.hours > 0 {
		millis = p.hours * int(time.Hour.Milliseconds())
	}
	rows := millis / int(step) / chunks
	for day := from; day <= to; day++ {
		for n := range chunks {
			var frames [kinds]chunk.Frame
			for k := range kinds {
				g := chunk.Group{}
				for i := range rows {
					g.Times = append(g.Times, day.Start()+int64(n*rows+i)*step)
				}
				for m := range metrics {
					c := chunk.Column{Metric: p.names[m], Kind: telemetry.Float}
					for _, at := range g.Times {
						c.Bits = append(c.Bits, telemetry.FloatValue(p.at(m, k, at)).Bits())
					}
					g.Columns = append(g.Columns, c)
				}
				slices.SortFunc(g.Columns, func(a, b chunk.Column) int { return strings.Compare(a.Metric, b.Metric) })
				frames[k].Groups = []chunk.Group{g}
			}
			p.values += p.devices * metrics * rows
			for d := range p.devices {
				device := deviceOf(d)
				key := p.tenant.Placement.Key(device, day, uint32(n))
				h := chunk.Header{ID: chunk.ID{Day: day, Stream: 1, Number: uint32(n)}, TenantShard: key.TenantShard,
					Device: device, Readings: rows, First: int64(n * rows), Through: int64((n+1)*rows - 1),
					After: int64(n*rows) - 1}
				doc, err := chunk.Encode(h, frames[d%kinds])
				require.NoError(t, err)
				p.bytes += len(doc)
				_, err = p.client.Chunks().Create(t.Context(), key, h.ID.String(), doc)
				require.NoError(t, err)
			}
		}
	}
}

// build makes rollups of days.
func (p *panels) seal(t *testing.T, from, to telemetry.Day) (rus float64, bytes int) {
	w, err := rollups.New(rollups.Config{Chunks: p.client.Chunks(), Rollups: p.client.Rollups(), Hold: *panelHold,
		Tenants: func() []tenant.Tenant { return []tenant.Tenant{p.tenant} }, Now: func() time.Time { return p.now },
		Sleep: func(context.Context, time.Duration) error { return nil }})
	require.NoError(t, err)
	for day := from; day <= to; day++ {
		for _, target := range w.TargetsOf(day) {
			report, err := w.Round(t.Context(), target)
			if !errors.Is(err, store.ErrNoContainer) {
				require.NoError(t, err)
			}
			rus, bytes = rus+report.WriteRUs+report.ReadRUs, bytes+report.Bytes
		}
	}
	return rus, bytes
}

// server answers PromQL, without rollups or with them.
func (p *panels) server(t *testing.T, withRollups bool) *httptest.Server {
	cfg := query.Config{Reader: p.client.Chunks(), Heads: nobody{}, Directory: p.directory, Catalog: p.client.Catalog(),
		Now: func() time.Time { return p.now }, MemoryBytes: 1 << 30, TotalMemoryBytes: 2 << 30, CacheBytes: 1 << 30,
		MaxRUs: 1e7}
	if withRollups {
		cfg.Rollups = p.client.Rollups()
	}
	engine := prom.Config{Now: cfg.Now, MemoryBytes: 1 << 30, MaxSamples: 1e8}
	if p.defaults {
		cfg.MemoryBytes, cfg.TotalMemoryBytes, cfg.CacheBytes, cfg.MaxRUs = 0, 0, 0, 0
		engine.MemoryBytes, engine.MaxSamples = 0, 0
	}
	q, err := query.New(cfg)
	require.NoError(t, err)
	engine.Querier = q
	h, err := prom.New(engine)
	require.NoError(t, err)
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// panel is a query over a range; without a step it is about its end.
type panel struct {
	name, text string
	from, to   int64
	step       time.Duration
	lookback   string
}

// path is where it is asked.
func (p panel) path() string {
	values := url.Values{"query": {p.text}, "start": {fmt.Sprint(p.from / 1000)}, "end": {fmt.Sprint(p.to / 1000)},
		"step": {fmt.Sprint(p.step.Seconds())}}
	path := "/api/v1/query_range?"
	switch {
	case strings.HasPrefix(p.text, "label/"):
		path, values = "/api/v1/"+p.text+"?", url.Values{"start": values["start"], "end": values["end"]}
	case p.step == 0:
		path, values = "/api/v1/query?", url.Values{"query": values["query"], "time": values["end"]}
	}
	if p.lookback != "" {
		values.Set("lookback_delta", p.lookback)
		values.Set("max_lookback", p.lookback) // as VictoriaMetrics calls it
	}
	return path + values.Encode()
}

// ask is the answer of a panel, what it cost, and where it came from.
func ask(t *testing.T, base string, p panel) (body string, header http.Header, cpu, wall time.Duration) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+p.path(), nil)
	require.NoError(t, err)
	r.Header.Set("X-Scope-OrgID", "acme")
	used, began := rusage(t), time.Now()
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode, string(text))
	return string(text), resp.Header, rusage(t) - used, time.Since(began)
}

func rusage(t testing.TB) time.Duration {
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// warm is the cost of a panel that is repeated.
func warm(t *testing.T, base string, p panel) string {
	var all []time.Duration
	sum := time.Duration(0)
	for range *panelAsks {
		_, _, cpu, _ := ask(t, base, p)
		all, sum = append(all, cpu), sum+cpu
	}
	return fmt.Sprintf("warm, of %d: mean %.1f, least %.1f", len(all), sum.Seconds()*1e3/float64(len(all)),
		slices.Min(all).Seconds()*1e3)
}

// Panels over a fleet answer the same from rollups as from chunks, for a fraction of the request units. -v shows what
// they cost: cold is what a querier asks that has just begun and knows but the devices' tags, warm what it asks again.
func TestPanels(t *testing.T) {
	p := newPanels(t, *panelDevices, *panelDays, plain())
	p.fill(t, p.first, p.day-1, time.Minute, 1, 2)
	p.fill(t, p.day, p.day, 10*time.Second, int(24*time.Hour/max(*panelHold, time.Hour)), *panelMetrics)
	p.now = p.now.Add(time.Hour + *panelHold)
	made, _ := p.seal(t, p.first, p.day)
	p.now = p.now.Add(time.Hour)
	t.Logf("%d devices, %d days of chunks, their rollups made for %.0f modelled RU", p.devices, *panelDays, made)
	day, end, long := p.day.Start(), p.day.End(), p.first.Start()
	t.Logf("%-20s %50s %50s %s", "CPU-ms (wall), modelled RU", "chunks cold/warm",
		"rollups cold/warm", "source")
	for _, panel := range []panel{
		{name: "avg by fleet, 24 h", text: "avg by (fleet) (metric_1)", from: day, to: end, step: 5 * time.Minute},
		{name: "rate by fleet, 24 h", text: "sum by (fleet) (rate(km_total[5m]))", from: day, to: end, step: 5 * time.Minute},
		{name: "topk, 24 h", text: "topk(5, max_over_time(metric_1[1h]))", from: day, to: end, step: 5 * time.Minute},
		{name: "avg by fleet, long", text: "avg by (fleet) (metric_1)", from: long, to: end, step: 30 * time.Minute},
		{name: "rate by fleet, long", text: "sum by (fleet) (rate(km_total[1h]))", from: long, to: end,
			step: 30 * time.Minute},
		{name: "max by fleet, long", text: "max by (fleet) (max_over_time(metric_1[1h]))", from: long, to: end,
			step: 30 * time.Minute},
	} {
		var answers []string
		line := fmt.Sprintf("%-20s", panel.name)
		var rus [2]float64
		var source string
		for n, withRollups := range []bool{false, true} {
			s := p.server(t, withRollups)
			primed := panel
			primed.text = "nothing" // what tags devices have is known from now on
			ask(t, s.URL+prom.Prefix, primed)
			for range 2 {
				body, header, cpu, wall := ask(t, s.URL+prom.Prefix, panel)
				answers = append(answers, body)
				var spent float64
				_, err := fmt.Sscan(header.Get(query.SpentHeader), &spent)
				require.NoError(t, err)
				if rus[n] == 0 {
					rus[n] = spent
				}
				line += fmt.Sprintf(" %5d (%5d) %7.0f", cpu.Milliseconds(), wall.Milliseconds(), spent)
				source = header.Get(query.SourceHeader)
			}
			if *panelAsks > 0 && withRollups {
				line += " " + warm(t, s.URL+prom.Prefix, panel)
			}
			s.Close()
		}
		t.Log(line, source)
		for _, other := range answers[1:] {
			require.Equal(t, answers[0], other, panel.name)
		}
		require.Contains(t, answers[0], `"fleet"`)
		if p.devices >= 1000 && *panelHold < 3*time.Hour {
			require.Less(t, rus[1], rus[0]/4, "%s: %s", panel.name, source)
			require.LessOrEqual(t, rus[1], 200.0, "%s, modelled RU", panel.name)
		}
	}
}

// A dashboard of 20 panels that is refreshed for an hour costs little while nothing is stored: its first refresh reads,
// and later ones ask each key when that is due. How often it is refreshed makes no difference.
func TestDashboardForAnHour(t *testing.T) {
	p := newPanels(t, *panelDevices, 1, plain())
	p.fill(t, p.day, p.day, time.Minute, 24, *panelMetrics)
	p.now = p.now.Add(time.Hour)
	p.seal(t, p.day, p.day)
	for _, withRollups := range []bool{false, true} {
		name := "chunks"
		if withRollups {
			name = "rollups"
		}
		s := p.server(t, withRollups)
		begin := p.now
		var spent, first float64
		used, queries := time.Duration(0), 0
		for ; p.now.Sub(begin) < time.Hour; p.now = p.now.Add(*panelEvery) {
			_, err := p.directory.Refresh(t.Context()) // the role follows it, whoever asks
			require.NoError(t, err)
			for n := range 20 {
				text := fmt.Sprintf("avg by (fleet) (%s)", metricOf(n/2%len(p.names)))
				if n%2 > 0 {
					text = fmt.Sprintf("max by (fleet) (max_over_time(%s[10m]))", metricOf(n/2%len(p.names)))
				}
				to := p.now.Truncate(5 * time.Minute).UnixMilli()
				_, header, cpu, _ := ask(t, s.URL+prom.Prefix, panel{text: text, from: to - telemetry.DayMillis, to: to,
					step: 5 * time.Minute})
				var rus float64
				_, err := fmt.Sscan(header.Get(query.SpentHeader), &rus)
				require.NoError(t, err)
				if spent += rus; p.now.Equal(begin) {
					first += rus
				} else {
					used, queries = used+cpu, queries+1
				}
			}
		}
		s.Close()
		t.Logf("%s: the first refresh %.0f, all others of the hour %.0f modelled RU, %.1f CPU-ms a panel", name, first,
			spent-first, used.Seconds()*1e3/float64(queries))
		require.Less(t, spent-first, 500.0, name)
		p.now = begin
	}
}
