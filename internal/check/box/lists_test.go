package box_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"binnacle/internal/erasure"
	"binnacle/internal/telemetry"
	"binnacle/query"
)

// changes counts the ingesters that have begun and ended, and reports whether each place has one.
func (b *box) changes() (n int, all bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all = true
	for _, s := range b.slots {
		n += 2*s.births - len(s.lives)
		all = all && len(s.lives) == 1
	}
	return n, all
}

// listed is what a list must have of a device.
type listed struct {
	first, last int64
	metrics     []string
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
		out[s.device] = d
	}
	return out, ok
}

// askLists asks which devices there are, and what they report. Of two ingesters in one place either may answer, and the
// one that lags does not know so: each must have a place of its own, and none may begin meanwhile.
func (q *querier) askLists(ctx context.Context, tenant string) {
	before, alone := q.b.changes()
	x, devices, ok := q.listDevices(ctx, tenant)
	if after, _ := q.b.changes(); !ok || !alone || after != before {
		return
	}
	if want, ok := q.b.oracle.devices(x); ok {
		if wrong := compareDevices(devices, want, q.b.keepsTimes() && q.b.profile.catalogEvery > 0); wrong != "" {
			q.b.fail("%s: the list of devices of %s has %s", q.name, tenant, wrong)
		}
	}
}

// listDevices asks for all devices of a tenant, and reports whether the answer is complete.
func (q *querier) listDevices(ctx context.Context, tenant string) (exact, []query.Device, bool) {
	x := q.exactly(ctx, tenant, telemetry.Range{From: 0, To: math.MaxInt64})
	devices, list, err := q.q.Devices(x.after, query.Search{Tenant: tenant, Limit: 1000})
	return x, devices, err == nil && !list.Truncated && list.Incomplete == nil
}

// compareDevices returns what is wrong with a list of devices, "" for nothing. Unless they must be exact, times may be
// older ones: a head that does not answer, or passes its times to the catalog meanwhile, is not missed.
func compareDevices(devices []query.Device, want map[string]listed, isExact bool) string {
	for _, d := range devices {
		w := want[d.Device]
		if !slices.Equal(w.metrics, d.Metrics) || d.First < w.first || d.Last > w.last ||
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
					wrong = compareDevices(devices, want, b.keepsTimes())
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
