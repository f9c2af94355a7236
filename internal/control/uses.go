package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"binnacle/internal/telemetry"
)

// KindUses is the kind of documents that say for which metrics queries have asked lanes: one for each tenant.
const KindUses = "uses"

// Use is what queries have asked of a metric's lanes.
type Use struct {
	Queries int64   `json:"queries"`
	Saved   float64 `json:"saved"` // request units that chunks in their place would have cost, as far as was known
}

// Plus is both.
func (u Use) Plus(v Use) Use { return Use{u.Queries + v.Queries, u.Saved + v.Saved} }

// Bounds of a document of uses: days, today included, and metrics of each, those that were asked for most.
const (
	DaysOfUses    = 8
	metricsOfUses = 100
)

// usesBody is a document of uses: docs/format/control.md.
type usesBody struct {
	Days []usesOfDay `json:"days"` // in their order
}

type usesOfDay struct {
	Day     telemetry.Day  `json:"day"`
	Metrics map[string]Use `json:"metrics"`
}

// usesAttempts is how often a document is written anew that others have written meanwhile.
const usesAttempts = 5

// AddUses adds what queries of a day have asked for to a tenant's document.
func AddUses(ctx context.Context, docs Documents, tenant string, day telemetry.Day, some map[string]Use) error {
	var err error
	for range usesAttempts {
		if err = addUses(ctx, docs, tenant, day, some); !errors.Is(err, ErrChanged) && !errors.Is(err, ErrExists) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("uses of tenant %s: %w", tenant, err)
	}
	return nil
}

func addUses(ctx context.Context, docs Documents, tenant string, day telemetry.Day, some map[string]Use) error {
	old, found, err := docs.Read(ctx, KindUses, tenant)
	if err != nil {
		return err
	}
	var body usesBody
	if found {
		if err := decode(old, &body); err != nil {
			return err
		}
	}
	body.add(day, some)
	d := newDocument(KindUses, tenant, body)
	if !found {
		_, err = docs.Create(ctx, d)
		return err
	}
	d.ETag = old.ETag
	_, err = docs.Replace(ctx, d)
	return err
}

// add takes what was asked for on a day, and lets go of what is too old or too much.
func (b *usesBody) add(day telemetry.Day, some map[string]Use) {
	at, known := slices.BinarySearchFunc(b.Days, day, func(d usesOfDay, day telemetry.Day) int {
		return cmp.Compare(d.Day, day)
	})
	if !known {
		b.Days = slices.Insert(b.Days, at, usesOfDay{day, make(map[string]Use)})
	}
	d := &b.Days[at]
	for metric, u := range some {
		u = d.Metrics[metric].Plus(u)
		u.Saved = math.Round(10*u.Saved) / 10
		d.Metrics[metric] = u
	}
	names := slices.SortedFunc(maps.Keys(d.Metrics), func(m, n string) int {
		return cmp.Or(cmp.Compare(d.Metrics[n].Queries, d.Metrics[m].Queries), cmp.Compare(m, n))
	})
	for _, name := range names[min(len(names), metricsOfUses):] {
		delete(d.Metrics, name)
	}
	newest := b.Days[len(b.Days)-1].Day
	b.Days = slices.DeleteFunc(b.Days, func(d usesOfDay) bool { return d.Day <= newest-DaysOfUses })
}

// UsesSince is what queries have asked for of a tenant's lanes since a day, by metric.
func UsesSince(ctx context.Context, docs Documents, tenant string, day telemetry.Day) (map[string]Use, error) {
	d, found, err := docs.Read(ctx, KindUses, tenant)
	if err != nil || !found {
		return nil, err
	}
	var body usesBody
	if err := decode(d, &body); err != nil {
		return nil, err
	}
	out := make(map[string]Use)
	for _, d := range body.Days {
		for metric, u := range d.Metrics {
			if d.Day >= day {
				out[metric] = out[metric].Plus(u)
			}
		}
	}
	return out, nil
}
