package rollups

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"

	"binnacle/binning/chunk"
	"binnacle/binning/rollup"
	"binnacle/internal/telemetry"
)

const (
	// documentBytes is the size of full documents: request units for a byte are least at 32 KB.
	documentBytes = 28 << 10
	// tableBytes bounds the tables that are filled at a time.
	tableBytes = 96 << 20
	// samplesPerReset is the fewest samples for each reset at which First is worth its room: no one asks for the rate
	// of a metric that resets more often.
	samplesPerReset = 16
)

type batchBuilder struct {
	*round
	batch    rollup.Batch
	metrics  map[string]*rollup.Metric
	without  map[string]bool
	families rollup.Families
	// until is the expiry of all hours, 0 for never.
	until   int64
	series  []rollup.Series
	part    int
	widest  int // how many series a part may have, 0 if there is one part
	builder rollup.Builder
}

// build makes rollups of hours, of all devices, in place of the former ones: a batch, or one for each grid where they
// have other families.
func (r *round) build(ctx context.Context, from, to int, grids []rollup.Grid) error {
	g, err := r.readChunks(ctx, from, to)
	if err != nil {
		return err
	}
	for len(grids) > 0 {
		families, n := r.familiesOn(grids[0], len(g.sizes)), 1
		for n < len(grids) && slices.Equal(r.familiesOn(grids[n], len(g.sizes)), families) {
			n++
		}
		if err := r.buildBatch(ctx, g, grids[:n], families); err != nil {
			return err
		}
		grids = grids[n:]
	}
	return nil
}

func (r *round) buildBatch(ctx context.Context, g *chunkSet, grids []rollup.Grid, families rollup.Families) error {
	from, to := g.from, g.to
	chosen, others := r.choose(g.metrics)
	s := &batchBuilder{round: r, metrics: make(map[string]*rollup.Metric), without: make(map[string]bool),
		families: families}
	s.batch = rollup.Batch{Name: r.cfg.Name(), Grids: grids, From: from, To: to}
	s.batch.Size, s.widest = len(g.sizes), g.widestPart()
	for _, m := range others {
		s.without[m] = true
	}
	for h := from; h < to; h++ {
		s.until = earlier(s.until, g.until[h])
	}
	if err := g.parts(ctx, func(devices []string, chunks map[string][]*chunk.Chunk) error {
		return s.storePart(ctx, devices, chunks, chosen)
	}); err != nil {
		return err
	}
	s.listMetrics()
	r.manifest.Batches = append(r.manifest.Batches, s.batch)
	hours := rollup.Span(from, to)
	if slices.Contains(grids, rollup.Minute) {
		for device := range r.manifest.Raw {
			r.manifest.ClearRaw(device, hours)
		}
		r.Built |= hours
		r.Open &^= hours
	}
	for h := from; h < to; h++ {
		r.manifest.Until[h] = g.until[h]
	}
	return nil
}

// listMetrics puts into the batch which rollups there are.
func (s *batchBuilder) listMetrics() {
	s.batch.Parts = s.part
	for _, m := range s.metrics {
		if s.without[m.Name] {
			continue
		}
		if len(m.Parts) == s.part {
			m.Parts = nil
		}
		s.batch.Metrics = append(s.batch.Metrics, *m)
	}
	slices.SortFunc(s.batch.Metrics, func(a, b rollup.Metric) int { return strings.Compare(a.Name, b.Name) })
	s.batch.Without = slices.Sorted(maps.Keys(s.without))
}

func (s *batchBuilder) header(key string, hours [2]int, g rollup.Grid) rollup.Header {
	return rollup.Header{ID: rollup.ID(key, s.Day, hours[0], s.part, s.batch.Name), TenantShard: s.TenantShard, Key: key,
		Day: s.Day, Batch: s.batch.Name, Part: s.part, From: hours[0], To: hours[1], Grid: g,
		TTL: s.ttl(s.until, false)}
}

// storePart makes the rollups of some devices, as many metrics at a time as there is memory for.
func (s *batchBuilder) storePart(ctx context.Context, devices []string, chunks map[string][]*chunk.Chunk,
	metrics []string) error {
	s.series = nil
	for _, device := range devices {
		s.series = append(s.series, seriesOf(device, chunks[device])...)
	}
	switch {
	case len(s.series) == 0:
		return nil
	case len(s.series) > maxSeries: // one device has more series than fit a table
		for _, device := range devices {
			for _, c := range chunks[device] {
				for _, col := range c.Columns() {
					if col.Kind != telemetry.Text && slices.Contains(metrics, col.Metric) {
						s.without[col.Metric] = true
					}
				}
			}
		}
		return nil
	}
	minutes := (s.batch.To - s.batch.From) * rollup.Minute.PerHour()
	h := s.header(rollup.SeriesIndexKey, [2]int{s.batch.From, s.batch.To}, rollup.Minute)
	if err := s.create(ctx, h.Key, h.ID, rollup.AppendSeriesIndex(nil, h, s.series)); err != nil {
		return err
	}
	atOnce := max(1, int(tableBytes/rollup.Bytes(len(s.series), minutes, s.families)))
	for some := range slices.Chunk(metrics, atOnce) {
		tables, err := s.fill(devices, chunks, some)
		if err != nil {
			return err
		}
		for _, metric := range some {
			if t := tables[metric]; len(t.rows) > 0 {
				if err := s.storeMetric(ctx, metric, t); err != nil {
					return err
				}
			}
		}
	}
	s.part++
	return nil
}

type metricTable struct {
	table *rollup.Table
	// rows are the rows with samples.
	rows []int32
	at0  []rollup.Sample

	resets        int
	tooManyResets bool // resets for any document: they are forgotten, since tables have no bound for them
}

func (f *metricTable) countResets(row int) {
	if f.table.Resets == nil {
		return
	}
	for i := range f.table.Resets[row] {
		f.resets += len(f.table.Resets[row][i].Values)
	}
	if f.tooManyResets = f.tooManyResets || f.resets > rollup.MaxResets; f.tooManyResets {
		clear(f.table.Resets)
	}
}

// fill computes the buckets of some metrics.
func (s *batchBuilder) fill(devices []string, chunks map[string][]*chunk.Chunk,
	metrics []string) (map[string]*metricTable, error) {
	out := make(map[string]*metricTable, len(metrics))
	for _, m := range metrics {
		out[m] = &metricTable{table: rollup.NewTable(len(s.series), (s.batch.To-s.batch.From)*rollup.Minute.PerHour(),
			s.families), at0: make([]rollup.Sample, len(s.series))}
	}
	for _, device := range devices {
		samples, err := samplesOf(chunks[device], metrics)
		if err != nil {
			return nil, err
		}
		for i := range samples {
			one := &samples[i]
			f := out[one.Metric]
			row := rollup.FindSeries(s.series, rollup.Series{Device: device, Labels: one.Labels})
			if f == nil || row < 0 {
				continue
			}
			at0, some := one.Fill(f.table, row, s.Day, s.batch.From, s.batch.To)
			if f.at0[row] = at0; some {
				f.rows = append(f.rows, int32(row))
			}
			f.countResets(row)
		}
	}
	for _, f := range out {
		slices.Sort(f.rows)
	}
	return out, nil
}

func (s *batchBuilder) storeMetric(ctx context.Context, metric string, f *metricTable) error {
	if s.without[metric] {
		return nil
	}
	m := s.metrics[metric]
	if m == nil {
		m = &rollup.Metric{Name: metric, Families: s.familiesOf(f)}
		s.metrics[metric] = m
		for _, family := range m.Families {
			m.Every = append(m.Every, s.hoursPerDocument(metric, family, f))
		}
	}
	m.Parts = append(m.Parts, s.part)
	for i := 0; i < len(m.Families); i++ {
		family := m.Families[i]
		err := s.storeFamily(ctx, m, i, f)
		switch {
		case !errors.Is(err, rollup.ErrTooLarge):
			if err != nil {
				return err
			}
		case family == rollup.First: // far too many resets: the other families are of use without
			m.Families, m.Every = slices.Delete(m.Families, i, i+1), slices.Delete(m.Every, i, i+1)
			i--
			s.deleteFamilies(ctx, metric, rollup.Families{family})
		default: // it is of no repeat at all
			s.without[metric] = true
			s.deleteFamilies(ctx, metric, m.Families)
			return nil
		}
	}
	return nil
}

// storeFamily stores the documents of a family of a metric of a part, which is the i-th one of its.
func (s *batchBuilder) storeFamily(ctx context.Context, m *rollup.Metric, i int, f *metricTable) error {
	if m.Families[i] == rollup.First && f.tooManyResets {
		return rollup.ErrTooLarge
	}
	x := metricFamily{m.Name, m.Families[i], m.Every[i], f}
	for _, g := range s.batch.Grids {
		if err := s.storeGrid(ctx, x, g); err != nil {
			return err
		}
	}
	return nil
}

// deleteFamilies takes away the documents of families of a metric that the batch is going to be without.
func (s *batchBuilder) deleteFamilies(ctx context.Context, metric string, families rollup.Families) {
	gone := make(map[string]bool)
	for _, family := range families {
		for _, g := range s.batch.Grids {
			gone[rollup.Key(metric, family, g)] = true
		}
	}
	s.round.stored = slices.DeleteFunc(s.round.stored, func(d storedDocument) bool {
		if !gone[d.key.Name] || !strings.HasSuffix(d.id, "."+s.batch.Name) {
			return false
		}
		receipt, err := s.cfg.Rollups.DeleteRollup(ctx, d.key, d.id)
		s.WriteRUs += receipt.RUs
		return err == nil && s.pacer.Wait(ctx, receipt.RUs) == nil
	})
}

// familiesOf returns what of a metric is kept: its first part decides for all.
func (s *batchBuilder) familiesOf(f *metricTable) (out rollup.Families) {
	samples := 0
	for _, row := range f.rows {
		for _, n := range f.table.N[int(row)*f.table.Buckets : (int(row)+1)*f.table.Buckets] {
			samples += int(n)
		}
	}
	for _, family := range s.families {
		if family != rollup.First || !f.tooManyResets && f.resets*samplesPerReset <= samples {
			out = append(out, family)
		}
	}
	return out
}

// hoursPerDocument returns how many hours of a rollup fill a document. It is decided by the first part for all: the one
// with the most series must have room, too.
func (s *batchBuilder) hoursPerDocument(metric string, family rollup.Family, f *metricTable) int {
	hours := s.batch.To - s.batch.From
	whole := len(rollup.AppendSection(nil, metric, family, f.slice(0, f.table.Buckets, true)))
	cells := max(len(f.rows), s.widest) * f.table.Buckets
	least := 1 + (cells-1)/rollup.MaxCells
	return max(1, min(hours, int(math.Round(float64(hours)*documentBytes/float64(whole+512))), hours/least))
}

// slice returns some buckets of a metric; with midnight, also the samples at 00:00.
func (f *metricTable) slice(from, to int, midnight bool) rollup.Slice {
	s := rollup.Slice{Table: f.table, Rows: f.rows, From: from, To: to}
	if midnight {
		s.At0 = f.at0
	}
	return s
}

type metricFamily struct {
	metric string
	family rollup.Family
	every  int // hours of a document
	table  *metricTable
}

func (s *batchBuilder) storeGrid(ctx context.Context, x metricFamily, g rollup.Grid) error {
	of, every := *x.table, x.every
	if g == rollup.HalfHour {
		of.table, every = rollup.HalfHours(x.table.table, s.families), s.batch.To-s.batch.From
	}
	key := rollup.Key(x.metric, x.family, g)
	for from := s.batch.From; from < s.batch.To; from += every {
		to := min(from+every, s.batch.To)
		h := s.header(key, [2]int{from, to}, g)
		s.builder.Begin(h, nil)
		s.builder.Add(x.metric, x.family, g,
			of.slice((from-s.batch.From)*g.PerHour(), (to-s.batch.From)*g.PerHour(), from == 0))
		doc, err := s.builder.End()
		if err != nil {
			return err
		}
		if err := s.create(ctx, key, h.ID, doc); err != nil {
			return err
		}
	}
	return nil
}
