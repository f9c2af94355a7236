package views

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"binnacle/binning/chunk"
	"binnacle/binning/lane"
	"binnacle/internal/store"
)

const (
	// foldBytes is how much the rows of several devices may take that are folded together.
	foldBytes = 32 << 10
	// foldsAtMost is how many folds a day may have: each is read by every query. Then its hours are sealed anew.
	foldsAtMost = 32
)

// folding is the rows of one device, computed anew.
type folding struct {
	device string
	from   int
	to     int
	roster []lane.Series
	tables map[string]*filled
}

// fold computes the devices anew that are marked, from all their chunks, and only in the hours that are marked.
func (r *round) fold(ctx context.Context) error {
	before := r.ReadRUs + r.WriteRUs
	folds := r.folds()
	var pending []*folding
	size := 0
	flush := func() error {
		err := r.store(ctx, pending)
		pending, size = nil, 0
		folds++
		return err
	}
	for _, device := range slices.Sorted(maps.Keys(r.ledger.Raw)) {
		hours := r.ledger.Raw[device] & r.ledger.Sealed()
		if hours == 0 || r.spread(device) || r.unfolded[r.place()][device] == hours {
			continue
		}
		if folds >= foldsAtMost {
			break // the next round seals anew
		}
		f, err := r.compute(ctx, device, hours)
		if errors.Is(err, lane.ErrTooLarge) {
			r.leave(device, hours)
			continue
		}
		if err != nil {
			return err
		}
		if len(pending) > 0 && (pending[0].from != f.from || pending[0].to != f.to || size+f.size() > foldBytes) {
			if err := flush(); err != nil {
				return err
			}
		}
		pending, size = append(pending, f), size+f.size()
	}
	if len(pending) > 0 {
		if err := flush(); err != nil {
			return err
		}
	}
	if r.Folded > 0 {
		r.FoldRUs = r.ReadRUs + r.WriteRUs - before
	}
	return nil
}

// leave has a device stay raw in these hours: its rows are too many for a fold. That is found out once, since it takes
// all its chunks.
func (r *round) leave(device string, hours lane.Hours) {
	if r.unfolded[r.place()] == nil {
		r.unfolded[r.place()] = make(map[string]lane.Hours)
	}
	r.unfolded[r.place()][device] = hours
}

// size is about how many bytes the rows take.
func (f *folding) size() int {
	return len(f.tables) * len(f.roster) * (f.to - f.from) * lane.Minute.PerHour() * 6
}

// compute reads all chunks of a device that the ledger is going to show, and computes some hours of it.
func (r *round) compute(ctx context.Context, device string, hours lane.Hours) (*folding, error) {
	f := &folding{device: device, tables: make(map[string]*filled)}
	f.from, f.to = hours.Bounds()
	key := r.prefix()
	key.Device = device
	var chunks []*chunk.Chunk
	g := newGathering(r, f.from, f.to)
	err := r.scan(ctx, store.Scan{Key: key, Range: lane.Range(r.Day, f.from, f.to), Before: r.asOf},
		func(doc []byte) error {
			c, err := chunk.Parse(doc)
			if err == nil {
				chunks = append(chunks, c)
				g.take(c)
			}
			return err
		})
	if err != nil {
		return nil, err
	}
	for h := f.from; h < f.to; h++ {
		r.ledger.Until[h] = earlier(r.ledger.Until[h], g.until[h])
	}
	if f.roster = seriesOf(device, chunks); len(f.roster) == 0 {
		f.roster = []lane.Series{{Device: device}} // it has no samples any more
	}
	s := sealing{round: r, roster: f.roster, batch: lane.Batch{From: f.from, To: f.to}}
	chosen := slices.DeleteFunc(slices.Sorted(maps.Keys(g.metrics)), func(metric string) bool {
		return r.ledger.Lacks(metric, lane.Span(f.from, f.to))
	})
	if len(f.roster) > mostSeries || int64(len(chosen))*lane.Bytes(len(f.roster), (f.to-f.from)*lane.Minute.PerHour(),
		r.families) > tableBytes {
		return nil, lane.ErrTooLarge
	}
	tables, err := s.fill([]string{device}, map[string][]*chunk.Chunk{device: chunks}, chosen)
	if err != nil {
		return nil, err
	}
	for metric, t := range tables {
		if t.tooMany {
			return nil, lane.ErrTooLarge
		}
		if len(t.rows) > 0 {
			f.tables[metric] = t
		}
	}
	return f, nil
}

// earlier is the first of two moments, of which 0 is never.
func earlier(a, b int64) int64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// store writes a fold of devices that have the same hours, and notes that lanes show them.
func (r *round) store(ctx context.Context, devices []*folding) error {
	from, to := devices[0].from, devices[0].to
	b := lane.Batch{Name: r.cfg.Name(), Grids: []lane.Grid{lane.Minute, lane.HalfHour}, From: from, To: to, Fold: true}
	var roster []lane.Series
	for _, f := range devices {
		b.Devices = append(b.Devices, f.device)
		roster = append(roster, f.roster...)
	}
	ref := b.FoldDocument(r.Day)
	var build lane.Builder
	build.Begin(lane.Header{ID: ref.ID, TenantShard: r.TenantShard, Key: ref.Key, Day: r.Day, Batch: b.Name, From: from,
		To: to, Grid: lane.Minute, TTL: r.ttl(r.untilOf(from, to), false)}, roster)
	for metric, t := range joined(devices, len(roster), (to-from)*lane.Minute.PerHour(), r.families) {
		half := *t
		half.table = lane.HalfHours(t.table, r.families)
		for _, family := range r.families {
			build.Add(metric, family, lane.Minute, t.slice(0, t.table.Buckets, from == 0))
			build.Add(metric, family, lane.HalfHour, half.slice(0, half.table.Buckets, from == 0))
		}
	}
	doc, err := build.End()
	if errors.Is(err, lane.ErrTooLarge) {
		for _, f := range devices {
			r.leave(f.device, r.ledger.Raw[f.device]&r.ledger.Sealed())
		}
		return nil
	}
	if err != nil {
		return err
	}
	if err := r.create(ctx, ref.Key, ref.ID, doc); err != nil {
		return err
	}
	r.ledger.Batches = append(r.ledger.Batches, b)
	for _, f := range devices {
		r.ledger.Show(f.device, lane.Span(from, to))
		r.Folded++
	}
	return nil
}

// untilOf is when the first chunk of some hours' lanes expires.
func (r *round) untilOf(from, to int) (until int64) {
	for h := from; h < to; h++ {
		until = earlier(until, r.ledger.Until[h])
	}
	return until
}

// joined yields each metric of devices in one table, in the order of names; its rows are those of all their rosters.
func joined(devices []*folding, rows, buckets int, families lane.Families) iter.Seq2[string, *filled] {
	names := make(map[string]bool)
	for _, f := range devices {
		for metric := range f.tables {
			names[metric] = true
		}
	}
	return func(yield func(string, *filled) bool) {
		for _, metric := range slices.Sorted(maps.Keys(names)) {
			all := &filled{table: lane.NewTable(rows, buckets, families), at0: make([]lane.Sample, rows)}
			first := 0
			for _, f := range devices {
				if t := f.tables[metric]; t != nil {
					for _, row := range t.rows {
						all.take(first+int(row), t, int(row))
					}
				}
				first += len(f.roster)
			}
			if !yield(metric, all) {
				return
			}
		}
	}
}

// take copies a row of another table.
func (f *filled) take(row int, from *filled, of int) {
	f.rows = append(f.rows, int32(row))
	f.at0[row] = from.at0[of]
	f.table.Rounded[row] = from.table.Rounded[of]
	for k := range f.table.Buckets {
		end := int64(k+1) * int64(lane.Minute) // instants are kept as differences to it
		if b := from.table.Get(of, k, end); !b.Empty() {
			f.table.Put(row, k, &b, end)
		}
	}
}
