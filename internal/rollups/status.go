package rollups

import (
	"context"
	"maps"
	"slices"

	"binnacle/binning/rollup"
	"binnacle/internal/charges/ru"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// Status is what rollups a key and day has.
type Status struct {
	// Manifest is nil without one.
	Manifest *rollup.Manifest
	// Metrics are sorted by name.
	Metrics     []MetricStatus
	Corrections int
	Without     []string // metrics that have samples and no rollups
}

// MetricStatus is the rollups of a metric.
type MetricStatus struct {
	Metric    string
	Families  string
	Hours     rollup.Hours
	Documents int
	// Bytes is the stored size.
	Bytes    int
	WriteRUs float64 // modelled, of storing them once
	// ReadRUs was charged for reading all of them, in the way that a panel over the whole day reads those it needs.
	ReadRUs float64
}

// Status reads what rollups a key and day has, and how much they take. It reads the rollups themselves: what that costs
// is what a query over everything would.
func (w *Writer) Status(ctx context.Context, t Target) (Status, error) {
	r := &round{Writer: w, Target: t}
	if err := r.read(ctx); err != nil {
		return Status{}, err
	}
	if r.etag == "" {
		return Status{}, nil
	}
	s := Status{Manifest: r.manifest, Corrections: r.corrections()}
	rollups := make(map[string]*MetricStatus)
	without := make(map[string]bool)
	for i := range r.manifest.Batches {
		b := &r.manifest.Batches[i]
		for _, m := range b.Without {
			without[m] = true
		}
		for _, m := range b.Metrics {
			l := rollups[m.Name]
			if l == nil {
				l = &MetricStatus{Metric: m.Name}
				rollups[m.Name] = l
			}
			if slices.Contains(b.Grids, rollup.Minute) {
				l.Families = m.Families.String()
				l.Hours |= rollup.Span(b.From, b.To)
			}
			for _, f := range m.Families {
				for _, g := range b.Grids {
					if err := r.measure(ctx, rollup.Key(m.Name, f, g), b.Name, l); err != nil {
						return s, err
					}
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rollups)) {
		s.Metrics = append(s.Metrics, *rollups[name])
	}
	s.Without = slices.Sorted(maps.Keys(without))
	return s, nil
}

func (r *round) measure(ctx context.Context, key, batch string, into *MetricStatus) error {
	usage, err := r.cfg.Rollups.ScanRollups(ctx, store.RollupScan{Key: r.rollupKey(key), Batches: []string{batch},
		Range:  telemetry.Range{From: r.Day.Start(), To: r.Day.End() + 1},
		Charge: func(rus float64) error { return r.pacer.Wait(ctx, rus) },
	}, func(doc []byte) error {
		into.Documents++
		into.Bytes += len(doc)
		into.WriteRUs += ru.Stepped.Write(len(doc), indexUnits)
		return nil
	})
	into.ReadRUs += usage.RUs
	return err
}

// indexUnits is what a rollup has in the index: two levels of its key, from, to and id.
const indexUnits = 5 * ru.Scalar

// Omits reports whether any of some metrics has samples of a key and day that its rollups do not show, or whether there
// are no rollups at all.
func (w *Writer) Omits(ctx context.Context, t Target, metrics []string) (bool, error) {
	r := &round{Writer: w, Target: t}
	if err := r.read(ctx); err != nil {
		return false, err
	}
	return r.etag == "" || slices.ContainsFunc(r.manifest.Batches, func(b rollup.Batch) bool {
		return slices.ContainsFunc(metrics, b.Omits)
	}), nil
}
