package views

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"binnacle/binning/chunk"
	"binnacle/binning/lane"
	"binnacle/internal/telemetry"
)

const (
	// documentBytes is how full documents are to be: request units for a byte are least at 32 KB.
	documentBytes = 28 << 10
	// tableBytes bounds the tables that are filled at a time.
	tableBytes = 96 << 20
	// fallsOfCounters is how many samples there are to one that falls, at least, for First to be worth its room: of what
	// falls more often nobody asks the rate.
	fallsOfCounters = 16
)

// sealing is a batch on its way.
type sealing struct {
	*round
	batch   lane.Batch
	metrics map[string]*lane.Metric
	without map[string]bool
	until   int64 // of all hours, 0 for never
	roster  []lane.Series
	part    int
	widest  int // how many series a part may have, 0 if there is one part
	builder lane.Builder
}

// seal makes lanes of hours, of all devices, in place of what was there.
func (r *round) seal(ctx context.Context, from, to int, grids []lane.Grid) error {
	g, err := r.gather(ctx, from, to)
	if err != nil {
		return err
	}
	chosen, others := r.choose(g.metrics)
	s := &sealing{round: r, metrics: make(map[string]*lane.Metric), without: make(map[string]bool)}
	s.batch = lane.Batch{Name: r.cfg.Name(), Grids: grids, From: from, To: to}
	s.batch.Size, s.widest = len(g.sizes), g.widest()
	for _, m := range others {
		s.without[m] = true
	}
	for h := from; h < to; h++ {
		s.until = earlier(s.until, g.until[h])
	}
	if err := g.parts(ctx, func(devices []string, chunks map[string][]*chunk.Chunk) error {
		return s.makePart(ctx, devices, chunks, chosen)
	}); err != nil {
		return err
	}
	s.finish()
	r.ledger.Batches = append(r.ledger.Batches, s.batch)
	hours := lane.Span(from, to)
	if slices.Contains(grids, lane.Minute) {
		for device := range r.ledger.Raw {
			r.ledger.Show(device, hours)
		}
		r.Sealed |= hours
		r.Open &^= hours
	}
	for h := from; h < to; h++ {
		r.ledger.Until[h] = g.until[h]
	}
	return nil
}

// finish puts into the batch which lanes there are.
func (s *sealing) finish() {
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
	slices.SortFunc(s.batch.Metrics, func(a, b lane.Metric) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	for m := range s.without {
		s.batch.Without = append(s.batch.Without, m)
	}
	slices.Sort(s.batch.Without)
}

func (s *sealing) head(key string, from, to int, g lane.Grid) lane.Header {
	return lane.Header{ID: lane.ID(key, s.Day, from, s.part, s.batch.Name), TenantShard: s.TenantShard, Key: key,
		Day: s.Day, Batch: s.batch.Name, Part: s.part, From: from, To: to, Grid: g, TTL: s.ttl(s.until, false)}
}

// makePart makes the lanes of some devices, as many metrics at a time as there is memory for.
func (s *sealing) makePart(ctx context.Context, devices []string, chunks map[string][]*chunk.Chunk,
	metrics []string) error {
	s.roster = nil
	for _, device := range devices {
		s.roster = append(s.roster, seriesOf(device, chunks[device])...)
	}
	switch {
	case len(s.roster) == 0:
		return nil
	case len(s.roster) > mostSeries: // of one device: more than a table has room for
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
	minutes := (s.batch.To - s.batch.From) * lane.Minute.PerHour()
	h := s.head(lane.RosterKey, s.batch.From, s.batch.To, lane.Minute)
	if err := s.create(ctx, h.Key, h.ID, lane.AppendRoster(nil, h, s.roster)); err != nil {
		return err
	}
	atOnce := max(1, int(tableBytes/lane.Bytes(len(s.roster), minutes, s.families)))
	for some := range slices.Chunk(metrics, atOnce) {
		tables, err := s.fill(devices, chunks, some)
		if err != nil {
			return err
		}
		for _, metric := range some {
			if t := tables[metric]; len(t.rows) > 0 {
				if err := s.makeLanes(ctx, metric, t); err != nil {
					return err
				}
			}
		}
	}
	s.part++
	return nil
}

// filled is one metric of a part.
type filled struct {
	table *lane.Table
	rows  []int32 // those that have samples
	at0   []lane.Sample

	falls   int
	tooMany bool // falls for any document: they are forgotten, since tables have no bound for them
}

// weigh counts the falls of a row.
func (f *filled) weigh(row int) {
	if f.table.Falls == nil {
		return
	}
	for i := range f.table.Falls[row] {
		f.falls += len(f.table.Falls[row][i].Values)
	}
	if f.tooMany = f.tooMany || f.falls > lane.MaxFalls; f.tooMany {
		clear(f.table.Falls)
	}
}

// fill computes the buckets of some metrics.
func (s *sealing) fill(devices []string, chunks map[string][]*chunk.Chunk,
	metrics []string) (map[string]*filled, error) {
	out := make(map[string]*filled, len(metrics))
	for _, m := range metrics {
		out[m] = &filled{table: lane.NewTable(len(s.roster), (s.batch.To-s.batch.From)*lane.Minute.PerHour(),
			s.families), at0: make([]lane.Sample, len(s.roster))}
	}
	for _, device := range devices {
		samples, err := samplesOf(chunks[device], metrics)
		if err != nil {
			return nil, err
		}
		for i := range samples {
			one := &samples[i]
			f := out[one.Metric]
			row := lane.Place(s.roster, lane.Series{Device: device, Labels: one.Labels})
			if f == nil || row < 0 {
				continue
			}
			at0, some := one.Fill(f.table, row, s.Day, s.batch.From, s.batch.To)
			if f.at0[row] = at0; some {
				f.rows = append(f.rows, int32(row))
			}
			f.weigh(row)
		}
	}
	for _, f := range out {
		slices.Sort(f.rows)
	}
	return out, nil
}

// makeLanes stores the lanes of one metric of a part.
func (s *sealing) makeLanes(ctx context.Context, metric string, f *filled) error {
	if s.without[metric] {
		return nil
	}
	m := s.metrics[metric]
	if m == nil {
		m = &lane.Metric{Name: metric, Families: s.familiesOf(f)}
		s.metrics[metric] = m
		for _, family := range m.Families {
			m.Every = append(m.Every, s.every(metric, family, f))
		}
	}
	m.Parts = append(m.Parts, s.part)
	for i := 0; i < len(m.Families); i++ {
		family := m.Families[i]
		err := s.makeGrids(ctx, m, i, f)
		switch {
		case !errors.Is(err, lane.ErrTooLarge):
			if err != nil {
				return err
			}
		case family == lane.First: // by far too much falls: the others are of use without
			m.Families, m.Every = slices.Delete(m.Families, i, i+1), slices.Delete(m.Every, i, i+1)
			i--
			s.unmake(ctx, metric, lane.Families{family})
		default: // it is of no repeat at all
			s.without[metric] = true
			s.unmake(ctx, metric, m.Families)
			return nil
		}
	}
	return nil
}

// makeGrids stores the documents of a family of a metric of a part, which is the i-th one of its.
func (s *sealing) makeGrids(ctx context.Context, m *lane.Metric, i int, f *filled) error {
	if m.Families[i] == lane.First && f.tooMany {
		return lane.ErrTooLarge
	}
	for _, g := range s.batch.Grids {
		if err := s.makeLane(ctx, m.Name, m.Families[i], g, m.Every[i], f); err != nil {
			return err
		}
	}
	return nil
}

// unmake takes away the documents of families of a metric that the batch is going to be without.
func (s *sealing) unmake(ctx context.Context, metric string, families lane.Families) {
	gone := make(map[string]bool)
	for _, family := range families {
		for _, g := range s.batch.Grids {
			gone[lane.Key(metric, family, g)] = true
		}
	}
	s.round.made = slices.DeleteFunc(s.round.made, func(d made) bool {
		if !gone[d.key.Lane] || !strings.HasSuffix(d.id, "."+s.batch.Name) {
			return false
		}
		receipt, err := s.cfg.Views.DeleteView(ctx, d.key, d.id)
		s.WriteRUs += receipt.RUs
		return err == nil && s.pace.wait(ctx, receipt.RUs) == nil
	})
}

// familiesOf is what of a metric is kept: its first part decides for all.
func (s *sealing) familiesOf(f *filled) (out lane.Families) {
	samples := 0
	for _, row := range f.rows {
		for _, n := range f.table.N[int(row)*f.table.Buckets : (int(row)+1)*f.table.Buckets] {
			samples += int(n)
		}
	}
	for _, family := range s.families {
		if family != lane.First || !f.tooMany && f.falls*fallsOfCounters <= samples {
			out = append(out, family)
		}
	}
	return out
}

// every is how many hours of a lane fill a document. It is decided by the first part for all: the one with the most
// series must have room, too.
func (s *sealing) every(metric string, family lane.Family, f *filled) int {
	hours := s.batch.To - s.batch.From
	whole := len(lane.AppendSection(nil, metric, family, f.slice(0, f.table.Buckets, true)))
	cells := max(len(f.rows), s.widest) * f.table.Buckets
	least := 1 + (cells-1)/lane.MaxCells
	return max(1, min(hours, int(math.Round(float64(hours)*documentBytes/float64(whole+512))), hours/least))
}

// slice is some buckets of a metric; with midnight, what stands apart too.
func (f *filled) slice(from, to int, midnight bool) lane.Slice {
	s := lane.Slice{Table: f.table, Rows: f.rows, From: from, To: to}
	if midnight {
		s.At0 = f.at0
	}
	return s
}

// makeLane stores the documents of one lane of a part.
func (s *sealing) makeLane(ctx context.Context, metric string, family lane.Family, g lane.Grid, every int,
	f *filled) error {
	of := *f
	if g == lane.HalfHour {
		of.table, every = lane.HalfHours(f.table, s.families), s.batch.To-s.batch.From
	}
	key := lane.Key(metric, family, g)
	for from := s.batch.From; from < s.batch.To; from += every {
		to := min(from+every, s.batch.To)
		h := s.head(key, from, to, g)
		s.builder.Begin(h, nil)
		s.builder.Add(metric, family, g, of.slice((from-s.batch.From)*g.PerHour(), (to-s.batch.From)*g.PerHour(), from == 0))
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
