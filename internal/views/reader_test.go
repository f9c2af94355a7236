package views_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"binnacle/binning/chunk"
	"binnacle/binning/lane"
	"binnacle/internal/store"
	"binnacle/internal/views"
	"binnacle/sharding"
)

// told is what a query tells of a key: per device the answer, and whether it came from chunks.
type told struct {
	answers  map[string]answer
	raw      map[string]bool
	families map[string]lane.Families
	from, to int
}

// query reads some hours of a key by rule V4: the ledger, an old one if there is one, the chunks since its asOf, lanes,
// and raw what has to be. ok is false when no hours have lanes.
func (a *actor) query(ctx context.Context, t views.Target, cached *lane.Ledger) (out told, l *lane.Ledger, err error) {
	w := a.w
	if l = cached; l == nil {
		v, _, _, err := a.ReadView(ctx, viewKey(t, lane.LedgerKey), lane.LedgerID(day))
		if errors.Is(err, store.ErrNotFound) {
			return told{}, nil, nil
		}
		if err != nil {
			return told{}, nil, err
		}
		if l, err = lane.ParseLedger(v.Doc); err != nil {
			return told{}, nil, err
		}
	}
	out = told{answers: make(map[string]answer), raw: make(map[string]bool), families: make(map[string]lane.Families)}
	// Hours that have lanes of minutes, a run of them.
	sealed := l.Sealed()
	if sealed == 0 {
		return told{}, l, nil
	}
	out.from = w.rnd.IntN(24)
	for !sealed.Has(out.from) {
		out.from = w.rnd.IntN(24)
	}
	for out.to = out.from + 1; out.to < 24 && sealed.Has(out.to) && w.rnd.IntN(4) > 0; {
		out.to++
	}
	hours := lane.Span(out.from, out.to)
	prefix := sharding.Key{Container: t.Chunks, TenantShard: t.TenantShard}
	_, err = a.Scan(ctx, store.Scan{Key: prefix, Range: lane.Range(day, out.from, out.to), Since: l.AsOf},
		func(doc []byte) error {
			c, err := chunk.Parse(doc)
			if err == nil {
				out.raw[c.Header.Device] = true
			}
			return err
		})
	if err != nil {
		return told{}, nil, err
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
		if whole, err = a.lanes(ctx, t, l, &out); err != nil {
			return told{}, nil, err
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
		_, err := a.Scan(ctx, store.Scan{Key: key[0], Range: lane.Range(day, 0, 24)}, func(doc []byte) error {
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
			return told{}, nil, err
		}
		out.answers[device] = raw(records, out.from, out.to, everything)
	}
	return out, l, nil
}

func viewKey(t views.Target, second string) store.ViewKey {
	return store.ViewKey{Container: sharding.ViewsContainer(t.Chunks), TenantShard: t.TenantShard, Lane: second}
}

// lanes reads all lanes of some hours; whole is false when a document is missing.
func (a *actor) lanes(ctx context.Context, t views.Target, l *lane.Ledger, out *told) (whole bool, err error) {
	hours := lane.Span(out.from, out.to)
	type row struct {
		table *lane.Table
		at0   []lane.Sample
	}
	rows := make(map[string]row) // by device and series
	of := func(device, series string) row {
		key := device + "\x00" + series
		if rows[key].table == nil {
			rows[key] = row{lane.NewTable(1, (out.to-out.from)*60, lane.AllFamilies), make([]lane.Sample, 1)}
		}
		return rows[key]
	}
	owners := make(map[string]string)
	decode := func(d *lane.Document, roster []lane.Series) error {
		for i := range d.Sections {
			s := &d.Sections[i]
			if s.Grid != lane.Minute {
				continue
			}
			for place, series := range roster {
				places, err := s.Places()
				if err != nil {
					return err
				}
				if !slices.Contains(places, int32(place)) {
					continue
				}
				to := make([]int32, len(roster))
				for k := range to {
					to[k] = -1
				}
				to[place] = 0
				name := fmt.Sprint(series.Labels, s.Metric)
				r := of(series.Device, name)
				owners[series.Device+"\x00"+name] = s.Metric
				var at0 []lane.Sample
				if d.From == out.from {
					at0 = r.at0
				}
				if err := s.Decode(r.table, (d.From-out.from)*60, to, at0); err != nil {
					return err
				}
			}
		}
		return nil
	}
	get := func(ref lane.Ref) (*lane.Document, error) {
		v, _, _, err := a.ReadView(ctx, viewKey(t, ref.Key), ref.ID)
		if err != nil {
			return nil, err
		}
		return lane.Parse(v.Doc)
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
		if !slices.Contains(b.Grids, lane.Minute) || lane.Span(b.From, b.To)&hours == 0 {
			continue
		}
		// What a batch says takes the place of what earlier ones say.
		lo, hi := max(b.From, out.from)-out.from, min(b.To, out.to)-out.from
		for key, r := range rows {
			device := key[:slices.Index([]byte(key), 0)]
			if !b.Fold || slices.Contains(b.Devices, device) {
				r.table.Clear(0, lo*60, hi*60)
				if b.From <= out.from {
					r.at0[0] = lane.Sample{}
				}
			}
		}
		if b.Fold {
			d, err := get(b.FoldDocument(day))
			if err != nil {
				return missing(err)
			}
			if err := decode(d, d.Roster); err != nil {
				return false, err
			}
			continue
		}
		for _, m := range b.Without {
			without[m] = true
		}
		rosters := make(map[int][]lane.Series)
		for _, ref := range b.Rosters(day) {
			d, err := get(ref)
			if err != nil {
				return missing(err)
			}
			rosters[ref.Part] = d.Roster
		}
		for _, m := range b.Metrics {
			if old, ok := out.families[m.Name]; !ok || len(m.Families) < len(old) {
				out.families[m.Name] = m.Families
			}
			for _, f := range m.Families {
				for _, ref := range b.Documents(day, m.Name, f, lane.Minute, hours) {
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
	// Metrics without lanes are not asked for here.
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

func everything(string) lane.Families { return lane.AllFamilies }

// familiesOf is what lanes say of a metric, nil for nothing; of one that only folds have, everything.
func (o *told) familiesOf(metric string) lane.Families {
	if f, ok := o.families[metric]; ok {
		return f
	}
	return lane.AllFamilies
}
