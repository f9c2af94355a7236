package box_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"time"

	"binnacle/internal/erasure"
	"binnacle/internal/telemetry"
	"binnacle/query"

	"github.com/prometheus/common/model"
)

// changes counts the ingesters that have begun and ended, and reports whether each place has one. A member of a group
// may keep the place of another one.
func (b *box) changes() (n int, all bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all = !b.grouped
	for _, s := range b.slots {
		n += 2*s.births - len(s.lives)
		all = all && len(s.lives) == 1
	}
	return n, all
}

// watch returns a function that reports whether each place has had one ingester since, and the same: of two either may
// answer a list, and the one that lags does not know so.
func (b *box) watch() (isSame func() bool) {
	before, alone := b.changes()
	return func() bool {
		after, _ := b.changes()
		return alone && after == before
	}
}

// listsTimes reports whether lists have the right times also while ingesters begin and end.
func (b *box) listsTimes() bool { return b.keepsTimes() && b.profile.catalogEvery > 0 }

// listed is what a list must have of a device.
type listed struct {
	first, last int64
	metrics     []string
	tags        telemetry.Labels
}

// devices returns what a list of all devices must have, if there is only one right answer.
func (o *oracle) devices(x exact) (map[string]listed, bool) {
	all, ok := o.values(x)
	out := map[string]listed{}
	for s, points := range all {
		d, known := out[s.device]
		if first := points[0].time; !known || first < d.first {
			d.first = first
		}
		d.last = max(d.last, points[len(points)-1].time)
		d.metrics = append(d.metrics, s.metric)
		slices.Sort(d.metrics)
		if !o.b.receives {
			d.tags = o.tags[s.device].NonEmpty()
		}
		out[s.device] = d
	}
	return out, ok
}

// askLists asks which devices there are, and what they report.
func (q *querier) askLists(ctx context.Context, tenant string) {
	isSame := q.b.watch()
	names := q.listNames(ctx, tenant)
	x, devices, ok := q.listDevices(ctx, tenant)
	if !isSame() {
		return
	}
	if names != "" {
		q.b.fail("%s: lists of %s have %s", q.name, tenant, names)
	}
	if !ok {
		return
	}
	if want, ok := q.b.oracle.devices(x); ok {
		if wrong := compareDevices(devices, want, q.b.listsTimes()); wrong != "" {
			q.b.fail("%s: the list of devices of %s has %s", q.name, tenant, wrong)
		}
	}
}

// listDevices asks for all devices of a tenant, perhaps page by page, and reports whether the answer is complete.
func (q *querier) listDevices(ctx context.Context, tenant string) (x exact, all []query.Device, ok bool) {
	x = q.exactly(ctx, tenant, telemetry.Range{From: 0, To: math.MaxInt64})
	search := query.Search{Tenant: tenant, Limit: oneOf(q.rnd, 1, 2, 1000)}
	for {
		devices, list, err := q.q.Devices(x.after, search)
		for _, d := range devices {
			if q.b.receives {
				d.Tags = nil
			}
			all = append(all, d)
		}
		if err != nil || list.Incomplete != nil || !list.Truncated {
			return x, all, err == nil && list.Incomplete == nil
		}
		search.After = devices[len(devices)-1].Device
	}
}

// listNames asks which metrics a tenant has, and which values the tag of sites, and returns what is wrong with complete
// answers: "" for nothing.
func (q *querier) listNames(ctx context.Context, tenant string) (wrong string) {
	x := q.exactly(ctx, tenant, telemetry.Range{From: 0, To: math.MaxInt64})
	metrics, listed, err := q.q.Metrics(x.after, tenant, "", 1000)
	facets, n, counted, failed := q.q.Facets(x.after, query.Search{Tenant: tenant, Limit: 1000}, []string{siteTag})
	values := map[string]bool{}
	for _, label := range [][2]string{{model.MetricNameLabel, "metric "}, {siteTag, "site "}} {
		var named struct{ Data, Warnings []string }
		path := "/prometheus/api/v1/label/" + label[0] + "/values"
		// Some readings are of later than now.
		of := url.Values{"start": {"0"}, "end": {fmt.Sprint(time.Now().AddDate(0, 0, 1).Unix())}}
		if !q.get(x.after, tenant, path, of, x.ends, &named) || len(named.Warnings) > 0 {
			return ""
		}
		for _, name := range named.Data {
			values[label[1]+name] = true
		}
	}
	all, ok := q.b.oracle.devices(x)
	if !ok || err != nil || failed != nil || listed.Incomplete != nil || counted.Incomplete != nil {
		return ""
	}
	want, got := map[string]int{"": len(all)}, map[string]int{"": n}
	for _, d := range all {
		for _, name := range d.metrics {
			want["metric "+name]++
		}
		for _, tag := range d.tags {
			want["site "+tag.Value]++
		}
	}
	for _, m := range metrics {
		got["metric "+m.Metric] += m.Devices
	}
	for _, v := range facets[0].Values {
		if !q.b.receives {
			got["site "+v.Name] += v.Devices
		}
	}
	for name := range want {
		if name != "" && !values[name] {
			return fmt.Sprintf("%v in PromQL and lack %s (other lists have %v, and should %v)", values, name, got, want)
		}
	}
	if !maps.Equal(got, want) {
		return fmt.Sprintf("%v instead of %v", got, want)
	}
	return ""
}

// compareDevices returns what is wrong with a list of devices, "" for nothing. Unless they must be exact, times may be
// older ones: a head that does not answer, or passes its times to the catalog meanwhile, is not missed.
func compareDevices(devices []query.Device, want map[string]listed, isExact bool) string {
	for _, d := range devices {
		w := want[d.Device]
		if !slices.Equal(w.metrics, d.Metrics) || !maps.Equal(w.tags.Map(), d.Tags) || d.First < w.first || d.Last > w.last ||
			isExact && (d.First > w.first || d.Last < w.last) {
			return fmt.Sprintf("%+v instead of %+v", d, w)
		}
	}
	if len(devices) != len(want) {
		return fmt.Sprintf("%d devices instead of %d", len(devices), len(want))
	}
	return ""
}

// forgotten returns the devices of a tenant of which orders about all days have erased everything.
func (o *oracle) forgotten(tenant string) (gone []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, x := range o.orders {
		if x.tenant == tenant && (x.from > 0 || x.to < erasure.EveryDay) {
			return nil
		}
	}
	for _, device := range o.b.devicesOf(tenant) {
		isLeft := func(s series) bool {
			return slices.ContainsFunc(o.versions[s], func(x version) bool { return !o.isErased(s, x) })
		}
		if all := o.byDevice[device]; len(all) > 0 && !slices.ContainsFunc(all, isLeft) {
			gone = append(gone, device)
		}
	}
	return gone
}

// listsAge is for how long a querier takes what it knows of the catalog for new.
const listsAge = 40 * time.Second

// finalLists holds that lists are right at the end, with the first and last times of all devices.
func (b *box) finalLists(q *querier) {
	for _, tenant := range b.tenants {
		isDone := false
		q.start(func(ctx context.Context) {
			wrong := "no complete answer"
			for i := 0; wrong != "" && i < 10 && ctx.Err() == nil; i++ {
				if i > 0 {
					time.Sleep(listsAge)
				}
				x, devices, ok := q.listDevices(ctx, tenant)
				if !ok {
					continue
				}
				wrong = ""
				gone := b.oracle.forgotten(tenant)
				for _, d := range devices {
					if slices.Contains(gone, d.Device) {
						wrong = d.Device + ", and all of it is erased"
					}
				}
				if want, ok := b.oracle.devices(x); ok {
					wrong = cmp.Or(compareDevices(devices, want, b.keepsTimes()), q.listNames(ctx, tenant))
				}
			}
			if wrong != "" {
				b.fail("%s: at the end the list of devices of %s has %s", q.name, tenant, wrong)
			}
			isDone = true
			b.stir()
		})
		b.await("a list is right", func() bool { return isDone })
	}
}
