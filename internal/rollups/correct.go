package rollups

import (
	"context"
	"errors"
	"iter"
	"maps"
	"math"
	"slices"

	"binnacle/binning/chunk"
	"binnacle/binning/rollup"
	"binnacle/internal/store"
)

const (
	// correctionBytes is how much the rows of several devices may take that are corrected together.
	correctionBytes = 32 << 10
	// maxCorrections is how many corrections a day may have: each is read by every query. Then its hours are rebuilt.
	maxCorrections = 32
)

type deviceRows struct {
	device string
	from   int
	to     int
	series []rollup.Series
	tables map[string]*metricTable
}

// correct computes the marked devices again, from all their chunks, and only in the hours that are marked.
func (r *round) correct(ctx context.Context) error {
	corrections := r.corrections()
	var pending []*deviceRows
	size := 0
	flush := func() error {
		err := r.storeCorrection(ctx, pending)
		pending, size = nil, 0
		corrections++
		return err
	}
	for _, device := range slices.Sorted(maps.Keys(r.manifest.Raw)) {
		hours := r.manifest.Raw[device] & r.manifest.MinuteHours()
		if hours == 0 || r.severalKeys(device) || r.uncorrectable[r.id()][device] == hours {
			continue
		}
		if corrections >= maxCorrections {
			break // the next round rebuilds
		}
		f, err := r.computeDevice(ctx, device, hours)
		if errors.Is(err, rollup.ErrTooLarge) {
			r.markUncorrectable(device, hours)
			continue
		}
		if err != nil {
			return err
		}
		if len(pending) > 0 && (pending[0].from != f.from || pending[0].to != f.to || size+f.size() > correctionBytes) {
			if err := flush(); err != nil {
				return err
			}
		}
		pending, size = append(pending, f), size+f.size()
	}
	if len(pending) > 0 {
		return flush()
	}
	return nil
}

// markUncorrectable has a device stay raw in these hours: its rows are too many for a correction. That is found out
// once, since it takes all its chunks.
func (r *round) markUncorrectable(device string, hours rollup.Hours) {
	if r.uncorrectable[r.id()] == nil {
		r.uncorrectable[r.id()] = make(map[string]rollup.Hours)
	}
	r.uncorrectable[r.id()][device] = hours
}

func (f *deviceRows) size() int {
	return len(f.tables) * len(f.series) * (f.to - f.from) * rollup.Minute.PerHour() * 6
}

// computeDevice reads all chunks of a device that the manifest is going to show, and computes some hours of it.
func (r *round) computeDevice(ctx context.Context, device string, hours rollup.Hours) (*deviceRows, error) {
	f := &deviceRows{device: device, tables: make(map[string]*metricTable)}
	f.from, f.to = hours.Bounds()
	key := r.prefix()
	key.Device = device
	var chunks []*chunk.Chunk
	g := newChunkSet(r, f.from, f.to)
	err := r.scan(ctx, store.Scan{Key: key, Range: rollup.Range(r.Day, f.from, f.to), Before: r.asOf},
		func(doc []byte) error {
			c, err := chunk.Parse(doc)
			if err == nil {
				chunks = append(chunks, c)
				g.add(c)
			}
			return err
		})
	if err != nil {
		return nil, err
	}
	for h := f.from; h < f.to; h++ {
		r.manifest.Until[h] = earlier(r.manifest.Until[h], g.until[h])
	}
	if f.series = seriesOf(device, chunks); len(f.series) == 0 {
		f.series = []rollup.Series{{Device: device}} // it has no samples any more
	}
	s := batchBuilder{round: r, series: f.series, batch: rollup.Batch{From: f.from, To: f.to},
		families: rollup.AllFamilies}
	chosen := slices.DeleteFunc(slices.Sorted(maps.Keys(g.metrics)), func(metric string) bool {
		return r.manifest.Omits(metric, rollup.Span(f.from, f.to))
	})
	if len(f.series) > maxSeries || int64(len(chosen))*rollup.Bytes(len(f.series), (f.to-f.from)*rollup.Minute.PerHour(),
		rollup.AllFamilies) > tableBytes {
		return nil, rollup.ErrTooLarge
	}
	tables, err := s.fill([]string{device}, map[string][]*chunk.Chunk{device: chunks}, chosen)
	if err != nil {
		return nil, err
	}
	for metric, t := range tables {
		if t.tooManyResets {
			return nil, rollup.ErrTooLarge
		}
		if len(t.rows) > 0 {
			f.tables[metric] = t
		}
	}
	return f, nil
}

// earlier returns the first of two moments; 0 is never.
func earlier(a, b int64) int64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// storeCorrection writes a correction of devices that have the same hours, and notes that rollups show them.
func (r *round) storeCorrection(ctx context.Context, devices []*deviceRows) error {
	from, to := devices[0].from, devices[0].to
	b := rollup.Batch{Name: r.cfg.Name(), Grids: []rollup.Grid{rollup.Minute, rollup.HalfHour}, From: from, To: to,
		Correction: true}
	var index []rollup.Series
	for _, f := range devices {
		b.Devices = append(b.Devices, f.device)
		index = append(index, f.series...)
	}
	ref := b.CorrectionDocument(r.Day)
	var build rollup.Builder
	build.Begin(rollup.Header{ID: ref.ID, TenantShard: r.TenantShard, Key: ref.Key, Day: r.Day, Batch: b.Name, From: from,
		To: to, Grid: rollup.Minute, TTL: r.ttl(r.untilOf(from, to), false)}, index)
	for metric, t := range r.mergeTables(devices, len(index), (to-from)*rollup.Minute.PerHour()) {
		half := *t
		half.table = rollup.HalfHours(t.table, rollup.AllFamilies)
		for _, family := range rollup.AllFamilies {
			if r.familiesOn(rollup.Minute, math.MaxInt).Has(family) {
				build.Add(metric, family, rollup.Minute, t.slice(0, t.table.Buckets, from == 0))
			}
			if r.familiesOn(rollup.HalfHour, math.MaxInt).Has(family) {
				build.Add(metric, family, rollup.HalfHour, half.slice(0, half.table.Buckets, from == 0))
			}
		}
	}
	doc, err := build.End()
	if errors.Is(err, rollup.ErrTooLarge) {
		for _, f := range devices {
			r.markUncorrectable(f.device, r.manifest.Raw[f.device]&r.manifest.MinuteHours())
		}
		return nil
	}
	if err != nil {
		return err
	}
	if err := r.create(ctx, ref.Key, ref.ID, doc); err != nil {
		return err
	}
	r.manifest.Batches = append(r.manifest.Batches, b)
	for _, f := range devices {
		r.manifest.ClearRaw(f.device, rollup.Span(from, to))
		r.Corrected++
	}
	return nil
}

// untilOf returns when the first chunk of some hours' rollups expires.
func (r *round) untilOf(from, to int) (until int64) {
	for h := from; h < to; h++ {
		until = earlier(until, r.manifest.Until[h])
	}
	return until
}

// mergeTables yields each metric of devices in one table, in the order of names; its rows are the rows of all their
// series indexes.
func (r *round) mergeTables(devices []*deviceRows, rows, buckets int) iter.Seq2[string, *metricTable] {
	names := make(map[string]bool)
	for _, f := range devices {
		for metric := range f.tables {
			names[metric] = true
		}
	}
	return func(yield func(string, *metricTable) bool) {
		for _, metric := range slices.Sorted(maps.Keys(names)) {
			all := &metricTable{table: rollup.NewTable(rows, buckets, rollup.AllFamilies),
				at0: make([]rollup.Sample, rows)}
			first := 0
			for _, f := range devices {
				if t := f.tables[metric]; t != nil {
					for _, row := range t.rows {
						all.copyRow(first+int(row), t, int(row))
					}
				}
				first += len(f.series)
			}
			if !yield(metric, all) {
				return
			}
		}
	}
}

func (f *metricTable) copyRow(row int, from *metricTable, of int) {
	f.rows = append(f.rows, int32(row))
	f.at0[row] = from.at0[of]
	f.table.Rounded[row] = from.table.Rounded[of]
	for k := range f.table.Buckets {
		end := int64(k+1) * int64(rollup.Minute) // instants are kept as differences to it
		if b := from.table.Get(of, k, end); !b.Empty() {
			f.table.Put(row, k, &b, end)
		}
	}
}
