package rollups_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"binnacle/binning/chunk"
	"binnacle/binning/rollup"
	"binnacle/internal/rollups"
	"binnacle/internal/store"
	"binnacle/sharding"
)

// result is the answer of a query for a key: per device the answer, and whether it came from chunks.
type result struct {
	answers  map[string]answer
	raw      map[string]bool
	families map[string]rollup.Families
	from, to int
}

// query reads some hours of a key by rule V4: the manifest, an old one if there is one, the chunks since its asOf,
// rollups, and raw what has to be. ok is false when no hours have rollups.
func (a *actor) query(ctx context.Context, t rollups.Target, cached *rollup.Manifest) (out result, l *rollup.Manifest,
	err error) {
	w := a.w
	if l = cached; l == nil {
		v, _, _, err := a.ReadRollup(ctx, rollupKey(t, rollup.ManifestKey), rollup.ManifestID(day))
		if errors.Is(err, store.ErrNotFound) {
			return result{}, nil, nil
		}
		if err != nil {
			return result{}, nil, err
		}
		if l, err = rollup.ParseManifest(v.Doc); err != nil {
			return result{}, nil, err
		}
	}
	out = result{answers: make(map[string]answer), raw: make(map[string]bool), families: make(map[string]rollup.Families)}
	// Hours that have rollups of minutes, a run of them.
	sealed := l.MinuteHours()
	if sealed == 0 {
		return result{}, l, nil
	}
	out.from = w.rnd.IntN(24)
	for !sealed.Has(out.from) {
		out.from = w.rnd.IntN(24)
	}
	for out.to = out.from + 1; out.to < 24 && sealed.Has(out.to) && w.rnd.IntN(4) > 0; {
		out.to++
	}
	hours := rollup.Span(out.from, out.to)
	prefix := sharding.Key{Container: t.Chunks, TenantShard: t.TenantShard}
	_, err = a.Scan(ctx, store.Scan{Key: prefix, Range: rollup.Range(day, out.from, out.to), Since: l.AsOf},
		func(doc []byte) error {
			c, err := chunk.Parse(doc)
			if err == nil {
				out.raw[c.Header.Device] = true
			}
			return err
		})
	if err != nil {
		return result{}, nil, err
	}
	for device, marked := range l.Raw {
		if marked&hours != 0 {
			out.raw[device] = true
		}
	}
	for _, device := range devices {
		if len(w.tenant.Placement.Keys(device, day)) > 1 {
			out.raw[device] = true
		}
	}
	expired := false
	for h := out.from; h < out.to; h++ {
		expired = expired || l.Until[h] > 0 && w.now.Unix() >= l.Until[h]
	}
	var whole bool
	if !expired {
		if whole, err = a.rollups(ctx, t, l, &out); err != nil {
			return result{}, nil, err
		}
	}
	for _, device := range devices {
		key := t.Tenant.Placement.Keys(device, day)
		if !slices.ContainsFunc(key, func(k sharding.Key) bool { return k.TenantShard == t.TenantShard }) || len(key) > 1 {
			continue // of another key, or of several
		}
		if whole && !out.raw[device] {
			continue
		}
		out.raw[device] = true
		var records []record
		_, err := a.Scan(ctx, store.Scan{Key: key[0], Range: rollup.Range(day, 0, 24)}, func(doc []byte) error {
			c, err := chunk.Parse(doc)
			if err != nil {
				return err
			}
			f, err := c.Frame(nil)
			records = append(records, record{frame: f, source: store.Source{Stream: c.Header.ID.Stream,
				Partition: c.Header.ID.Partition, Through: c.Header.Through}})
			return err
		})
		if err != nil {
			return result{}, nil, err
		}
		out.answers[device] = raw(records, out.from, out.to, everything)
	}
	return out, l, nil
}

func rollupKey(t rollups.Target, second string) store.RollupKey {
	return store.RollupKey{Container: sharding.RollupsContainer(t.Chunks), TenantShard: t.TenantShard, Name: second}
}

// rollups reads all rollups of some hours; whole is false when a document is missing.
func (a *actor) rollups(ctx context.Context, t rollups.Target, l *rollup.Manifest, out *result) (whole bool,
	err error) {
	hours := rollup.Span(out.from, out.to)
	type row struct {
		table *rollup.Table
		at0   []rollup.Sample
	}
	rows := make(map[string]row) // by device and series
	of := func(device, series string) row {
		key := device + "\x00" + series
		if rows[key].table == nil {
			rows[key] = row{rollup.NewTable(1, (out.to-out.from)*60, rollup.AllFamilies), make([]rollup.Sample, 1)}
		}
		return rows[key]
	}
	owners := make(map[string]string)
	decode := func(d *rollup.Document, index []rollup.Series) error {
		for i := range d.Sections {
			s := &d.Sections[i]
			if s.Grid != rollup.Minute {
				continue
			}
			for place, series := range index {
				places, err := s.SeriesNumbers()
				if err != nil {
					return err
				}
				if !slices.Contains(places, int32(place)) {
					continue
				}
				name := fmt.Sprint(series.Labels, s.Metric)
				r := of(series.Device, name)
				owners[series.Device+"\x00"+name] = s.Metric
				row := slices.Index(places, int32(place))
				table := rollup.Table{Rows: s.Series, Buckets: s.Buckets}
				if err := s.Decode(&table, s.Has()); err != nil {
					return err
				}
				put(r.table, &table, row, (d.From-out.from)*60)
				if d.From == out.from && s.Family == rollup.Last {
					at0, err := s.SamplesAtMidnight()
					if err != nil {
						return err
					}
					r.at0[0] = at0[row]
				}
			}
		}
		return nil
	}
	get := func(ref rollup.Ref) (*rollup.Document, error) {
		v, _, _, err := a.ReadRollup(ctx, rollupKey(t, ref.Key), ref.ID)
		if err != nil {
			return nil, err
		}
		return rollup.Parse(v.Doc)
	}
	missing := func(err error) (bool, error) {
		if errors.Is(err, store.ErrNotFound) {
			return false, nil
		}
		return false, err
	}
	without := make(map[string]bool)
	for i := range l.Batches {
		b := &l.Batches[i]
		if !slices.Contains(b.Grids, rollup.Minute) || rollup.Span(b.From, b.To)&hours == 0 {
			continue
		}
		// What a batch says takes the place of what earlier ones say.
		lo, hi := max(b.From, out.from)-out.from, min(b.To, out.to)-out.from
		for key, r := range rows {
			device := key[:slices.Index([]byte(key), 0)]
			if !b.Correction || slices.Contains(b.Devices, device) {
				empty(r.table, int(lo)*60, int(hi)*60)
				if b.From <= out.from {
					r.at0[0] = rollup.Sample{}
				}
			}
		}
		if b.Correction {
			d, err := get(b.CorrectionDocument(day))
			if err != nil {
				return missing(err)
			}
			if err := decode(d, d.SeriesIndex); err != nil {
				return false, err
			}
			continue
		}
		for _, m := range b.Without {
			without[m] = true
		}
		rosters := make(map[int][]rollup.Series)
		for _, ref := range b.SeriesIndexes(day) {
			d, err := get(ref)
			if err != nil {
				return missing(err)
			}
			rosters[ref.Part] = d.SeriesIndex
		}
		for _, m := range b.Metrics {
			if old, ok := out.families[m.Name]; !ok || len(m.Families) < len(old) {
				out.families[m.Name] = m.Families
			}
			for _, f := range m.Families {
				for _, ref := range b.Documents(day, m.Name, f, rollup.Minute, hours) {
					d, err := get(ref)
					if err != nil {
						return missing(err)
					}
					if err := decode(d, rosters[ref.Part]); err != nil {
						return false, err
					}
				}
			}
		}
	}
	// Metrics without rollups are not asked for here.
	for metric := range without {
		out.families[metric] = nil
	}
	for key, r := range rows {
		i := slices.Index([]byte(key), 0)
		device, series := key[:i], key[i+1:]
		if metric := owners[key]; !without[metric] {
			if out.answers[device] == nil {
				out.answers[device] = answer{}
			}
			out.answers[device].add(series, r.table, 0, r.at0[0], out.familiesOf(metric))
		}
	}
	return true, nil
}

// put puts a row of a decoded section into a table of one row, its first bucket where it belongs, and leaves out what
// is beyond the table.
func put(to, from *rollup.Table, row, at int) {
	lo, hi := max(0, -at), min(from.Buckets, to.Buckets-at)
	if lo >= hi {
		return
	}
	begin := row*from.Buckets + lo
	cells(to.N[at+lo:at+hi], from.N, begin)
	cells(to.Stale[at+lo:at+hi], from.Stale, begin)
	cells(to.LastT[at+lo:at+hi], from.LastT, begin)
	cells(to.Last[at+lo:at+hi], from.Last, begin)
	cells(to.FirstT[at+lo:at+hi], from.FirstT, begin)
	cells(to.First[at+lo:at+hi], from.First, begin)
	cells(to.Hi[at+lo:at+hi], from.Hi, begin)
	cells(to.Lo[at+lo:at+hi], from.Lo, begin)
	cells(to.Size[at+lo:at+hi], from.Size, begin)
	cells(to.Min[at+lo:at+hi], from.Min, begin)
	cells(to.Max[at+lo:at+hi], from.Max, begin)
	to.Rounded[0] = to.Rounded[0] || from.Rounded[row]
	if from.Resets == nil {
		return
	}
	kept := slices.DeleteFunc(to.Resets[0], func(r rollup.Reset) bool {
		return int(r.Bucket) >= at+lo && int(r.Bucket) < at+hi
	})
	for _, r := range from.Resets[row] {
		if k := int(r.Bucket); k >= lo && k < hi {
			kept = append(kept, rollup.Reset{Bucket: int32(at + k), Values: r.Values})
		}
	}
	slices.SortFunc(kept, func(a, b rollup.Reset) int { return int(a.Bucket - b.Bucket) })
	to.Resets[0] = kept
}

// cells copies cells of a column, if it was decoded.
func cells[T any](to, from []T, begin int) {
	if from != nil {
		copy(to, from[begin:])
	}
}

// empty empties buckets of a table of one row, from one up to and without another.
func empty(t *rollup.Table, from, to int) {
	clear(t.N[from:to])
	clear(t.Stale[from:to])
	if t.Resets != nil {
		t.Resets[0] = slices.DeleteFunc(t.Resets[0], func(r rollup.Reset) bool {
			return int(r.Bucket) >= from && int(r.Bucket) < to
		})
	}
}

func everything(string) rollup.Families { return rollup.AllFamilies }

// familiesOf is what rollups say of a metric, nil for nothing; of one that only corrections have, everything.
func (o *result) familiesOf(metric string) rollup.Families {
	if f, ok := o.families[metric]; ok {
		return f
	}
	return rollup.AllFamilies
}
