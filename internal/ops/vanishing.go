package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/catalog/catalogcache"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/internal/text/report"
	"binnacle/sharding"
)

const (
	// maxCounted is how many chunks of days that go are counted: what is stored of years is not read for that.
	maxCounted = 2000
	// countFor is for how long they are counted.
	countFor = 20 * time.Second
)

var errCounted = errors.New("counted")

// vanishing is what a change of retention hides: days that are shown now, and not when it is in force.
type vanishing struct {
	now, then   tenant.Tenant
	begins      int64           // ms since 1970 UTC: when the change comes into force
	devices     map[string]bool // devices that have readings of such days
	first, last telemetry.Day   // the first and last such day
	containers  []string
	chunks      int
	bytes       int64
	isPart      bool // there are more chunks
}

func (o tenantOperator) vanishing(ctx context.Context, name string, at time.Time, changes ...tenant.Change,
) (v vanishing, err error) {
	v = vanishing{begins: at.Add(tenant.RetentionNotice).UnixMilli(), devices: map[string]bool{}}
	if v.now, v.then, err = o.tenants.Preview(ctx, name, changes...); err != nil {
		return v, err
	}
	v.now, v.then = v.now.At(at), v.then.At(at.Add(2*tenant.RetentionNotice)) // all of the change is in force then
	if o.catalog == nil || o.chunks == nil {
		return v, nil
	}
	held, err := catalogcache.New(catalogcache.Config{Catalog: o.catalog}).Get(ctx, name, time.Now())
	if err != nil {
		return v, err
	}
	held.Use(func(x *catalog.Index) {
		x.Select(nil, 0, x.Blocks()).Each(func(e catalog.Entry) bool {
			from := max(v.now.FirstVisible(e.Device, v.begins), telemetry.DayOf(e.First))
			behind := min(v.then.FirstVisible(e.Device, v.begins), telemetry.DayOf(e.Last)+1)
			if e.First <= e.Last && from < behind {
				v.note(strings.Clone(e.Device), from, behind-1)
			}
			return true
		})
	})
	snapshot, err := o.directory().Refresh(ctx)
	if err != nil {
		return v, err
	}
	v.containers = snapshot.ContainersOf(name, telemetry.Range{From: math.MinInt64, To: v.begins})
	slices.SortFunc(v.containers, func(a, b string) int { return cmp.Compare(spanOf(a).First, spanOf(b).First) })
	return v, v.count(ctx, o.chunks)
}

func spanOf(container string) sharding.Span {
	_, span, _ := sharding.ParseContainer(container)
	return span
}

func (v *vanishing) note(device string, first, last telemetry.Day) {
	if len(v.devices) == 0 || first < v.first {
		v.first = first
	}
	v.last = max(v.last, last)
	v.devices[device] = true
}

// count counts the chunks of the days, from the first one on. The catalog learns the times of a device late.
func (v *vanishing) count(ctx context.Context, chunks store.HeaderReader) error {
	ctx, cancel := context.WithTimeout(ctx, countFor)
	defer cancel()
	var with []string
	for _, container := range v.containers {
		before := v.chunks
		for day := spanOf(container).First; day < spanOf(container).End() && v.then.HidesAny(day, v.begins); day++ {
			scan := store.HeaderScan{Container: container, Day: day, Tenant: v.now.Name, Whole: true}
			_, err := chunks.Headers(ctx, scan, func(doc []byte) error { return v.countChunk(day, doc) })
			if errors.Is(err, errCounted) || errors.Is(ctx.Err(), context.DeadlineExceeded) {
				v.isPart = true
				return nil
			}
			if err != nil && !errors.Is(err, store.ErrNoContainer) {
				return err
			}
		}
		if v.chunks > before {
			with = append(with, container)
		}
	}
	v.containers = with
	return nil
}

func (v *vanishing) countChunk(day telemetry.Day, doc []byte) error {
	var h struct{ TenantShard, Device string }
	if err := json.Unmarshal(doc, &h); err != nil {
		return err
	}
	owner, _, _ := strings.Cut(h.TenantShard, "~")
	if owner != v.now.Name || v.now.Hides(h.Device, day, v.begins) || !v.then.Hides(h.Device, day, v.begins) {
		return nil
	}
	if v.chunks == maxCounted {
		return errCounted
	}
	v.chunks++
	v.bytes += int64(len(doc))
	v.note(h.Device, day, day)
	return nil
}

func (v *vanishing) sentences() []string {
	if len(v.devices) == 0 {
		return []string{"No device has stored readings of such days."}
	}
	devices := "1 device has"
	if n := len(v.devices); n > 1 {
		devices = report.Thousands(n) + " devices have"
	}
	s := fmt.Sprintf("%s readings of such days, from %s to %s", devices, dayText(v.first), dayText(v.last))
	switch n := len(v.containers); {
	case v.isPart:
		s += fmt.Sprintf(": more than %s chunks of %s", report.Thousands(v.chunks), megabytes(v.bytes))
	case n == 1:
		s += fmt.Sprintf(", in %s: %s chunks of %s", v.containers[0], report.Thousands(v.chunks), megabytes(v.bytes))
	case n > 1:
		s += fmt.Sprintf(", in %d containers from %s to %s: %s chunks of %s", n, v.containers[0], v.containers[n-1],
			report.Thousands(v.chunks), megabytes(v.bytes))
	}
	return []string{s + "."}
}
