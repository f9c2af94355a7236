package query

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/query/merge"
	"binnacle/query/read"
	"binnacle/query/read/piece"
)

// Device is one device of a tenant as the catalog has it, joined with what the heads hold of it.
type Device struct {
	Device  string            `json:"device"`
	Tags    map[string]string `json:"tags"`
	Metrics []string          `json:"metrics"` // sorted
	First   int64             `json:"first"`   // least and greatest event time seen, ms since 1970 UTC
	Last    int64             `json:"last"`
}

// Metric is one metric of a tenant over all its devices.
type Metric struct {
	Metric  string   `json:"metric"`
	Types   []string `json:"types"`   // names of the kinds of values seen, sorted
	Units   []string `json:"units"`   // sorted
	Devices int      `json:"devices"` // devices with the metric
}

// Search selects devices of a tenant.
type Search struct {
	Tenant   string
	Prefix   string            // prefix of the id
	Matchers []catalog.Matcher // all must hold
	After    string            // the id after which a list begins
	Limit    int
}

// matchers returns all conditions. Once the context has ended they hold for nothing: a regular expression may take long
// for each of many names. Callers look at the context behind them.
func (s *Search) matchers(ctx context.Context) []catalog.Matcher {
	out := slices.Clone(s.Matchers)
	for i := range out {
		match := out[i].Match
		out[i].Match = func(name string) bool { return ctx.Err() == nil && match(name) }
	}
	if s.Prefix == "" {
		return out
	}
	return append(out, catalog.Matcher{Of: catalog.OfDevice,
		Match: func(id string) bool { return strings.HasPrefix(id, s.Prefix) }})
}

// Devices lists the first devices that a search finds, by id. Errors are ErrUnavailable, ErrBusy and the context's.
func (q *Querier) Devices(ctx context.Context, s Search) (out []Device, list List, err error) {
	var entries []catalog.Entry
	err = q.admitAndObserve(ctx, "devices", s.Tenant, func(ctx context.Context, _ *store.Meter) (err error) {
		entries, list, err = q.entries(ctx, s)
		return err
	})
	for i := range entries {
		e, tags := &entries[i], map[string]string{}
		maps.Copy(tags, e.TagLabels().Map())
		out = append(out, Device{e.Device, tags, e.MetricNames(), e.First, e.Last})
	}
	return out, list, err
}

// Metrics lists the first metrics with a prefix, by name. It fails as Devices does.
func (q *Querier) Metrics(ctx context.Context, tenant, prefix string, limit int) (out []Metric, list List, err error) {
	err = q.admitAndObserve(ctx, "metrics", tenant, func(ctx context.Context, _ *store.Meter) error {
		k, err := q.listed(ctx, tenant)
		if err == nil {
			out, list.Incomplete = k.Metrics(nil), k.Gap()
		}
		return err
	})
	out = slices.DeleteFunc(out, func(m Metric) bool { return !strings.HasPrefix(m.Metric, prefix) })
	if len(out) > limit {
		out, list.Truncated = out[:limit], true
	}
	return out, list, err
}

// List describes a list.
type List struct {
	Truncated  bool     // there is more
	Incomplete []string // why something may be missing
}

// Await waits until heads have read the records that ctx asks for, if any. Errors are a *NotYetError and the
// context's.
func (q *Querier) Await(ctx context.Context, tenant string) error { return q.reader.Await(ctx, tenant) }

// listed returns a tenant's devices once heads have read what the context asks for.
func (q *Querier) listed(ctx context.Context, tenant string) (*Known, error) {
	if err := q.Await(ctx, tenant); err != nil {
		return nil, err
	}
	return q.Known(ctx, tenant)
}

// entries returns the devices of a search, with the times that heads have.
func (q *Querier) entries(ctx context.Context, s Search) (out []catalog.Entry, list List, err error) {
	k, err := q.listed(ctx, s.Tenant)
	if err != nil {
		return nil, list, err
	}
	list.Incomplete = k.Gap()
	out = k.after(s.matchers(ctx), s.After, min(s.Limit, math.MaxInt32)+1)
	if len(out) > s.Limit {
		out, list.Truncated = out[:s.Limit], true
	}
	if len(out) == 0 {
		return nil, list, ctx.Err()
	}
	ids := make([]string, len(out))
	for i := range out {
		ids[i] = out[i].Device
	}
	held, err := q.cfg.Heads.Devices(ctx, store.ListRequest{Tenant: s.Tenant, Devices: ids})
	if err != nil && list.Incomplete == nil {
		list.Incomplete = []string{"times of devices may be older ones: not all ingesters answer and are caught up"}
	}
	for _, h := range held {
		i, found := slices.BinarySearchFunc(out, h.Device, func(e catalog.Entry, id string) int {
			return strings.Compare(e.Device, id)
		})
		if found {
			out[i].Span(h.First, h.Last)
		}
	}
	tenant, _ := q.cfg.Directory.Snapshot().Tenant(s.Tenant)
	for i := range out {
		hideTimes(tenant, &out[i], q.cfg.Now().UnixMilli())
	}
	return out, list, ctx.Err()
}

// hideTimes starts an entry at its device's first visible day (rule X1); without readings since then it gets no
// times.
func hideTimes(t tenant.Tenant, e *catalog.Entry, now int64) {
	if !t.HidesSome() || e.First > e.Last {
		return
	}
	if e.First = max(e.First, t.FirstVisible(e.Device, now).Start()); e.First > e.Last {
		e.First, e.Last = 1, 0
	}
}

// Metrics returns the metrics of the devices that all matchers select, by name.
func (k *Known) Metrics(matchers []catalog.Matcher) (out []Metric) {
	k.selected(matchers, func(stored, updates *catalog.Set) { out = metricsOf(stored, updates) })
	return out
}

// metricsOf returns the metrics of two sets without a common device, by name.
func metricsOf(stored, updates *catalog.Set) (out []Metric) {
	all := append(stored.Metrics(), updates.Metrics()...)
	slices.SortStableFunc(all, func(a, b catalog.MetricCount) int { return strings.Compare(a.Name, b.Name) })
	for _, m := range all {
		if n := len(out); n > 0 && out[n-1].Metric == m.Name {
			out[n-1].Types = distinct(append(out[n-1].Types, m.Types...))
			out[n-1].Units = distinct(append(out[n-1].Units, m.Units...))
			out[n-1].Devices += m.Devices
			continue
		}
		out = append(out, Metric{m.Name, m.Types, append([]string{}, m.Units...), m.Devices})
	}
	return out
}

// Facet is the values that a tag has among some devices.
type Facet struct {
	Tag    string          `json:"tag"`
	Values []catalog.Count `json:"values"` // the value of the most devices first
	Others int             `json:"others"` // how many more values there are
}

// Facets counts the devices of a search, and by the values of tags: for each tag the first values, as many as the
// search's limit. Without tags it counts all tags that any of the devices has. It fails as Devices does.
func (q *Querier) Facets(ctx context.Context, s Search, tags []string) (
	out []Facet, devices int, list List, err error) {
	err = q.admitAndObserve(ctx, "facets", s.Tenant, func(ctx context.Context, _ *store.Meter) error {
		k, err := q.listed(ctx, s.Tenant)
		if err != nil {
			return err
		}
		list.Incomplete = k.Gap()
		k.selected(s.matchers(ctx), func(stored, updates *catalog.Set) {
			devices = stored.Len() + updates.Len()
			if tags == nil {
				for _, c := range stored.Tags(updates) {
					tags = append(tags, c.Name)
				}
			}
			for _, tag := range tags {
				out = append(out, Found{stored, updates}.facet(tag, s.Limit))
			}
		})
		return ctx.Err()
	})
	return out, devices, list, err
}

func (f Found) facet(tag string, limit int) Facet {
	first, _ := f.stored.TagValues(tag, math.MaxInt)
	second, _ := f.updates.TagValues(tag, math.MaxInt)
	byName := make(map[string]int, len(first))
	for i, c := range first {
		byName[c.Name] = i
	}
	for _, c := range second {
		if i, ok := byName[c.Name]; ok {
			first[i].Devices += c.Devices
		} else {
			first = append(first, c)
		}
	}
	slices.SortFunc(first, func(a, b catalog.Count) int {
		return cmp.Or(b.Devices-a.Devices, strings.Compare(a.Name, b.Name))
	})
	n := min(limit, len(first))
	return Facet{tag, first[:n], len(first) - n}
}

// Cardinality is how many devices, series, metrics, tags and labels a tenant has.
type Cardinality struct {
	Tenant  string `json:"tenant"`
	Devices int    `json:"devices"`
	// Series counts pairs of a device and a metric. The labels of readings make more of one; only reading them says how
	// many.
	Series     int                   `json:"series"`
	Metrics    []Metric              `json:"metrics"` // the metric of the most devices first
	Tags       []catalog.NameCount   `json:"tags"`    // the tag with the most values first
	Labels     []catalog.NameCount   `json:"labels"`  // the same, of readings
	Largest    []catalog.DeviceCount `json:"largest"`
	Names      Names                 `json:"names"` // how many there are in all
	Incomplete []string              `json:"incomplete,omitempty"`
}

// Names counts names.
type Names struct {
	Metrics int `json:"metrics"`
	Tags    int `json:"tags"`
	Labels  int `json:"labels"`
}

// Cardinality returns the largest metrics, tags, labels and devices, up to the limit. It fails as Devices does.
func (q *Querier) Cardinality(ctx context.Context, s Search) (out Cardinality, err error) {
	out.Tenant = s.Tenant
	err = q.admitAndObserve(ctx, "cardinality", s.Tenant, func(ctx context.Context, _ *store.Meter) error {
		k, err := q.listed(ctx, s.Tenant)
		if err != nil {
			return err
		}
		out.Incomplete = k.Gap()
		k.selected(s.matchers(ctx), func(stored, updates *catalog.Set) {
			out.Metrics, out.Devices = metricsOf(stored, updates), stored.Len()+updates.Len()
			out.Tags, out.Labels = stored.Tags(updates), stored.Labels(updates)
			out.Largest = append(stored.Largest(s.Limit), updates.Largest(s.Limit)...)
		})
		return ctx.Err()
	})
	for _, m := range out.Metrics {
		out.Series += m.Devices
	}
	out.Names = Names{len(out.Metrics), len(out.Tags), len(out.Labels)}
	slices.SortStableFunc(out.Metrics, func(a, b Metric) int { return b.Devices - a.Devices })
	out.Metrics = out.Metrics[:min(s.Limit, len(out.Metrics))]
	slices.SortFunc(out.Largest, catalog.DeviceCount.Compare)
	out.Largest = out.Largest[:min(s.Limit, len(out.Largest))]
	for _, list := range []*[]catalog.NameCount{&out.Tags, &out.Labels} {
		slices.SortStableFunc(*list, func(a, b catalog.NameCount) int {
			return cmp.Or(b.Values-a.Values, b.Devices-a.Devices)
		})
		*list = (*list)[:min(s.Limit, len(*list))]
	}
	return out, err
}

// AttendanceRequest asks in which steps of a range each of a tenant's devices has readings.
type AttendanceRequest struct {
	Tenant string
	Prefix string // prefix of device ids
	Range  telemetry.Range
	Step   time.Duration
	Limit  int // devices, the first ones by id
}

// Attendee is a device.
type Attendee struct {
	Device  string
	Present []bool // one for each step
	Known   int64  // its first reading, ms; -1 for a device that the catalog lacks
}

// Attendance returns the devices that have readings in the range or are in the catalog. It fails as Readings does.
func (q *Querier) Attendance(ctx context.Context, r AttendanceRequest) (out []Attendee, res Result, err error) {
	err = q.admitAndObserve(ctx, "attendance", r.Tenant, func(ctx context.Context, spent *store.Meter) error {
		entries, list, err := q.entries(ctx, Search{Tenant: r.Tenant, Prefix: r.Prefix, Limit: r.Limit})
		if err != nil {
			return err
		}
		known, now := map[string]int64{}, q.cfg.Now().UnixMilli()
		tenant, _ := q.cfg.Directory.Snapshot().Tenant(r.Tenant)
		for _, e := range entries {
			if known[e.Device] = e.First; e.First > e.Last { // nothing is kept: nothing is known of hidden days
				known[e.Device] = tenant.FirstVisible(e.Device, now).Start()
			}
		}
		res.Truncated = list.Truncated
		var devices []string // nil, for all, unless the catalog says which they are
		if r.Prefix != "" || res.Truncated {
			devices = slices.AppendSeq(make([]string, 0, len(known)), maps.Keys(known)) // none is not all
			slices.Sort(devices)
		}
		reading := q.newQuery(read.Request{
			Request: piece.Request{Tenant: r.Tenant, Devices: devices, Range: r.Range}})
		defer reading.Close()
		sink := merge.NewAttendance(merge.Config{Range: reading.Range(), Memory: reading.Memory()}, r.Step.Milliseconds())
		if err = reading.Run(ctx, sink); err == nil {
			for id := range known {
				if _, err = sink.Device(id); err != nil {
					break
				}
			}
		}
		err = reading.Explain(err)
		res.Incomplete = append(list.Incomplete, reading.Incomplete()...)
		res.Complete = err == nil && res.Incomplete == nil
		res.Stats = reading.Stats()
		res.Stats.RequestUnits = spent.Read().RUs
		q.metrics.answered(res, reading.Memory().Peak())
		for _, id := range slices.Sorted(maps.Keys(sink.Devices())) {
			since, listed := known[id]
			if !listed {
				since = -1
			}
			out = append(out, Attendee{id, sink.Devices()[id], since})
		}
		return err
	})
	return out, res, err
}
