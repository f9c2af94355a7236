package query

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/catalog/catalogcache"
	"binnacle/internal/telemetry"
	"binnacle/internal/text/nearest"
	"binnacle/query/read/piece"
)

// Known is a tenant's devices for one answer: the catalog's, and updates of heads beyond it. That heads do not answer
// is no error: Gap says that devices may be missing.
type Known struct {
	querier *Querier
	tenant  string
	stored  *catalogcache.Copy
	// updates is the catalog entries of devices with updates of heads.
	updates *catalog.Index
	// of is the versions of the catalog and of the updates that the entries were merged of.
	of  [2]uint64
	gap error

	mu     sync.Mutex // guards below
	sum    TagsSum
	summed bool
}

// knownKey is the key of what was known of a tenant last, in the room.
type knownKey struct{ tenant string }

// lastKnown returns what was known of a tenant last, nil for nothing.
func (q *Querier) lastKnown(tenant string) *Known {
	k, _ := q.kept.Get(knownKey{tenant}).(*Known)
	return k
}

// Known asks the heads for updates, then reads the catalog: as it was at most Config.TagsAge ago, or now if heads have
// updates that they had not when it was read. Errors are ErrUnavailable and the context's.
func (q *Querier) Known(ctx context.Context, tenant string) (*Known, error) {
	began := q.cfg.Now()
	updates, gap := q.cfg.Heads.CatalogUpdates(ctx, tenant)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	since := began.Add(-q.cfg.TagsAge)
	if v, ok := q.versions.Load(tenant); !ok || v != updates.Version || gap != nil {
		since = began
	}
	held, err := q.devices.Get(ctx, tenant, since)
	if err != nil {
		return nil, piece.Unavailable(ctx, "read the catalog", err)
	}
	of := [2]uint64{held.Version(), updates.Version}
	if gap == nil {
		q.versions.Store(tenant, updates.Version)
		if last := q.lastKnown(tenant); last != nil && last.stored == held && last.of == of {
			return last, nil
		}
	} else {
		q.silent.Do(func() { q.cfg.Logger.Warn("new devices of heads not read", "error", gap) })
	}
	k := &Known{querier: q, tenant: tenant, stored: held, of: of, gap: gap, updates: catalog.NewIndex()}
	held.Use(func(x *catalog.Index) {
		merged := updates.Devices
		for _, n := range updates.Devices {
			for i := range n.Tags { // of an earlier release: a head's are newer than the catalog's
				n.Tags[i].Updated = x.Updated() + 1
			}
			if e, ok := x.Entry(n.Device); ok {
				merged = append(merged, e)
			}
		}
		k.updates.Add(catalog.Page{Entries: merged})
	})
	if gap == nil {
		q.kept.Put(knownKey{tenant}, k, k.updates.Bytes())
	}
	return k, nil
}

// TagsSum is a sum of tags. Only this process has the same one.
type TagsSum [2]uint64

var tagSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// TagsSum returns a sum of the tags of all devices. It is the same twice only if tags are; ok is false if devices may
// be missing, or the catalog has changed.
func (k *Known) TagsSum() (sum TagsSum, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.gap != nil || k.stored.Version() != k.of[0] {
		return sum, false
	}
	if k.summed {
		return k.sum, true
	}
	add := func(e catalog.Entry) bool {
		if tags := e.TagLabels(); len(tags) > 0 {
			text := fmt.Sprintf("%q %q", e.Device, tags)
			for i := range sum {
				sum[i] += maphash.String(tagSeeds[i], text)
			}
		}
		return true
	}
	k.selected(nil, func(stored, updates *catalog.Set) { Found{stored, updates}.All(add) })
	if k.stored.Version() != k.of[0] {
		return sum, false
	}
	k.sum, k.summed = sum, true
	return sum, true
}

// Gap returns why devices may be missing, nil if none are: every device with a reading that was acknowledged before
// Known was called is known.
func (k *Known) Gap() []string {
	if k.gap == nil {
		return nil
	}
	return []string{"new devices may be missing: not all ingesters answer and are caught up"}
}

// Changed reports whether heads have updates of the tenant's devices since Known was called, or do not answer.
func (k *Known) Changed(ctx context.Context) bool {
	updates, err := k.querier.cfg.Heads.CatalogUpdates(ctx, k.tenant)
	return err != nil || k.gap != nil || updates.Version != k.of[1]
}

// Entry returns the catalog entry of a device.
func (k *Known) Entry(device string) (e catalog.Entry, ok bool) {
	if e, ok = k.updates.Entry(device); !ok {
		k.stored.Use(func(x *catalog.Index) { e, ok = x.Entry(device) })
	}
	return e, ok
}

// Len returns how many devices are known.
func (k *Known) Len() int { return k.Count(nil) }

// Count returns how many devices all matchers select.
func (k *Known) Count(matchers []catalog.Matcher) (n int) {
	k.selected(matchers, func(stored, updates *catalog.Set) { n = stored.Len() + updates.Len() })
	return n
}

// Select returns the devices that all matchers select, in order.
func (k *Known) Select(matchers []catalog.Matcher) (devices []string) {
	k.selected(matchers, func(stored, updates *catalog.Set) { devices = append(stored.Devices(), updates.Devices()...) })
	slices.Sort(devices)
	return devices
}

// selected calls use with the devices that all matchers select, once for the catalog's and once for devices with
// updates: no device is in both.
func (k *Known) selected(matchers []catalog.Matcher, use func(stored, updates *catalog.Set)) {
	k.stored.Use(func(x *catalog.Index) {
		parts := min(runtime.GOMAXPROCS(0), max(1, x.Blocks()/16))
		sets := make([]*catalog.Set, parts)
		asked := x.Compile(matchers)
		var looked sync.WaitGroup
		for i := range parts {
			looked.Go(func() { sets[i] = asked.Select(x.Blocks()*i/parts, x.Blocks()*(i+1)/parts) })
		}
		looked.Wait()
		for _, s := range sets[1:] {
			sets[0].Union(s)
		}
		sets[0].Without(k.updates)
		use(sets[0], k.updates.Select(matchers, 0, k.updates.Blocks()))
	})
}

// after returns the first limit devices, by id, behind one that all matchers select.
func (k *Known) after(matchers []catalog.Matcher, device string, limit int) (out []catalog.Entry) {
	k.selected(matchers, func(stored, updates *catalog.Set) {
		out = append(stored.After(device, limit), updates.After(device, limit)...)
	})
	slices.SortFunc(out, func(a, b catalog.Entry) int { return strings.Compare(a.Device, b.Device) })
	return out[:min(limit, len(out))]
}

// Found is the devices that Find has found. It is valid while Find runs.
type Found struct{ stored, updates *catalog.Set }

// timesLag is how old the catalog's last time of a reporting device may be.
const timesLag = 8 * 24 * time.Hour

// Reporting selects devices by matchers and metrics that may have reported in a range.
type Reporting struct {
	Matchers []catalog.Matcher // all must hold
	Metrics  func([]catalog.Metric) bool
	Range    telemetry.Range
}

// Find calls use with the selected devices.
func (k *Known) Find(r Reporting, use func(Found)) {
	k.selected(r.Matchers, func(stored, updates *catalog.Set) {
		stored.During(r.Range.From-timesLag.Milliseconds(), r.Range.To)
		stored.KeepMetrics(r.Metrics)
		updates.KeepMetrics(r.Metrics)
		use(Found{stored, updates})
	})
}

// Len returns how many there are.
func (f Found) Len() int { return f.stored.Len() + f.updates.Len() }

// Devices returns their ids, in order.
func (f Found) Devices() []string {
	out := append(f.stored.Devices(), f.updates.Devices()...)
	slices.Sort(out)
	return out
}

// Shapes returns their metrics, and the labels of their readings, each combination once or twice.
func (f Found) Shapes() []catalog.Shape { return append(f.stored.Shapes(), f.updates.Shapes()...) }

// All calls visit with each of them, in no order, until it returns false.
func (f Found) All(visit func(catalog.Entry) bool) {
	more := true
	each := func(e catalog.Entry) bool {
		more = more && visit(e)
		return more
	}
	f.stored.Each(each)
	f.updates.Each(each)
}

// TagNames returns the names of their tags, in order.
func (f Found) TagNames() (out []string) {
	for _, c := range f.stored.Tags(f.updates) {
		out = append(out, c.Name)
	}
	return out
}

// TagValues returns the values of a tag, in order.
func (f Found) TagValues(tag string) (out []string) {
	for _, c := range f.facet(tag, math.MaxInt).Values {
		out = append(out, c.Name)
	}
	slices.Sort(out)
	return out
}

// Tags has the tags of a tenant's devices for one answer: of a device twice the same. They are as Known has them. It is
// owned by one goroutine.
type Tags struct {
	querier   *Querier
	tenant    string
	known     *Known
	own       map[string]telemetry.Labels // by device asked for
	refreshes int                         // how often heads were asked again
}

// maxRefreshes is how often heads are asked again, for one answer, because a device is not known.
const maxRefreshes = 8

// Tags returns the tags for an answer that begins now.
func (q *Querier) Tags(tenant string) *Tags {
	return &Tags{querier: q, tenant: tenant, own: make(map[string]telemetry.Labels)}
}

// Known returns the devices as the whole answer knows them. It fails as Querier.Known does.
func (t *Tags) Known(ctx context.Context) (*Known, error) {
	if t.known == nil {
		k, err := t.querier.Known(ctx, t.tenant)
		if err != nil {
			return nil, err
		}
		t.known = k
	}
	return t.known, nil
}

// Refresh reads the catalog entries of devices again; tags that were asked for stay as they were. It fails like
// Known.
func (t *Tags) Refresh(ctx context.Context) (*Known, error) {
	t.known = nil
	return t.Known(ctx)
}

// Of returns the tags of a device. It fails as Known does.
func (t *Tags) Of(ctx context.Context, device string) (telemetry.Labels, error) {
	if tags, ok := t.own[device]; ok {
		return tags, nil
	}
	k, err := t.Known(ctx)
	if err != nil {
		return nil, err
	}
	e, ok := k.Entry(device)
	if !ok && t.refreshes < maxRefreshes && k.Changed(ctx) { // it has come since
		t.refreshes++
		if k, err = t.Refresh(ctx); err != nil {
			return nil, err
		}
		e, _ = k.Entry(device)
	}
	t.own[device] = e.TagLabels()
	return t.own[device], nil
}

// Wanted is the names that a question has.
type Wanted struct {
	Metrics, Devices []string
	Labels           []string // tags, or labels of readings
	Numbers          bool     // texts are no answer
}

// Hints returns why an answer to a request is empty, where the catalog has never seen a name of it. It asks nobody
// while all names are among those that were known last: a name that was seen once stays seen. It fails as Known does.
func (q *Querier) Hints(ctx context.Context, r Request) ([]string, error) {
	if hints := q.noTenant(r.Tenant); hints != nil || r.Metrics == nil && r.Devices == nil {
		return hints, nil
	}
	of := Wanted{Metrics: r.Metrics, Devices: r.Devices}
	if last := q.lastKnown(r.Tenant); last != nil && last.Hints(of) == nil {
		return nil, nil
	}
	k, err := q.Known(ctx, r.Tenant)
	if err != nil {
		return nil, err
	}
	return k.Hints(of), nil
}

// noTenant returns the hint that a tenant is not known, nil if it is: there are no readings under a misspelt name.
func (q *Querier) noTenant(name string) []string {
	if _, known := q.Tenant(name); known {
		return nil
	}
	return []string{fmt.Sprintf("no tenant %q: its first reading or an operator registers it", name)}
}

// maxHints is how many hints an answer has.
const maxHints = 10

// maxSuggested is how many devices a misspelt one is compared with.
const maxSuggested = 50_000

// HasAny reports whether the catalog may have one of the metrics and one of the devices. No names are any.
func (k *Known) HasAny(of Wanted) bool {
	var matchers []catalog.Matcher
	for what, names := range map[catalog.Property][]string{catalog.OfMetric: of.Metrics, catalog.OfDevice: of.Devices} {
		if names != nil {
			matchers = append(matchers, catalog.Matcher{Of: what, Values: names,
				Match: func(s string) bool { return slices.Contains(names, s) }})
		}
	}
	return len(matchers) == 0 || k.Count(matchers) > 0
}

// Hints returns a sentence for each name that the catalog has never seen, with the nearest one that it has, and for
// each metric that has only texts, if texts are no answer: for the first names, as each is compared with all.
func (k *Known) Hints(of Wanted) (hints []string) {
	if hints = k.querier.noTenant(k.tenant); hints != nil {
		return hints
	}
	say := func(what, name string, all func() []string) {
		if len(hints) == maxHints {
			return
		}
		hint := fmt.Sprintf("no %s %.200q", what, name)
		if len(name) <= telemetry.MaxNameRunes {
			if near := nearest.Name(name, all()); near != "" {
				hint += fmt.Sprintf("; there is %q", near)
			}
		}
		hints = append(hints, hint)
	}
	var metrics []Metric
	if of.Metrics != nil {
		metrics = k.Metrics(nil)
	}
	names := make([]string, len(metrics))
	for i := range metrics {
		names[i] = metrics[i].Metric
	}
	for _, name := range of.Metrics {
		i, found := slices.BinarySearch(names, name)
		switch {
		case !found:
			say("metric", name, func() []string { return names })
		case len(hints) < maxHints && of.Numbers && slices.Equal(metrics[i].Types, []string{telemetry.Text.String()}):
			hints = append(hints, fmt.Sprintf("metric %q has only texts: ask /api/v1/latest or /api/v1/readings", name))
		}
	}
	devices := sync.OnceValue(func() (all []string) {
		if k.Len() <= maxSuggested {
			all = k.Select(nil)
		}
		return all
	})
	for _, id := range of.Devices {
		if _, found := k.Entry(id); !found {
			say("device", id, devices)
		}
	}
	if len(of.Labels) == 0 {
		return hints
	}
	if labels, all := k.labels(); all {
		for _, name := range of.Labels {
			if !slices.Contains(labels, name) {
				say("tag or label", name, func() []string { return labels })
			}
		}
	}
	return hints
}

// labels returns the names of all tags and labels of readings, and whether these are all.
func (k *Known) labels() (names []string, all bool) {
	k.selected(nil, func(stored, updates *catalog.Set) {
		f := Found{stored, updates}
		names, all = f.TagNames(), true
		for _, s := range f.Shapes() {
			all = all && s.Exact && !s.Partial
			for _, l := range s.Labels {
				names = append(names, l.Name)
			}
		}
	})
	slices.Sort(names)
	return slices.Compact(names), all
}
