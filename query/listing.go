package query

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"binnacle/internal/control"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/read"
)

// Device is one device of a tenant as the catalog has it, joined with what the heads hold of it.
type Device struct {
	Device      string
	Tags        telemetry.Labels
	Metrics     []string // sorted
	First, Last int64    // least and greatest event time seen, ms since 1970 UTC
}

// Metric is one metric of a tenant over all its devices.
type Metric struct {
	Metric  string
	Types   []string // names of the kinds of values seen, sorted
	Devices int      // that have it
}

// Devices lists the first devices whose id begins with prefix, by id, and reports whether there are more than limit.
// Errors are ErrUnavailable, ErrBusy and the context's.
func (q *Querier) Devices(ctx context.Context, tenant, prefix string, limit int) (out []Device,
	truncated bool, err error) {
	var entries []control.Device
	err = q.observed(ctx, "devices", tenant, func() (err error) {
		entries, err = q.entries(ctx, tenant, prefix, limit)
		return err
	})
	if len(entries) > limit {
		entries, truncated = entries[:limit], true
	}
	for _, e := range entries {
		out = append(out, Device{
			Device: e.Device, Tags: telemetry.LabelsOf(e.Tags), Metrics: slices.Sorted(maps.Keys(e.Metrics)), First: e.First,
			Last: e.Last,
		})
	}
	return out, truncated, err
}

// Metrics lists the first metrics whose name begins with prefix, by name, and reports whether there are more than
// limit. It reads the whole catalog of the tenant. Errors are those of Devices.
func (q *Querier) Metrics(ctx context.Context, tenant, prefix string, limit int) (out []Metric,
	truncated bool, err error) {
	var entries []control.Device
	err = q.observed(ctx, "metrics", tenant, func() (err error) {
		entries, err = q.entries(ctx, tenant, "", 0)
		return err
	})
	kinds := make(map[string][]string)
	devices := make(map[string]int)
	for _, e := range entries {
		for metric, types := range e.Metrics {
			if strings.HasPrefix(metric, prefix) {
				kinds[metric] = append(kinds[metric], types...)
				devices[metric]++
			}
		}
	}
	for _, metric := range slices.Sorted(maps.Keys(kinds)) {
		if len(out) == limit {
			return out, true, err
		}
		out = append(out, Metric{Metric: metric, Types: distinct(kinds[metric]), Devices: devices[metric]})
	}
	return out, false, err
}

var errListed = errors.New("enough entries")

// entries is the catalog's entries joined with the heads, by device: all of them with a limit of 0, else one more than
// the limit, if there are so many.
func (q *Querier) entries(ctx context.Context, tenant, prefix string, limit int) ([]control.Device, error) {
	ask := store.ListRequest{Tenant: tenant, Prefix: prefix}
	if limit > 0 {
		ask.Limit = limit + 1
	}
	held, err := q.reader.Devices(ctx, ask)
	if err != nil {
		return nil, err
	}
	unlisted := byDevice(held)
	var out []control.Device
	last := "" // of the catalog's entries that were read, the greatest
	err = q.cfg.Catalog.List(ctx, tenant, prefix, func(d control.Device) error {
		if limit > 0 && len(out) > limit {
			return errListed
		}
		if h := unlisted[d.Device]; h != nil {
			d = joined(d, *h)
			delete(unlisted, d.Device)
		}
		out = append(out, d)
		last = max(last, d.Device)
		return nil
	})
	if err != nil && !errors.Is(err, errListed) {
		return nil, read.Unavailable(ctx, "list the catalog", err)
	}
	for id, h := range unlisted {
		if err == nil || id < last { // beyond last the catalog may still have it
			out = append(out, *h)
		}
	}
	slices.SortFunc(out, func(a, b control.Device) int { return strings.Compare(a.Device, b.Device) })
	return out, nil
}

// byDevice is what the heads know of each device.
func byDevice(held []store.HeadDevice) map[string]*control.Device {
	out := make(map[string]*control.Device, len(held))
	for _, h := range held {
		d := control.Device{Device: h.Device, Metrics: make(map[string][]string, len(h.Columns)), First: h.First,
			Last: h.Last}
		for _, c := range h.Columns {
			d.Metrics[c.Metric] = append(d.Metrics[c.Metric], c.Kind.String())
		}
		if old := out[h.Device]; old != nil {
			d = joined(*old, d)
		}
		out[h.Device] = &d
	}
	return out
}

// joined is d with what h knows beside it. Neither is changed.
func joined(d, h control.Device) control.Device {
	metrics := make(map[string][]string, max(len(d.Metrics), len(h.Metrics)))
	for _, from := range []map[string][]string{d.Metrics, h.Metrics} {
		for metric, types := range from {
			metrics[metric] = distinct(slices.Concat(metrics[metric], types))
		}
	}
	d.Metrics = metrics
	d.First, d.Last = min(d.First, h.First), max(d.Last, h.Last)
	return d
}
