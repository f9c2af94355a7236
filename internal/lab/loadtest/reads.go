package loadtest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"time"

	"binnacle/ingest/worker"
	"binnacle/internal/charges/ru"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query"

	"golang.org/x/sync/errgroup"
)

// ReadsReport is what questions about one day of a fleet cost in each layout. Request units and times are modelled.
type ReadsReport struct {
	Devices         int          `json:"devices"`
	OfTenant        int          `json:"devices_of_the_tenant"`
	IntervalSeconds float64      `json:"interval_seconds"`
	Layouts         []ReadResult `json:"layouts"`
}

// ReadResult is what a layout is charged for the questions.
type ReadResult struct {
	Layout Layout   `json:"layout"`
	Latest ReadCost `json:"latest_of_a_device"`
	Day    ReadCost `json:"day_of_a_device"`
	Panel  ReadCost `json:"hour_of_a_tenant"`
}

// ReadCost is what one question costs.
type ReadCost struct {
	RUs          float64 `json:"ru"`
	Documents    int     `json:"documents"`
	Keys         int     `json:"keys"` // partition keys that are asked
	Milliseconds float64 `json:"milliseconds"`
}

// The fleet that is asked about: one of ten tenants has four devices of five. None of them is so large a part of the
// load that the balancer spreads it.
const (
	readDevices         = 52
	readDevicesOfTenant = 42
	readInterval        = 5 * time.Minute
	readDevice          = "truck-0000"
)

// Constants of a question's duration: rounds of at most readFanout concurrent requests, and the time in which
// the busiest physical partition serves the charged request units.
const (
	roundTrip  = 5 * time.Millisecond
	readFanout = 16
)

// reading asks the questions of a layout. It is called once its day is written.
type reading func(ctx context.Context, a *account, b *ingester) error

// measureReads runs a day of a small fleet through each layout, without budgets, and asks.
func measureReads(ctx context.Context, cfg Config) (*ReadsReport, error) {
	cfg = cfg.ofReads()
	all := cfg.Layouts
	if len(all) == 0 {
		all = allLayouts()
	}
	out := &ReadsReport{Devices: cfg.Devices, OfTenant: readDevicesOfTenant, IntervalSeconds: cfg.Interval.Seconds(),
		Layouts: make([]ReadResult, len(all))}
	of := func(i int) pass {
		p := pass{cfg: cfg, scenario: Whale, layout: all[i]}
		out.Layouts[i].Layout = all[i]
		p.ask = func(ctx context.Context, a *account, b *ingester) error {
			return p.read(ctx, a, b, &out.Layouts[i])
		}
		return p
	}
	own, err := of(slices.Index(all, Binnacle)).run(ctx)
	if err != nil {
		return nil, err
	}
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i, l := range all {
		if l == Binnacle {
			continue
		}
		work.Go(func() error {
			p := of(i)
			p.placed = own.decision.Changes
			_, err := p.run(ctx)
			return err
		})
	}
	return out, work.Wait()
}

// ofReads returns the configuration of the fleet that is asked about. It reports for a day, after the bins of a hold.
func (c Config) ofReads() Config {
	c.Devices, c.Interval, c.Window, c.Sample = readDevices, readInterval, day, day
	c.starting = midnight.Add(-c.Hold)
	return c
}

// read asks the questions and fills in what they cost.
func (p pass) read(ctx context.Context, a *account, b *ingester, r *ReadResult) (err error) {
	from, to := midnight, midnight.Add(day)
	asks := []struct {
		cost *ReadCost
		q    question
	}{
		{&r.Latest, question{latest: true, tenant: largestTenant, device: readDevice, from: to.Add(-time.Hour), to: to}},
		{&r.Day, question{tenant: largestTenant, device: readDevice, from: from, to: to}},
		{&r.Panel, question{tenant: largestTenant, from: to.Add(-time.Hour), to: to}},
	}
	for _, x := range asks {
		a.server.ResetStats()
		var rounds int
		if b != nil {
			rounds, err = b.answer(ctx, x.q, x.cost)
		} else {
			rounds, err = p.answer(ctx, a, x.q, x.cost)
		}
		if err != nil {
			return fmt.Errorf("ask %s: %w", p.layout, err)
		}
		parts, err := a.aligned(p.readContainers())
		if err != nil {
			return err
		}
		busiest := 0.0
		for _, part := range parts {
			busiest = max(busiest, part.RUs)
		}
		x.cost.RUs = round(x.cost.RUs)
		x.cost.Milliseconds = round(float64(rounds)*roundTrip.Seconds()*1e3 + 1e3*busiest/ru.PartitionRUs)
	}
	return nil
}

// readContainers returns the containers that the questions of a layout go to.
func (p pass) readContainers() []string {
	if p.layout.chunked() {
		return p.containers()
	}
	return []string{p.layout.container().Name}
}

// question is a question about a tenant: the newest reading of a device, all readings of a device in a range,
// or one metric of all devices.
type question struct {
	latest   bool
	tenant   string
	device   string // "" for all
	from, to time.Time
}

// answer asks a container of documents. It returns how many requests follow each other.
func (p pass) answer(ctx context.Context, a *account, q question, cost *ReadCost) (rounds int, err error) {
	items := a.client.Items(p.layout.container().Name)
	params := map[string]any{"@from": q.from.UnixMilli(), "@to": q.to.UnixMilli()}
	what, where := "*", "c.tenant = @tenant AND c.ts >= @from AND c.ts < @to"
	switch {
	case p.layout == Hundred: // a document has the time of its first reading
		params["@from"] = q.from.Add(-hundred * p.cfg.Interval).UnixMilli()
	case q.device == "":
		what = `c.device, c.ts, c["values"].velocity`
	}
	if q.device != "" {
		where += " AND c.device = @device"
		params["@device"] = q.device
	}
	sql := "SELECT " + what + " FROM c WHERE " + where
	if q.latest && p.layout != DeviceTime && p.layout != DeviceMinute { // there all of the hour is read: no key is whole
		sql = "SELECT TOP 1 " + what + " FROM c WHERE " + where + " ORDER BY c.ts DESC"
	}
	keys, pages := p.keysFor(q), 0
	for _, key := range keys {
		params["@tenant"] = q.tenant
		if len(key) < len(p.layout.container().Key) {
			key = nil // the filter names the prefix
		}
		usage, n, err := items.Query(ctx, key, sql, params)
		cost.RUs, cost.Documents, pages = cost.RUs+usage.RUs, cost.Documents+usage.Documents, max(pages, n)
		if err != nil {
			return 0, err
		}
	}
	cost.Keys = len(keys)
	return pages * ((len(keys) + readFanout - 1) / readFanout), nil
}

// answer asks Binnacle: open bins first, then the store. The answer has to be whole.
func (b *ingester) answer(ctx context.Context, q question, cost *ReadCost) (rounds int, err error) {
	r := query.Request{Tenant: q.tenant, Metrics: []string{"velocity"},
		Range: telemetry.Range{From: q.from.UnixMilli(), To: q.to.UnixMilli()}}
	if q.device != "" {
		r.Devices, r.Metrics = []string{q.device}, nil
	}
	if _, err := b.dir.Refresh(ctx); err != nil { // a querier refreshes in the background: no query pays for it
		return 0, err
	}
	var res query.Result
	rows := 0
	if q.latest {
		res, err = b.querier.Nearest(ctx, r, func(query.Last) error { rows = 1; return nil })
	} else {
		res, err = b.querier.Readings(ctx, r, func(query.Row) error { rows++; return nil })
	}
	if err == nil && (rows != b.load.sent(q) || !res.Complete) {
		err = fmt.Errorf("%d readings are in the answer, and %d were sent: %s", rows, b.load.sent(q), res.Incomplete)
	}
	s := res.Stats
	*cost = ReadCost{RUs: s.RequestUnits, Documents: s.Documents, Keys: s.Keys}
	return 1 + (s.Keys+readFanout-1)/readFanout, err
}

// sent returns how many readings a question asks for, where all of a stream are published as they are measured.
func (l *load) sent(q question) (n int) {
	if q.latest {
		return 1
	}
	for _, s := range l.streams {
		for i, end := s.before(q.from), s.before(q.to); i < end; i++ {
			turn := i % len(s.trucks)
			if s.tenants[turn] == q.tenant && (q.device == "" || s.trucks[turn].ID() == q.device) {
				n++
			}
		}
	}
	return n
}

// newQuerier makes what answers the questions that Binnacle is asked. It keeps no chunks that it has read unless cache.
func (b *ingester) newQuerier(a *account, cache bool) (err error) {
	cfg := query.Config{Reader: a.client.Chunks(), Heads: openBins{b.local.Worker}, Directory: b.dir,
		Catalog: a.client.Catalog(), Now: a.clock.now}
	if !cache {
		cfg.CacheBytes = -1
	}
	b.querier, err = query.New(cfg)
	return err
}

// openBins answers for the one ingester that there is.
type openBins struct{ *worker.Worker }

// Heads implements store.Heads.
func (h openBins) Heads(ctx context.Context, r store.HeadRequest) ([]store.PartitionHead, error) {
	return []store.PartitionHead{h.HeadRead(r)}, ctx.Err()
}

// Devices implements store.Heads.
func (h openBins) Devices(ctx context.Context, r store.ListRequest) ([]store.HeadDevice, error) {
	return h.Bins().ListDevices(r), ctx.Err()
}

// CatalogUpdates implements store.Heads.
func (h openBins) CatalogUpdates(ctx context.Context, tenant string) (store.HeadUpdates, error) {
	return h.Bins().CatalogPending(tenant), ctx.Err()
}

// keysFor returns the partition keys, or their first levels, under which a layout holds the answer to a
// question; an empty one selects all.
func (p pass) keysFor(q question) (keys [][]string) {
	switch {
	case q.device == "" && (p.layout == Device || p.layout == DeviceTime), p.layout == DeviceMinute:
		return [][]string{{}}
	case p.layout == DeviceTime:
		return [][]string{{q.device}}
	case q.device == "" && p.layout == KeyHash:
		for i := range keySuffixes {
			keys = append(keys, []string{q.tenant + "_" + strconv.Itoa(i)})
		}
		return keys
	case q.device == "" && len(p.layout.container().Key) > 1:
		return [][]string{{q.tenant}}
	}
	return [][]string{p.layout.keyOf(keyed{tenant: q.tenant, device: q.device, at: q.from})}
}
