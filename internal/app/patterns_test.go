//go:build unix

package app_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/worker"
	"binnacle/internal/charges/ru"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/erasure"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/ops/erase"
	"binnacle/internal/store"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/merge"
	"binnacle/query/prom"
	"binnacle/sharding"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

var updatePatterns = flag.Bool("patterns.update", false, "write docs/reference/access-patterns.md anew")

// The fleet of docs/reference/access-patterns.md, and how long a request takes beside what its charge takes.
const (
	patternDevices  = 20
	patternInterval = 5 * time.Minute
	patternRows     = 288 // of a device and day
	patternBin      = 100 // readings in a document of V2
	patternTrip     = 5 * time.Millisecond
)

// patternsPage is where the tables stand.
const patternsPage = "../../docs/reference/access-patterns.md"

// slowTransport answers after the time that a request takes over a network and in a physical partition that serves
// 10,000 RU/s. In a bubble that is the bubble's time.
type slowTransport struct {
	*emulator.Transport
	isSlow atomic.Bool // the SDK looks at the account meanwhile
}

// Do implements policy.Transporter.
func (s *slowTransport) Do(r *http.Request) (*http.Response, error) {
	resp, err := s.Transport.Do(r)
	if err != nil || !s.isSlow.Load() {
		return resp, err
	}
	rus, _ := strconv.ParseFloat(resp.Header.Get("X-Ms-Request-Charge"), 64)
	time.Sleep(patternTrip + time.Duration(rus/ru.PartitionRUs*float64(time.Second)))
	return resp, nil
}

// patterns is a fleet in three models: a document per reading, documents of 100 readings, and Binnacle.
type patterns struct {
	*panels
	t         *testing.T
	transport *slowTransport
	metrics   *prometheus.Registry
	idle      time.Duration // time in which nothing is asked
	query     *query.Querier
	chunks    *query.Querier // that reads no rollups
}

// patternCost is what an access pattern takes.
type patternCost struct {
	rus        float64
	took       time.Duration
	operations []string // as metrics name them
}

// measure does something and returns what it takes.
func (p *patterns) measure(do func()) patternCost {
	_, err := p.directory.Refresh(p.t.Context()) // as it does in the background
	require.NoError(p.t, err)
	before := p.charges()
	p.transport.isSlow.Store(true)
	p.idle = 0
	began := time.Now()
	do()
	out := patternCost{took: time.Since(began) - p.idle}
	p.transport.isSlow.Store(false)
	for operation, now := range p.charges() {
		if was := before[operation]; now.requests > was.requests {
			out.operations = append(out.operations, operation)
			out.rus += now.rus - was.rus
		}
	}
	slices.Sort(out.operations)
	return out
}

// rest lets time pass that no pattern takes.
func (p *patterns) rest(d time.Duration) {
	time.Sleep(d)
	p.idle += d
}

// patternCharge is what an operation has been charged.
type patternCharge struct{ rus, requests float64 }

// charges returns what each operation has been charged, as metrics say.
func (p *patterns) charges() map[string]patternCharge {
	families, err := p.metrics.Gather()
	require.NoError(p.t, err)
	out := map[string]patternCharge{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() != "operation" {
					continue
				}
				c := out[l.GetValue()]
				switch f.GetName() {
				case "binnacle_cosmos_request_units_total":
					c.rus += m.GetCounter().GetValue()
				case "binnacle_cosmos_requests_total":
					c.requests += m.GetCounter().GetValue()
				}
				out[l.GetValue()] = c
			}
		}
	}
	return out
}

// newPatterns stores a day of the fleet in all three models, without charging time for it.
func newPatterns(t *testing.T) *patterns {
	p := &patterns{panels: &panels{devices: patternDevices, reported: plain()}, t: t, metrics: prometheus.NewRegistry()}
	time.Sleep(25 * time.Hour) // midnight is where a bubble begins
	p.day, p.now = telemetry.DayOf(time.Now().UnixMilli())-1, time.Now()
	p.first = p.day
	p.open(t, emulator.Config{InMemory: true, Unlimited: true, Now: time.Now, PhysicalPartitions: 5},
		func(c *cosmos.Config) {
			p.transport = &slowTransport{Transport: c.Transport.(*emulator.Transport)}
			c.Transport, c.Now, c.Registerer = p.transport, time.Now, p.metrics
			c.Jitter = func() float64 { return 0 }
		})
	p.fill(t, p.day, p.day, patternInterval, 2, len(p.names))
	p.directory = control.NewDirectory(control.DirectoryConfig{Documents: p.client.Documents(), Feed: p.client.Feed(),
		Now: time.Now})
	cfg := query.Config{Reader: p.client.Chunks(), Heads: nobody{}, Directory: p.directory, Catalog: p.client.Catalog(),
		Now: time.Now, CacheBytes: -1}
	var err error
	p.chunks, err = query.New(cfg)
	require.NoError(t, err)
	cfg.Rollups, cfg.CacheBytes = p.client.Rollups(), 1<<28
	p.query, err = query.New(cfg)
	require.NoError(t, err)
	for _, name := range []string{"readings", "binned"} {
		require.NoError(t, p.client.Containers().CreateAs(t.Context(), cosmos.Layout{Name: name,
			Key: []string{"/tenant", "/device"}, Indexed: []string{"/tenant", "/device", "/ts"}},
			store.Throughput{RUs: 4000}))
	}
	for d := range p.devices {
		p.store("readings", d, 0, patternRows, 1)
		p.store("binned", d, 0, patternRows, patternBin)
	}
	return p
}

// store stores readings of a device, of one day, in documents of so many readings: V1 with one, else V2.
func (p *patterns) store(container string, d, from, to, each int) {
	for ; from < to; from += each {
		body := map[string]any{"id": fmt.Sprint(deviceOf(d), ".", from), "tenant": "acme", "device": deviceOf(d)}
		for name, value := range p.tags(d) {
			body[name] = value
		}
		var readings []map[string]any
		for i := from; i < min(to, from+each); i++ {
			at, values := p.day.Start()+int64(i)*patternInterval.Milliseconds(), map[string]float64{}
			for m, name := range p.names {
				values[name] = p.at(m, d%kinds, at)
			}
			readings = append(readings, map[string]any{"ts": at, "values": values})
		}
		maps.Copy(body, readings[0])
		if each > 1 {
			delete(body, "values")
			body["readings"] = readings
		}
		doc, err := json.Marshal(body)
		require.NoError(p.t, err)
		_, err = p.client.Items(container).Create(p.t.Context(), []string{"acme", deviceOf(d)}, body["id"].(string), doc)
		require.NoError(p.t, err)
	}
}

// asked returns what asks a container of V1 or V2 about an hour or more of a device, or of the tenant.
func (p *patterns) asked(container, sql, device string, back time.Duration) func() {
	return func() {
		params := map[string]any{"@tenant": "acme", "@from": p.day.End() - back.Milliseconds(), "@to": p.day.End()}
		where := "c.tenant = @tenant AND c.ts >= @from AND c.ts < @to"
		if container == "binned" { // a document has the time of its first reading
			params["@from"] = p.day.End() - back.Milliseconds() - patternBin*patternInterval.Milliseconds()
		}
		var key []string
		if device != "" {
			key, params["@device"] = []string{"acme", device}, device
			where += " AND c.device = @device"
		}
		_, _, err := p.client.Items(container).Query(p.t.Context(), key, strings.Replace(sql, "WHERE", "WHERE "+where, 1),
			params)
		require.NoError(p.t, err)
	}
}

// deleted returns what deletes a device's documents of V1 or V2.
func (p *patterns) deleted(container string, d, each int) func() {
	return func() {
		p.asked(container, "SELECT c.id FROM c WHERE", deviceOf(d), 24*time.Hour)()
		for i := 0; i < patternRows; i += each {
			_, err := p.client.Chunks().DeleteChunk(p.t.Context(),
				sharding.Key{Container: container, TenantShard: "acme", Device: deviceOf(d)},
				fmt.Sprint(deviceOf(d), ".", i))
			require.NoError(p.t, err)
		}
	}
}

// back is a range that ends with the day.
func (p *patterns) back(d time.Duration) telemetry.Range {
	return telemetry.Range{From: p.day.End() - d.Milliseconds(), To: p.day.End()}
}

// panelOf returns what asks PromQL of a querier, as Grafana does.
func (p *patterns) panelOf(q *query.Querier, text string, back time.Duration) func() {
	h, err := prom.New(prom.Config{Querier: q, Now: time.Now, MemoryBytes: 1 << 30, MaxSamples: 1e7})
	require.NoError(p.t, err)
	path := panel{text: text, from: p.back(back).From, to: p.day.End() - 1000, step: 30 * time.Minute}.path()
	return func() {
		r := httptest.NewRequestWithContext(p.t.Context(), http.MethodGet, prom.Prefix+path, nil)
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("X-Scope-OrgID", "acme")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(p.t, http.StatusOK, w.Code, w.Body)
	}
}

// ingester returns an ingester of one partition of the log that has just begun.
func (p *patterns) ingester(topic string) *ingest.Local {
	streams := stream.NewStreams(p.client.Documents())
	stream, err := streams.Find(p.t.Context(), "patterns", topic, 1)
	require.NoError(p.t, err)
	return ingest.NewLocal(ingest.Config{Config: worker.Config{Topic: topic, Register: true, Hold: 12 * time.Hour},
		Now: time.Now, Logger: slog.New(slog.DiscardHandler)}, ingest.Stores{Chunks: p.client.Chunks(),
		DeadLetters: noDeadLetters{}, Directory: p.directory, Catalog: p.client.Catalog(), Streams: streams},
		worker.Assignment{Stream: stream.Number})
}

// take has an ingester take readings of a device, one an interval, of the present day.
func (p *patterns) take(l *ingest.Local, d, from, to int) func() {
	return func() {
		for i := from; i < to; i++ {
			at := p.day.End() + int64(i)*time.Second.Milliseconds()
			values := map[string]any{}
			for m, name := range p.names {
				values[name] = p.at(m, d%kinds, at)
			}
			body, err := json.Marshal(map[string]any{"tenant": "acme", "device": deviceOf(d), "ts": at, "values": values,
				"tags": p.tags(d)})
			require.NoError(p.t, err)
			require.NoError(p.t, l.Take(p.t.Context(), admit.Record{Offset: int64(i), Time: at,
				Key: []byte("acme/" + deviceOf(d)), Value: body}))
		}
		require.NoError(p.t, l.Step(p.t.Context()))
	}
}

// pattern is an operation in three models; nil where a model has none.
type pattern struct {
	what       string
	v1, v2, v3 func()
}

// writes are the patterns that change the store, in the order in which they are measured.
func (p *patterns) writes() []pattern {
	t, chunks := p.t, p.client.Chunks()
	present := p.ingester("telemetry")
	must := func(err error) { require.NoError(t, err) }
	all := func(container string, each int) func() {
		return func() { p.store(container, patternDevices, 0, patternRows, each) }
	}
	one := func(container string) func() {
		return func() { p.store(container, patternDevices+1, 0, 1, 1) }
	}
	return []pattern{
		{"publish: a reading of a device that is known", one("readings"), func() {}, func() {}},
		{"take: the first reading of a device that no process knows", nil, nil, func() {
			p.take(present, patternDevices, 0, 1)()
			p.rest(time.Minute)
			must(present.Step(t.Context()))
		}},
		{"take: a day's next readings of it", nil, nil, p.take(present, patternDevices, 1, patternRows)},
		{"cut and store: a day of a device", all("readings", 1), all("binned", patternBin), func() {
			must(present.Finish(t.Context()))
		}},
		{"look up: the tail of a chain, after a restart", nil, nil, func() {
			key := p.tenant.Placement.Key(deviceOf(0), p.day, 0)
			_, _, err := chunks.Last(t.Context(), key, store.Chain{Day: p.day, Stream: 1})
			must(err)
		}},
		{"roll up: a day of the tenant", nil, nil, func() {
			p.now = time.Now()
			p.seal(t, p.day, p.day)
		}},
		{"heat: a minute of the load", nil, nil, func() {
			_, err := p.client.Heat().CreateHeat(t.Context(), store.HeatDocument{ID: "1", Key: "chunks",
				TTL: time.Hour, Body: []byte(`{"from":1,"to":2,"tenants":[]}`)})
			must(err)
		}},
		{"register: a tenant that is new", nil, nil, func() {
			_, err := p.directory.Register(t.Context(), "globex")
			must(err)
		}},
		{"month roll: the next month's container, and that it is there", nil, nil, func() {
			next := sharding.Container("", sharding.Month.Of(p.day).Next())
			must(p.client.Containers().Create(t.Context(), next, store.Throughput{RUs: 4000}))
			must(p.directory.AskMonth(t.Context(), next, ""))
		}},
		{"month roll: throughput of a month that is over", nil, nil, func() {
			of := sharding.Container("", sharding.Month.Of(p.day))
			_, err := p.client.Containers().ReadThroughput(t.Context(), of)
			must(err)
			must(p.client.Containers().SetThroughput(t.Context(), of, store.Throughput{RUs: 1000}))
		}},
		{"erase: a day of a device", p.deleted("readings", 3, 1), p.deleted("binned", 3, patternBin), p.erased(3)},
		{"expire: a month", nil, nil, func() {
			must(p.client.Containers().Delete(t.Context(), sharding.Container("", sharding.Month.Of(p.day).Next())))
		}},
	}
}

// erased returns what orders the erasure of a device and sweeps until its rollups are clear.
func (p *patterns) erased(d int) func() {
	t := p.t
	orders := erasure.NewOrders(p.client.Documents(), time.Now)
	sweeper := erase.NewSweeper(erase.Config{Chunks: p.client.Chunks(), Rollups: p.client.Rollups(), Now: time.Now,
		Orders: orders, Snapshot: p.directory.Refresh, By: "patterns", RUs: 1e9})
	return func() {
		o, err := orders.Announce(t.Context(), erasure.Order{Tenant: "acme", Device: deviceOf(d), From: p.day,
			To: p.day + 1, By: "patterns"})
		require.NoError(t, err)
		require.NoError(t, orders.Acknowledge(t.Context(), o.ID,
			[]erasure.Position{{Stream: 1, Through: patternRows - 1}}))
		for range 3 {
			p.rest(erase.ClearAfter + time.Minute)
			require.NoError(t, sweeper.Round(t.Context()))
		}
		v, err := p.directory.Refresh(t.Context())
		require.NoError(t, err)
		for _, swept := range v.AllErasures() {
			require.False(t, swept.ClearedAt.IsZero())
		}
	}
}

// reads are the patterns that ask.
func (p *patterns) reads() []pattern {
	t, device, day := p.t, deviceOf(1), 24*time.Hour
	const whole, fleet = "SELECT * FROM c WHERE", "avg by (fleet) (metric_1)"
	const latest, metric = "SELECT TOP 1 * FROM c WHERE ORDER BY c.ts DESC", `SELECT c.ts, c["values"].metric_1 FROM c WHERE`
	const ofAll = `SELECT c.device, c.fleet, c.ts, c["values"].metric_1 FROM c WHERE`
	v1 := func(sql, device string, back time.Duration) func() { return p.asked("readings", sql, device, back) }
	v2 := func(sql, device string, back time.Duration) func() { return p.asked("binned", sql, device, back) }
	request := func(back time.Duration, metrics ...string) query.Request {
		return query.Request{Tenant: "acme", Devices: []string{device}, Metrics: metrics, Range: p.back(back)}
	}
	raw := func(back time.Duration) func() {
		return func() {
			n := 0
			_, err := p.chunks.Readings(t.Context(), request(back), func(query.Row) error { n++; return nil })
			require.NoError(t, err)
			require.EqualValues(t, back/patternInterval, n)
		}
	}
	return []pattern{
		{"latest: of a device", v1(latest, device, day), v2(latest, device, day), func() {
			_, err := p.chunks.Nearest(t.Context(), request(0), func(query.Last) error { return nil })
			require.NoError(t, err)
		}},
		{"raw: an hour of a device", v1(whole, device, time.Hour), v2(whole, device, time.Hour), raw(time.Hour)},
		{"raw: a day of a device", v1(whole, device, day), v2(whole, device, day), raw(day)},
		{"aggregate: a metric of a device by hour, a day", v1(metric, device, day), v2(whole, device, day), func() {
			n := 0
			r := request(day, "metric_1")
			mean, err := merge.ParseAggregate("avg")
			require.NoError(t, err)
			hours, err := merge.EveryStep(merge.Bounds{Range: r.Range, Most: 25}, time.Hour)
			require.NoError(t, err)
			_, err = p.chunks.Aggregates(t.Context(), r, query.Aggregation{Buckets: hours,
				Aggregates: []query.Aggregate{mean}}, func(query.Aggregated) error { n++; return nil })
			require.NoError(t, err)
			require.Equal(t, 24, n)
		}},
		{"panel: a metric of all devices, an hour, from chunks", v1(ofAll, "", time.Hour), v2(whole, "", time.Hour),
			p.panelOf(p.chunks, fleet, time.Hour)},
		{"panel: a metric of all devices, a day, from chunks", v1(ofAll, "", day), v2(whole, "", day),
			p.panelOf(p.chunks, fleet, day)},
		{"panel: the same, from rollups", nil, nil, p.panelOf(p.query, fleet, day)},
		{"panel: the same, once more", v1(ofAll, "", day), v2(whole, "", day), p.panelOf(p.query, fleet, day)},
		{"label look-up: values of a tag, the catalog not known", v1("SELECT c.fleet FROM c WHERE", "", day),
			v2("SELECT c.fleet FROM c WHERE", "", day), p.panelOf(p.fresh(), "label/fleet/values", day)},
		{"label look-up: the same, once more", nil, nil, p.panelOf(p.query, "label/fleet/values", day)},
		{"snapshot: control documents, in a process that begins", nil, nil, func() {
			_, err := control.NewDirectory(control.DirectoryConfig{Documents: p.client.Documents(), Now: time.Now}).
				Refresh(t.Context())
			require.NoError(t, err)
		}},
		{"snapshot: control documents, where nothing has changed", nil, nil, func() {
			_, err := p.directory.Refresh(t.Context())
			require.NoError(t, err)
		}},
		{"heat: an hour of the load", nil, nil, func() {
			_, err := p.client.Heat().ReadHeat(t.Context(), store.HeatQuery{Key: "chunks", From: 0,
				To: time.Hour.Milliseconds()}, func([]byte) error { return nil })
			require.NoError(t, err)
		}},
	}
}

// fresh returns a querier that knows nothing yet.
func (p *patterns) fresh() *query.Querier {
	q, err := query.New(query.Config{Reader: p.client.Chunks(), Heads: nobody{}, Directory: p.directory,
		Catalog: p.client.Catalog(), Now: time.Now})
	require.NoError(p.t, err)
	return q
}

// table measures patterns and returns their table.
func (p *patterns) table(all []pattern) string {
	var out strings.Builder
	out.WriteString("| operation | id of Binnacle's requests | V1 RU | ms | V2 RU | ms | V3 RU | ms |\n" +
		"|---|---|---:|---:|---:|---:|---:|---:|\n")
	for _, x := range all {
		cells, ids := "", ""
		for i, do := range []func(){x.v1, x.v2, x.v3} {
			if do == nil {
				cells += " – | – |"
				continue
			}
			c := p.measure(do)
			cells += fmt.Sprintf(" %.2f | %.1f |", c.rus, c.took.Seconds()*1e3)
			if i == 2 {
				for _, o := range c.operations {
					ids += "`" + o + "` "
				}
			}
		}
		if ids == "" {
			ids = "none"
		}
		fmt.Fprintf(&out, "| %s | %s |%s\n", x.what, strings.TrimSpace(ids), cells)
	}
	return out.String()
}

// The page of access patterns has what the present code takes, within a tenth: what changes by more is committed on
// purpose, by `make access-patterns`.
func TestAccessPatterns(t *testing.T) {
	var tables [2]string
	synctest.Test(t, func(t *testing.T) {
		p := newPatterns(t)
		reads, writes := p.reads(), p.writes()
		time.Sleep(time.Hour)
		at := slices.IndexFunc(writes, func(x pattern) bool { return strings.HasPrefix(x.what, "register") })
		first := p.table(writes[:at])
		time.Sleep(time.Hour)
		p.panelOf(p.chunks, "label/fleet/values", time.Hour)()
		p.panelOf(p.query, "label/fleet/values", time.Hour)()
		tables[1] = p.table(reads)
		_, rest, _ := strings.Cut(p.table(writes[at:]), "---:|\n")
		tables[0] = first + rest
	})
	page, err := os.ReadFile(patternsPage)
	require.NoError(t, err)
	text := string(page)
	for i, table := range tables {
		begin, end := fmt.Sprintf("<!-- make access-patterns: begin %d -->\n", i+1), fmt.Sprintf("<!-- end %d -->", i+1)
		before, rest, ok := strings.Cut(text, begin)
		require.True(t, ok)
		was, after, ok := strings.Cut(rest, end)
		require.True(t, ok)
		if *updatePatterns {
			text = before + begin + table + end + after
			continue
		}
		requireSimilar(t, was, table)
	}
	if *updatePatterns {
		require.NoError(t, os.WriteFile(patternsPage, []byte(text), 0o644))
	}
}

// requireSimilar requires that a table is one that was committed, but for figures that are within a tenth.
func requireSimilar(t *testing.T, was, is string) {
	t.Helper()
	cells := func(table string) []string { return strings.Split(table, "|") }
	old, now := cells(was), cells(is)
	require.Len(t, now, len(old), "make access-patterns writes it anew")
	for i := range old {
		a, err1 := strconv.ParseFloat(strings.TrimSpace(old[i]), 64)
		b, err2 := strconv.ParseFloat(strings.TrimSpace(now[i]), 64)
		if err1 != nil || err2 != nil {
			require.Equal(t, old[i], now[i], "make access-patterns writes it anew")
			continue
		}
		require.LessOrEqual(t, math.Abs(a-b), math.Abs(a)/10, "in %s, was %s: make access-patterns writes it anew",
			strings.Join(now[max(0, i-8):i+1], "|"), old[i])
	}
}
