package read

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"binnacle/binning/lane"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// ledgersAge is how old a ledger may be that is used again: an older one is as right, but of what it does not show more
// is read from chunks (rule V4).
const ledgersAge = 2 * time.Minute

// maxBatches is how many batches are named in a scan; of more all are asked for.
const maxBatches = 64

// What lanes are kept under.
type (
	ledgerKey struct {
		container, shard string
		day              telemetry.Day
	}
	rosterKey struct{ container, shard, id string }
	laneKey   struct {
		rosterKey
		metric, families string
		grid             lane.Grid
	}
)

// keptLane is a document of lanes, decoded.
type keptLane struct {
	roster    []lane.Series // of a fold
	documents []*LaneDocument
	short     bool // of a fold: it has something of the metric, and not all that is asked for
	bytes     int64
}

// ledgers is those of the job's days, nil for days that have none.
func (j *laneJob) ledgers(ctx context.Context, anew bool) (map[telemetry.Day]*ledger, error) {
	container := sharding.ViewsContainer(j.target.Container)
	now := j.r.cfg.Now()
	out := make(map[telemetry.Day]*ledger)
	lacking := telemetry.Range{From: telemetry.MaxMillis}
	key := func(day telemetry.Day) ledgerKey { return ledgerKey{container, j.target.TenantShard, day} }
	for _, d := range j.days {
		if l, ok := j.r.cache.thing(key(d.day), now, ledgersAge); ok && !anew {
			out[d.day], _ = l.(*ledger)
			continue
		}
		lacking.From, lacking.To = min(lacking.From, d.day.Start()), d.day.End()
	}
	if lacking.Empty() {
		return out, nil
	}
	scan := store.LaneScan{Range: lacking,
		Key: store.ViewKey{Container: container, TenantShard: j.target.TenantShard, Lane: lane.LedgerKey}}
	found := make(map[telemetry.Day]*ledger)
	err := j.scanLanes(ctx, scan, func(doc []byte) error {
		l, err := lane.ParseLedger(doc)
		if err == nil && l.TenantShard != j.target.TenantShard {
			err = fmt.Errorf("%w: a ledger of %q", lane.ErrCorrupt, l.TenantShard)
		}
		if err != nil { // its day is read from chunks
			j.r.cfg.Logger.Warn("ledger not read", "key", j.target.TenantShard, "error", err)
			return nil
		}
		found[l.Day] = &ledger{l, container}
		j.r.cache.put(key(l.Day), found[l.Day], 2*int64(len(doc)), now)
		return nil
	})
	if err != nil && !errors.Is(err, store.ErrNoContainer) {
		return nil, err
	}
	for _, d := range j.days {
		if d.day.Start() < lacking.From || d.day.End() > lacking.To {
			continue
		}
		if out[d.day] = found[d.day]; found[d.day] == nil {
			j.r.cache.put(key(d.day), (*ledger)(nil), 0, now)
		}
	}
	return out, nil
}

// scanLanes scans documents of lanes. Errors of take are returned as they are, and store.ErrNoContainer.
func (j *laneJob) scanLanes(ctx context.Context, s store.LaneScan, take func(doc []byte) error) error {
	var own error
	s.Charge = func(rus float64) error {
		own = j.charge(rus)
		return own
	}
	usage, err := j.r.cfg.Lanes.ScanLanes(ctx, s, func(doc []byte) error {
		own = take(doc)
		return own
	})
	j.tally.lane(usage, 0)
	j.explainLanes(s, usage)
	if err == nil && own == nil {
		j.r.pace.learnLanes(j.req.Tenant, usage)
	}
	switch {
	case own != nil:
		return own
	case err != nil && !errors.Is(err, store.ErrNoContainer):
		what := fmt.Sprintf("read lanes %q of %q in %s", s.Key.Lane, s.Key.TenantShard, s.Key.Container)
		return Unavailable(ctx, what, err)
	}
	return err
}

// wanted is documents of a lane that a job needs.
type wanted struct {
	lane    string
	r       telemetry.Range // that they lie in
	batches []string
	ids     map[string]bool
}

func (w *wanted) add(day telemetry.Day, ref lane.Ref, batch string) {
	if w.ids == nil {
		w.ids, w.r = make(map[string]bool), lane.Range(day, ref.From, ref.To)
	}
	of := lane.Range(day, ref.From, ref.To)
	w.r.From, w.r.To = min(w.r.From, of.From), max(w.r.To, of.To)
	w.ids[ref.ID] = true
	if !slices.Contains(w.batches, batch) {
		w.batches = append(w.batches, batch)
	}
}

// documents reads the lanes of all days, and says what they show. It reports whether some of them are gone.
func (j *laneJob) documents(ctx context.Context) (gone bool, err error) {
	kept, found := make(map[string]any), 0
	lanes := make(map[string]*wanted)
	now := j.r.cfg.Now()
	var held int64
	j.refs(func(d *laneDay, ref lane.Ref, batch string) {
		if _, ok := kept[ref.ID]; ok {
			return
		}
		if v, ok := j.r.cache.thing(j.keyOf(ref), now, time.Duration(1<<62)); ok {
			kept[ref.ID] = v
			if l, ok := v.(*keptLane); ok {
				held += l.bytes
			}
			found++
			return
		}
		if lanes[ref.Key] == nil {
			lanes[ref.Key] = &wanted{lane: ref.Key}
		}
		lanes[ref.Key].add(d.day, ref, batch)
	})
	j.tally.lane(store.Usage{}, found)
	if err := j.room(held); err != nil {
		return false, err
	}
	defer func() {
		if gone {
			j.Memory.Give(j.decoded)
			j.decoded = 0
		}
	}()
	for _, w := range lanes {
		err := j.fetch(ctx, w, kept)
		switch {
		case errors.Is(err, lane.ErrCorrupt):
			j.r.cfg.Logger.Warn("lanes not read", "key", j.target.TenantShard, "lane", w.lane, "error", err)
			return true, nil
		case errors.Is(err, store.ErrNoContainer), err == nil && len(w.ids) > 0:
			return true, nil
		case err != nil:
			return false, err
		}
	}
	j.shown = nil
	for _, d := range j.days {
		if d.laned() {
			j.shown = append(j.shown, j.lanes(d, kept))
		}
	}
	return false, nil
}

// room counts memory that lanes take.
func (j *laneJob) room(bytes int64) error {
	err := j.Memory.Take(bytes)
	if err == nil {
		j.decoded += bytes
	}
	return err
}

func (j *laneJob) keyOf(ref lane.Ref) any {
	k := rosterKey{sharding.ViewsContainer(j.target.Container), j.target.TenantShard, ref.ID}
	if ref.Key == lane.RosterKey {
		return k
	}
	return laneKey{k, j.req.Lanes.Metric, j.req.Lanes.Families.String(), j.req.Lanes.Grid}
}

// fetch reads documents of a lane, and takes those that it has found out of w.
func (j *laneJob) fetch(ctx context.Context, w *wanted, kept map[string]any) error {
	s := store.LaneScan{
		Key: store.ViewKey{Container: sharding.ViewsContainer(j.target.Container), TenantShard: j.target.TenantShard,
			Lane: w.lane},
		Range: w.r, Batches: w.batches,
	}
	if len(w.batches) > maxBatches {
		s.Batches = nil
	}
	now := j.r.cfg.Now()
	return j.scanLanes(ctx, s, func(doc []byte) error {
		d, err := lane.Parse(doc)
		if err != nil {
			return err
		}
		if !w.ids[d.ID] {
			return nil
		}
		if d.TenantShard != j.target.TenantShard || d.Key != w.lane {
			return fmt.Errorf("%w: document %s is of %q, %q", lane.ErrCorrupt, d.ID, d.TenantShard, d.Key)
		}
		delete(w.ids, d.ID)
		ref := lane.Ref{Key: d.Key, ID: d.ID}
		if d.Key == lane.RosterKey {
			kept[d.ID] = d.Roster
			j.r.cache.put(j.keyOf(ref), d.Roster, 2*int64(len(doc)), now)
			return nil
		}
		// A few bytes may become many: there must be room before.
		taken := laneBytes(d, j.req.Lanes)
		if err := j.room(taken); err != nil {
			return err
		}
		l, err := decodeLane(d, j.req.Lanes)
		if err != nil {
			return fmt.Errorf("document %s of %q: %w", d.ID, d.TenantShard, err)
		}
		if err := j.room(l.bytes - taken); err != nil {
			return err
		}
		kept[d.ID] = l
		j.r.cache.put(j.keyOf(ref), l, l.bytes, now)
		return nil
	})
}

// needs reports whether a request needs a section.
func (ask *LanesRequest) needs(s *lane.Section) bool {
	return s.Metric == ask.Metric && s.Grid == ask.Grid && ask.Families.Has(s.Family)
}

// laneBytes is what the sections of a document take, decoded, that a request needs, but for their falls.
func laneBytes(d *lane.Document, ask *LanesRequest) int64 {
	n := 64 * int64(len(d.Roster))
	for i := range d.Sections {
		if s := &d.Sections[i]; ask.needs(s) {
			n += lane.Bytes(s.Series, s.Buckets, lane.Families{s.Family}) + 4*int64(s.Series)
		}
	}
	return n
}

// decodeLane decodes the sections of a document that a request needs.
func decodeLane(d *lane.Document, ask *LanesRequest) (*keptLane, error) {
	out, families := &keptLane{roster: d.Roster, bytes: laneBytes(d, ask)}, make(map[lane.Family]bool)
	for i := range d.Sections {
		s := &d.Sections[i]
		if !ask.needs(s) {
			continue
		}
		places, err := s.Places()
		if err != nil {
			return nil, err
		}
		x := &LaneDocument{From: d.From, To: d.To, Table: lane.NewTable(s.Series, s.Buckets, lane.Families{s.Family})}
		for row, place := range places {
			for len(x.Rows) <= int(place) {
				x.Rows = append(x.Rows, -1)
			}
			x.Rows[place] = int32(row)
		}
		if s.Family == lane.Last && d.From == 0 {
			x.At0 = make([]lane.Sample, s.Series)
		}
		if err := s.Decode(x.Table, 0, x.Rows, x.At0); err != nil {
			return nil, err
		}
		out.documents, families[s.Family] = append(out.documents, x), true
		out.bytes += x.Table.FallBytes() + 4*int64(len(x.Rows)-s.Series)
	}
	out.short = len(families) > 0 && len(families) < len(ask.Families)
	return out, nil
}

// refs calls yield with each document that the days need.
func (j *laneJob) refs(yield func(d *laneDay, ref lane.Ref, batch string)) {
	ask := j.req.Lanes
	for _, d := range j.days {
		if !d.laned() {
			continue
		}
		owners := d.ledger.owners(ask.Grid)
		owned := ownedBy(owners, d.hours())
		folded, _ := d.ledger.folded(ask.Grid, owners, d.hours())
		for i := range d.ledger.Batches {
			b := &d.ledger.Batches[i]
			if folded[i] != nil {
				yield(d, b.FoldDocument(d.day), b.Name)
			}
			m := b.Metric(ask.Metric)
			if owned[i] == 0 || m == nil {
				continue
			}
			for _, ref := range b.Rosters(d.day) {
				if m.Parts == nil || slices.Contains(m.Parts, ref.Part) {
					yield(d, ref, b.Name)
				}
			}
			for _, f := range ask.Families {
				for _, ref := range b.Documents(d.day, ask.Metric, f, ask.Grid, owned[i]) {
					yield(d, ref, b.Name)
				}
			}
		}
	}
}

// ownedBy is, by batch, the hours of those that are shown that it owns.
func ownedBy(owners [lane.HoursOfDay]int, shown lane.Hours) map[int]lane.Hours {
	out := make(map[int]lane.Hours)
	for h, i := range owners {
		if i >= 0 && shown.Has(h) {
			out[i] |= lane.Span(h, h+1)
		}
	}
	return out
}

// lanes is what the lanes of a day show.
func (j *laneJob) lanes(d *laneDay, kept map[string]any) *Lanes {
	ask := j.req.Lanes
	out := &Lanes{Day: d.day, Grid: ask.Grid, Raw: d.raw}
	owners := d.ledger.owners(ask.Grid)
	owned := ownedBy(owners, d.hours())
	folded, taken := d.ledger.folded(ask.Grid, owners, d.hours())
	for i := range d.ledger.Batches {
		b := &d.ledger.Batches[i]
		if of := folded[i]; of != nil {
			l := kept[b.FoldDocument(d.day).ID].(*keptLane)
			out.Parts = append(out.Parts, LanePart{Roster: l.roster, Documents: l.documents, Of: of})
			for device := range of {
				if l.short {
					d.raw[device] = true
				}
			}
		}
		if owned[i] == 0 || b.Metric(ask.Metric) == nil {
			continue
		}
		parts := make(map[int]*LanePart)
		for _, ref := range b.Rosters(d.day) {
			roster, ok := kept[ref.ID].([]lane.Series)
			if !ok {
				continue
			}
			parts[ref.Part] = &LanePart{Roster: roster, Hours: owned[i], Of: make(map[string]lane.Hours)}
			for device, hours := range taken {
				parts[ref.Part].Of[device] = owned[i] &^ hours
			}
		}
		for _, f := range ask.Families {
			for _, ref := range b.Documents(d.day, ask.Metric, f, ask.Grid, owned[i]) {
				p := parts[ref.Part]
				p.Documents = append(p.Documents, kept[ref.ID].(*keptLane).documents...)
			}
		}
		for part := range b.Parts {
			if p := parts[part]; p != nil {
				out.Parts = append(out.Parts, *p)
			}
		}
	}
	return out
}
