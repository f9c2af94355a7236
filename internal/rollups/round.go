package rollups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"binnacle/binning/rollup"
	"binnacle/internal/erasure"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/sharding"
)

// Target is what one round is about: the chunks of a first-level key and day, and the rollups made of them.
type Target struct {
	Tenant      tenant.Tenant
	Chunks      string // the container of the chunks
	TenantShard string
	Day         telemetry.Day
}

func (t Target) rollupKey(second string) store.RollupKey {
	return store.RollupKey{Container: sharding.RollupsContainer(t.Chunks), TenantShard: t.TenantShard, Name: second}
}

// severalKeys reports whether the chunks of a device lie under several keys: its rollups would be of a part of them, so
// it has none (rule V5).
func (t Target) severalKeys(device string) bool {
	return len(t.Tenant.Placement.Keys(device, t.Day)) > 1
}

// Report is what a round did.
type Report struct {
	Built       rollup.Hours // hours that got rollups
	LateDevices int          // devices that were found to have late chunks
	Corrected   int          // devices that were recomputed
	Raw         int          // devices that are read raw, now
	Due         rollup.Hours // hours that were due and had no rollups when the round began
	// Open are the hours of Due that still have no rollups.
	Open      rollup.Hours
	Documents int // rollups, series indexes and corrections written
	Bytes     int
	Read      int // chunks read
	ReadRUs   float64
	WriteRUs  float64
	Lost      bool // another writer was faster: nothing of it counts
}

type round struct {
	*Writer
	Target
	Report

	// old is the manifest as it was read; empty if there was none.
	old        *rollup.Manifest
	manifest   *rollup.Manifest
	etag       string
	stored     []storedDocument // documents of this round
	commitSent bool             // the manifest may name them
	asOf       int64
	now        time.Time // the service's
}

type storedDocument struct {
	key store.RollupKey
	id  string
}

// errLost says that another process has replaced the manifest.
var errLost = errors.New("the manifest has changed meanwhile")

// Round does one round. With an error nothing of it counts, or all: it may be done again.
func (w *Writer) Round(ctx context.Context, t Target) (Report, error) {
	return w.round(ctx, t, false)
}

// Rebuild makes the rollups of a day's built and due hours again.
func (w *Writer) Rebuild(ctx context.Context, t Target) (Report, error) {
	return w.round(ctx, t, true)
}

func (w *Writer) round(ctx context.Context, t Target, rebuild bool) (Report, error) {
	r := &round{Writer: w, Target: t}
	err := r.run(ctx, rebuild)
	if errors.Is(err, errLost) {
		r.Lost, err = true, nil
		r.discard(ctx)
	}
	if err != nil && !r.commitSent {
		r.discard(ctx) // it will be tried again, under other names
	}
	if err != nil {
		err = fmt.Errorf("rollups of %s, %s: %w", t.TenantShard, t.Day, err)
	}
	return r.Report, err
}

func (r *round) run(ctx context.Context, rebuild bool) error {
	if err := r.read(ctx); err != nil {
		return err
	}
	// asOf is taken before anything is read: what is stored later has a greater _ts, whatever the margin is for.
	r.asOf = max(r.now.Add(-r.cfg.Margin).Unix(), r.old.AsOf)
	if r.asOf <= 0 {
		return nil
	}
	due := r.due(rebuild)
	if err := r.checkErasures(ctx); err != nil {
		return err
	}
	if err := r.markLate(ctx); err != nil {
		return err
	}
	changed := r.LateDevices > 0
	crowd := r.crowdedHours()
	if r.LateDevices == 0 {
		due |= crowd
	}
	if due != 0 || r.halfHoursDue() {
		held, err := r.lease(ctx)
		if err != nil || !held {
			return err
		}
	}
	for from, to := range runs(due) {
		if err := r.build(ctx, from, to, r.gridsOf(from, to)); err != nil {
			return err
		}
		changed = true
	}
	if r.halfHoursDue() {
		if err := r.build(ctx, 0, rollup.HoursOfDay, []rollup.Grid{rollup.HalfHour}); err != nil {
			return err
		}
		changed = true
	}
	if crowd == 0 {
		if err := r.correct(ctx); err != nil {
			return err
		}
	}
	if r.Raw = len(r.manifest.Raw); !changed && r.Corrected == 0 {
		return nil
	}
	return r.commit(ctx)
}

func (r *round) read(ctx context.Context) error {
	v, now, receipt, err := r.cfg.Rollups.ReadRollup(ctx, r.rollupKey(rollup.ManifestKey), rollup.ManifestID(r.Day))
	r.ReadRUs += receipt.RUs
	r.now = now
	switch {
	case errors.Is(err, store.ErrNotFound):
		r.old = &rollup.Manifest{TenantShard: r.TenantShard, Day: r.Day}
	case err != nil:
		return err
	default:
		if r.old, err = rollup.ParseManifest(v.Doc); err != nil {
			return err
		}
		r.etag = v.ETag
	}
	r.manifest = r.old.Clone()
	if now.IsZero() {
		return errors.New("the service does not say what time it is")
	}
	return r.pacer.Wait(ctx, receipt.RUs)
}

// due returns the hours to be built now: those with all chunks stored, by block, and those in which some expire.
func (r *round) due(rebuild bool) (due rollup.Hours) {
	covered := r.old.MinuteHours()
	block := hoursPerBlock(r.cfg.Hold)
	for from := 0; from < rollup.HoursOfDay; from += block {
		end := time.UnixMilli(r.Day.Start()).Add(time.Duration(from+block)*time.Hour + r.cfg.Hold + r.cfg.Margin)
		if hours := rollup.Span(from, from+block); !r.now.Before(end) && covered&hours != hours {
			due |= hours
		}
	}
	r.Due, r.Open = due, due
	for h, until := range r.old.Until {
		if until > 0 && until <= r.asOf {
			due |= rollup.Span(h, h+1)
		}
	}
	if rebuild || r.corrections() >= maxCorrections {
		due |= covered
	}
	return due
}

// crowdedHours returns the hours to be rebuilt because many devices are raw in them, none if few are.
func (r *round) crowdedHours() (hours rollup.Hours) {
	raw, size := 0, 0
	for _, marked := range r.manifest.Raw {
		if marked &= r.manifest.MinuteHours(); marked != 0 {
			raw++
			hours |= marked
		}
	}
	for i := range r.manifest.Batches {
		size = max(size, r.manifest.Batches[i].Size)
	}
	if raw < r.cfg.RebuildDevices || 4*raw < size {
		return 0
	}
	return hours
}

func (r *round) corrections() (n int) {
	for i := range r.manifest.Batches {
		if r.manifest.Batches[i].Correction {
			n++
		}
	}
	return n
}

// halfHoursDue reports whether the day's minutes are all there, and its half hours are not.
func (r *round) halfHoursDue() bool {
	return r.manifest.MinuteHours() == rollup.AllDay && r.manifest.CoveredHours(rollup.HalfHour) != rollup.AllDay
}

// gridsOf returns the grids of some hours. Half hours are made when a whole day is. Of hours that have them they are
// rebuilt with the minutes, or they would go on to say what those were.
func (r *round) gridsOf(from, to int) []rollup.Grid {
	if from == 0 && to == rollup.HoursOfDay || r.manifest.CoveredHours(rollup.HalfHour)&rollup.Span(from, to) != 0 {
		return []rollup.Grid{rollup.Minute, rollup.HalfHour}
	}
	return []rollup.Grid{rollup.Minute}
}

func runs(h rollup.Hours) func(func(from, to int) bool) {
	return func(yield func(from, to int) bool) {
		for from := 0; from < rollup.HoursOfDay; from++ {
			if !h.Has(from) {
				continue
			}
			to := from
			for to < rollup.HoursOfDay && h.Has(to) {
				to++
			}
			if !yield(from, to) {
				return
			}
			from = to
		}
	}
}

func (r *round) lease(ctx context.Context) (held bool, err error) {
	if r.cfg.Lease == nil {
		return true, nil
	}
	return r.cfg.Lease.Take(ctx, "rollups."+r.TenantShard, leaseLength)
}

func (r *round) commit(ctx context.Context) error {
	gone := r.manifest.Prune()
	r.manifest.AsOf = r.asOf
	r.manifest.Written++
	r.manifest.TTL = r.ttl(slices.Max(r.manifest.Until[:]), slices.Min(r.manifest.Until[:]) == 0)
	doc, err := r.manifest.Encode()
	if err != nil {
		return err
	}
	key, id := r.rollupKey(rollup.ManifestKey), rollup.ManifestID(r.Day)
	receipt, err := r.store(ctx, func(ctx context.Context) (store.Receipt, error) {
		r.commitSent = true
		if r.etag == "" {
			return r.cfg.Rollups.CreateRollup(ctx, key, id, doc)
		}
		return r.cfg.Rollups.ReplaceRollup(ctx, key, id, r.etag, doc)
	})
	r.WriteRUs += receipt.RUs
	r.Bytes += len(doc)
	if errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrChanged) {
		return errLost
	}
	if err != nil {
		return err
	}
	for i := range gone {
		r.remove(ctx, &gone[i])
	}
	return r.pacer.Wait(ctx, receipt.RUs)
}

// ttlMargin is how long rollups outlive the first of their chunks that expires.
const ttlMargin = 2 * 24 * time.Hour

// ttl returns the time to live of a document that shows chunks until they expire at a second; 0 is never.
func (r *round) ttl(until int64, never bool) int64 {
	if never || until == 0 {
		return 0
	}
	return min(max(until-r.now.Unix(), 0)+int64(ttlMargin/time.Second), 1<<31-1)
}

// remove deletes the documents of a batch that no manifest names any more, series indexes last: what shows a device is
// found by them (rule E-R10). A reader with an older manifest finds them missing, and reads chunks.
func (r *round) remove(ctx context.Context, b *rollup.Batch) {
	for _, ref := range slices.Backward(documentsOf(b, r.Day)) {
		receipt, err := r.cfg.Rollups.DeleteRollup(ctx, r.rollupKey(ref.Key), ref.ID)
		r.WriteRUs += receipt.RUs
		if err != nil || r.pacer.Wait(ctx, receipt.RUs) != nil {
			r.cfg.Logger.Warn("cannot delete an unused rollup document", "shard", r.TenantShard, "id", ref.ID, "error", err)
			return
		}
	}
}

func documentsOf(b *rollup.Batch, day telemetry.Day) []rollup.Ref {
	if b.Correction {
		return []rollup.Ref{b.CorrectionDocument(day)}
	}
	out := b.SeriesIndexes(day)
	for _, m := range b.Metrics {
		for _, f := range m.Families {
			for _, g := range b.Grids {
				out = append(out, b.Documents(day, m.Name, f, g, rollup.AllDay)...)
			}
		}
	}
	return out
}

// discard takes away what a round has made that is not going to count, as remove does.
func (r *round) discard(ctx context.Context) {
	for _, d := range slices.Backward(r.stored) {
		receipt, err := r.cfg.Rollups.DeleteRollup(ctx, d.key, d.id)
		r.WriteRUs += receipt.RUs
		if err != nil || r.pacer.Wait(ctx, receipt.RUs) != nil {
			return // it costs room until it expires
		}
	}
}

// storeTime is how long after a look at the orders a document may be stored: the lead of an erasure has room for it.
const storeTime = 3 * time.Minute

// store has a document stored, unless an order is against it (rule E-R10), or the process stood still meanwhile.
func (r *round) store(ctx context.Context, send func(context.Context) (store.Receipt, error)) (store.Receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	if err := r.checkErasures(ctx); err != nil {
		return store.Receipt{}, err
	}
	return send(ctx)
}

// checkErasures fails with errLost where rollups of the key and day may show what an order erases: from the end of its
// sweep until they are cleared, and in a round that began before (rule E-R10).
func (r *round) checkErasures(ctx context.Context) error {
	if r.cfg.Erasures == nil {
		return nil
	}
	orders, err := r.cfg.Erasures(ctx, r.Tenant.Name)
	if err != nil {
		return err
	}
	for _, o := range orders {
		if !o.SweptAt.IsZero() && r.isTouched(o) && (o.ClearedAt.IsZero() || r.now.Before(o.ClearedAt)) {
			return errLost
		}
	}
	return nil
}

// isTouched reports whether the key has chunks of the day that an order may erase.
func (t Target) isTouched(o *erasure.Order) bool {
	return o.Matches(o.Device, t.Day) && (o.Device == "" ||
		slices.ContainsFunc(t.Tenant.Placement.Keys(o.Device, t.Day), func(k sharding.Key) bool {
			return k.TenantShard == t.TenantShard
		}))
}

// create stores a document of this round. That it exists says that an earlier attempt came through: its name is ours.
func (r *round) create(ctx context.Context, second, id string, doc []byte) error {
	key := r.rollupKey(second)
	r.stored = append(r.stored, storedDocument{key, id}) // perhaps: the answer may get lost
	pauses := retryPolicy.Begin()
	for {
		receipt, err := r.store(ctx, func(ctx context.Context) (store.Receipt, error) {
			return r.cfg.Rollups.CreateRollup(ctx, key, id, doc)
		})
		r.WriteRUs += receipt.RUs
		if err == nil || errors.Is(err, store.ErrExists) {
			r.Documents++
			r.Bytes += len(doc)
			return r.pacer.Wait(ctx, receipt.RUs)
		}
		for _, final := range []error{errLost, store.ErrNoContainer, store.ErrRejected, store.ErrTooLarge, store.ErrDenied,
			store.ErrKeyFull} {
			if errors.Is(err, final) {
				return err
			}
		}
		if pauses.Count() == maxAttempts || r.cfg.Sleep(ctx, pauses.Next(ctx)) != nil {
			return err
		}
	}
}
