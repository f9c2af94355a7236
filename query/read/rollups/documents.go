package rollups

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"binnacle/binning/rollup"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/read/chunks"
	"binnacle/query/read/kept"
	"binnacle/query/read/piece"
	"binnacle/sharding"
)

// manifestsAge is how long a manifest is used again. An older one is as right, but needs more chunks (rule V4).
const manifestsAge = 2 * time.Minute

// How many batches a scan names, for more it asks for all; and how many second-level keys a scan for manifests names.
const (
	maxBatches = 64
	maxNames   = 16
)

// forever is the age of what never changes.
const forever = time.Duration(1 << 62)

// What rollups are cached under.
type (
	manifestKey struct {
		container, shard string
		day              telemetry.Day
	}
	documentKey   struct{ container, shard, id string }
	correctionKey struct {
		documentKey
		metrics, families string
		grid              rollup.Grid
	}
)

// cachedRollup is a rollup document, or a correction.
type cachedRollup struct {
	series    []rollup.Series // a correction's series
	documents []*Document
	short     bool // a correction that lacks some of the requested families
	bytes     int64
}

// manifests returns the manifests of the job's days, nil for a day without one. With fresh it does not use the cache.
// Where no manifest was read before, the same scan reads the documents that the request most likely needs.
func (j *job) manifests(ctx context.Context, fresh bool) (map[telemetry.Day]*manifest, error) {
	container := sharding.RollupsContainer(j.target.Container)
	out := make(map[telemetry.Day]*manifest)
	var lacking []*dayRead
	key := func(day telemetry.Day) manifestKey { return manifestKey{container, j.target.TenantShard, day} }
	isFirst := !fresh
	for _, d := range j.days {
		_, before := j.r.cfg.Room.Get(key(d.day), forever)
		isFirst = isFirst && !before
		if l, ok := j.r.cfg.Room.Get(key(d.day), manifestsAge); ok && !fresh {
			out[d.day], _ = l.(*manifest)
			continue
		}
		lacking = append(lacking, d)
	}
	if len(lacking) == 0 {
		return out, nil
	}
	scan := store.RollupScan{
		Range: telemetry.Range{From: lacking[0].asked.From, To: lacking[len(lacking)-1].asked.To},
		Key:   store.RollupKey{Container: container, TenantShard: j.target.TenantShard, Name: rollup.ManifestKey}}
	if names := j.names(); isFirst && len(names) <= maxNames {
		scan.Key.Name, scan.Names = "", names
	}
	found := make(map[telemetry.Day]*manifest)
	err := j.scanRollups(ctx, scan, func(doc []byte) error {
		d, err := j.keep(doc, &wanted{names: scan.Names})
		switch {
		case d == nil || d.Key == rollup.ManifestKey:
		case errors.Is(err, rollup.ErrCorrupt): // if it is needed, it is read again
			return nil
		default:
			return err
		}
		l, err := rollup.ParseManifest(doc)
		if err == nil && l.TenantShard != j.target.TenantShard {
			err = fmt.Errorf("%w: a manifest of %q", rollup.ErrCorrupt, l.TenantShard)
		}
		if err != nil { // its day is read from chunks
			j.r.warn(j.target.TenantShard, err)
			return nil
		}
		found[l.Day] = &manifest{Manifest: l, bytes: 2 * int64(len(doc)), sum: sha256.Sum256(doc)}
		return nil
	})
	if err != nil && !errors.Is(err, store.ErrNoContainer) {
		return nil, err
	}
	for _, d := range lacking {
		l, bytes := found[d.day], int64(0)
		if l != nil {
			l.date, bytes = j.date, l.bytes
		}
		out[d.day] = l
		j.r.cfg.Room.Put(key(d.day), l, bytes)
	}
	return out, nil
}

// names returns the second-level keys of manifests, and of all that the request may need but for corrections.
func (j *job) names() []string {
	ask, out := j.Request.Rollups, []string{rollup.ManifestKey, rollup.SeriesIndexKey}
	for _, metric := range ask.Metrics {
		for _, f := range ask.Columns.Families() {
			out = append(out, rollup.Key(metric, f, ask.Grid))
		}
	}
	return out
}

// scanRollups scans rollup documents. It returns errors of take as they are, and store.ErrNoContainer.
func (j *job) scanRollups(ctx context.Context, s store.RollupScan, take func(doc []byte) error) error {
	var own error
	s.Charge = func(rus float64) error {
		own = j.Account.Charge(rus)
		return own
	}
	usage, err := j.r.cfg.Rollups.ScanRollups(ctx, s, func(doc []byte) error {
		own = take(doc)
		return own
	})
	j.date = max(usage.Date.Unix(), 0)
	j.Account.Add(piece.Stats{RequestUnits: usage.RUs, Rollups: usage.Documents})
	j.Account.Explain(func(e *piece.Explained) {
		e.RollupScans = append(e.RollupScans, piece.ScanExplained{
			Key:    sharding.Key{Container: s.Key.Container, TenantShard: s.Key.TenantShard},
			Rollup: cmp.Or(s.Key.Name, strings.Join(s.Names, " ")),
			Range:  s.Range, Documents: usage.Documents, RequestUnits: usage.RUs})
	})
	if err == nil && own == nil {
		j.r.learn(j.Request.Tenant, usage.Documents, usage.RUs-chunks.SeekCost(rollupSeeks))
	}
	switch {
	case own != nil:
		return own
	case err != nil && !errors.Is(err, store.ErrNoContainer):
		what := fmt.Sprintf("read rollups %q of %q in %s", s.Key.Name, s.Key.TenantShard, s.Key.Container)
		return piece.Unavailable(ctx, what, err)
	}
	return err
}

// wanted is the documents that a job lacks.
type wanted struct {
	names, batches []string        // second-level keys
	r              telemetry.Range // of the days' hours that rollups cover
	ids            map[string]bool // nil for all
}

func (w *wanted) add(d *dayRead, ref rollup.Ref, batch string) {
	of := rollup.Range(d.day, d.from, d.to)
	if len(w.ids) == 0 {
		w.r = of
	}
	w.r.From, w.r.To = min(w.r.From, of.From), max(w.r.To, of.To)
	w.ids[ref.ID] = true
	for list, name := range map[*[]string]string{&w.names: ref.Key, &w.batches: batch} {
		if !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
}

// documents reads what the days need. It reports whether some of it is gone.
func (j *job) documents(ctx context.Context) (gone bool, err error) {
	found, held := 0, int64(0)
	lacking := wanted{ids: make(map[string]bool)}
	j.refs(func(d *dayRead, ref rollup.Ref, batch string) {
		if _, ok := j.kept[ref.ID]; ok {
			return
		}
		if v, ok := j.r.cfg.Room.Get(j.keyOf(ref), forever); ok {
			j.kept[ref.ID] = v
			if l, ok := v.(*cachedRollup); ok {
				held += l.bytes
			}
			found++
			return
		}
		lacking.add(d, ref, batch)
	})
	j.Account.Add(piece.Stats{RollupsCached: found})
	if err := j.takeMemory(held); err != nil {
		return false, err
	}
	defer func() {
		if gone {
			j.Account.Memory.Give(j.held)
			j.held = 0
			clear(j.kept)
		}
	}()
	if len(lacking.ids) > 0 {
		err := j.fetch(ctx, &lacking)
		switch {
		case errors.Is(err, rollup.ErrCorrupt):
			j.r.warn(j.target.TenantShard, err)
			return true, nil
		case errors.Is(err, store.ErrNoContainer), err == nil && len(lacking.ids) > 0:
			return true, nil
		case err != nil:
			return false, err
		}
	}
	j.rollups = nil
	for _, d := range j.days {
		if d.hasRollups() {
			j.rollups = append(j.rollups, j.assemble(d))
		}
	}
	return false, nil
}

// warn logs why rollups of a key cannot be read.
func (r *Reader) warn(key string, err error) {
	r.cfg.Logger.Warn("cannot read rollups", "key", key, "error", err)
}

// takeMemory counts memory that rollups take.
func (j *job) takeMemory(bytes int64) error {
	err := j.Account.Memory.Take(bytes)
	if err == nil {
		j.held += bytes
	}
	return err
}

func (j *job) keyOf(ref rollup.Ref) any {
	k := documentKey{sharding.RollupsContainer(j.target.Container), j.target.TenantShard, ref.ID}
	if ask := j.Request.Rollups; ref.Key == rollup.CorrectionsKey {
		return correctionKey{k, kept.Names(ask.Metrics), ask.Columns.Families().String(), ask.Grid}
	}
	return k
}

// fetch reads documents, and removes the found ones from w.
func (j *job) fetch(ctx context.Context, w *wanted) error {
	s := store.RollupScan{Names: w.names, Range: w.r, Batches: w.batches,
		Key: store.RollupKey{Container: sharding.RollupsContainer(j.target.Container), TenantShard: j.target.TenantShard}}
	if len(w.names) == 1 {
		s.Key.Name, s.Names = w.names[0], nil
	}
	if len(w.batches) > maxBatches {
		s.Batches = nil
	}
	return j.scanRollups(ctx, s, func(doc []byte) error {
		_, err := j.keep(doc, w)
		return err
	})
}

// keep parses a document and, if it is wanted, keeps what the request needs of it, also in the room.
func (j *job) keep(doc []byte, w *wanted) (*rollup.Document, error) {
	d, err := rollup.Parse(bytes.Clone(doc)) // what it refers to from now on
	if err != nil || w.ids != nil && !w.ids[d.ID] {
		return d, err
	}
	if d.TenantShard != j.target.TenantShard || !slices.Contains(w.names, d.Key) {
		return d, fmt.Errorf("%w: document %s is of %q, %q", rollup.ErrCorrupt, d.ID, d.TenantShard, d.Key)
	}
	delete(w.ids, d.ID)
	key := j.keyOf(rollup.Ref{Key: d.Key, ID: d.ID})
	if d.Key == rollup.SeriesIndexKey {
		j.kept[d.ID] = d.SeriesIndex
		j.r.cfg.Room.Put(key, d.SeriesIndex, 2*int64(len(doc)))
		return d, nil
	}
	l, err := j.open(d, key)
	if err != nil {
		return d, fmt.Errorf("document %s of %q: %w", d.ID, d.TenantShard, err)
	}
	l.bytes += int64(len(doc))
	if err := j.takeMemory(l.bytes); err != nil {
		return d, err
	}
	j.kept[d.ID] = l
	j.r.cfg.Room.Put(key, l, l.bytes)
	return d, nil
}

func needs(ask *piece.RollupsRequest, s *rollup.Section) bool {
	return slices.Contains(ask.Metrics, s.Metric) && s.Grid == ask.Grid && ask.Columns.Families().Has(s.Family)
}

// open returns what a request needs of a document, which is not decoded before it is used.
func (j *job) open(d *rollup.Document, key any) (*cachedRollup, error) {
	ask := j.Request.Rollups
	out := &cachedRollup{series: d.SeriesIndex, bytes: 64 * int64(len(d.SeriesIndex))}
	families := make(map[string]int)
	for i := range d.Sections {
		s := &d.Sections[i]
		if !needs(ask, s) {
			continue
		}
		places, err := s.SeriesNumbers()
		if err != nil {
			return nil, err
		}
		x := &Document{Metric: s.Metric, From: d.From, To: d.To, section: s, r: j.r, key: key, id: d.ID}
		for row, place := range places {
			for len(x.Rows) <= int(place) {
				x.Rows = append(x.Rows, -1)
			}
			x.Rows[place] = int32(row)
		}
		if s.Family == rollup.Last && d.From == 0 {
			if x.At0, err = s.SamplesAtMidnight(); err != nil {
				return nil, err
			}
		}
		out.documents = append(out.documents, x)
		families[s.Metric]++
		out.bytes += 512 + 4*int64(len(x.Rows)) + 16*int64(len(x.At0))
	}
	for _, n := range families {
		out.short = out.short || n < len(ask.Columns.Families())
	}
	return out, nil
}

// Decode returns the table of the document with the wanted columns that it has, and the memory that this takes. The
// table must not be changed. It stays decoded while there is room. Decode is safe for any number of callers.
func (d *Document) Decode(want rollup.Columns, memory *piece.Memory) (t *rollup.Table, bytes int64, err error) {
	s := d.section
	bytes = rollup.Bytes(s.Series, s.Buckets, rollup.Families{s.Family})
	if err := memory.Take(bytes); err != nil { // a few bytes may become many: there must be room before
		return nil, 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if lacking := s.Has() & want &^ d.decoded; lacking != 0 || d.table == nil {
		t = &rollup.Table{Rows: s.Series, Buckets: s.Buckets}
		if d.table != nil {
			*t = *d.table
		}
		if err := s.Decode(t, lacking); err != nil {
			d.r.warn(d.id, err)
			return nil, bytes, fmt.Errorf("document %s: %w", d.id, err)
		}
		if d.table != nil || d.r.cfg.Room.GrowIfFree(d.key, bytes+t.ResetBytes()) {
			d.table, d.decoded = t, d.decoded|lacking
		}
	} else {
		t = d.table
	}
	resets := t.ResetBytes()
	return t, bytes + resets, memory.Take(resets)
}

// refs calls yield with each document that the days need.
func (j *job) refs(yield func(d *dayRead, ref rollup.Ref, batch string)) {
	ask := j.Request.Rollups
	for _, d := range j.days {
		for _, c := range d.chosen(ask.Grid) {
			if c.corrected != nil {
				yield(d, c.CorrectionDocument(d.day), c.Name)
			}
			for _, metric := range ask.Metrics {
				m := c.Metric(metric)
				if c.owned == 0 || m == nil {
					continue
				}
				for _, ref := range c.SeriesIndexes(d.day) {
					if m.Parts == nil || slices.Contains(m.Parts, ref.Part) {
						yield(d, ref, c.Name)
					}
				}
				for _, ref := range c.documents(ask, d.day, metric) {
					yield(d, ref, c.Name)
				}
			}
		}
	}
}

func (j *job) assemble(d *dayRead) *Rollups {
	ask := j.Request.Rollups
	out := &Rollups{Day: d.day, Grid: ask.Grid, Columns: ask.Columns, Raw: d.raw}
	for _, c := range d.chosen(ask.Grid) {
		if c.corrected != nil {
			l := j.kept[c.CorrectionDocument(d.day).ID].(*cachedRollup)
			out.Parts = append(out.Parts, Part{Series: l.series, Documents: l.documents, Of: c.corrected})
			for device := range c.corrected {
				if l.short {
					d.raw[device] = true
				}
			}
		}
		if c.owned == 0 {
			continue
		}
		parts := make(map[int]*Part)
		for _, ref := range c.SeriesIndexes(d.day) {
			if series, ok := j.kept[ref.ID].([]rollup.Series); ok {
				parts[ref.Part] = &Part{Series: series, Hours: c.owned, Of: c.left}
			}
		}
		for _, metric := range ask.Metrics {
			for _, ref := range c.documents(ask, d.day, metric) {
				p := parts[ref.Part]
				p.Documents = append(p.Documents, j.kept[ref.ID].(*cachedRollup).documents...)
			}
		}
		for part := range c.Parts {
			if p := parts[part]; p != nil {
				out.Parts = append(out.Parts, *p)
			}
		}
	}
	return out
}

// load decides what rollups cover and reads it. Where an old manifest names documents that are gone, manifests
// are read again; what is missing then is read from chunks.
func (j *job) load(ctx context.Context) error {
	for again := range 2 {
		manifests, err := j.manifests(ctx, again > 0)
		if err != nil {
			return err
		}
		for _, d := range j.days {
			d.from, d.to = 0, 0
			if l := manifests[d.day]; l != nil {
				d.cover(l, j.Request.Rollups)
				j.leaveOutErased(d)
			}
		}
		gone, err := j.documents(ctx)
		if err != nil || !gone {
			return err
		}
	}
	for _, d := range j.days {
		d.from, d.to = 0, 0
	}
	j.rollups = nil
	return nil
}
