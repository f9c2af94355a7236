package rollups_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/binning/rollup"
	"binnacle/internal/erasure"
	"binnacle/internal/rollups"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"

	"github.com/stretchr/testify/require"
)

// walk is a world in which two writers and a query do one request at a time, in an order by chance.
type walk struct {
	*world
	writers [2]*actor
	asking  *actor
	began   time.Time // of the query
	cached  *rollup.Manifest
	at      time.Time // when that was read
	seen    map[string]int
}

// TestRollupsAgreeWithChunks walks the steps of the model of rollups over the real writer: late chunks, overlapping
// ones, corrections, expiry, an erased device, deaths before and after every request, two writers, replicas that lag
// and clocks that differ. Whatever a query gets from rollups is what the chunks were at some moment while it ran.
func TestRollupsAgreeWithChunks(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	total := make(map[string]int)
	for i := range 15 {
		rnd := rand.New(rand.NewPCG(seed, uint64(i)))
		w := &walk{world: newWorld(t, rnd), seen: total}
		w.writers = [2]*actor{{w: w.world}, {w: w.world}}
		w.asking = &actor{w: w.world}
		for range 250 {
			w.step()
		}
		w.rest()
		if t.Failed() {
			t.Fatalf("seed %d, walk %d", seed, i)
		}
	}
	t.Logf("%v", total)
	for _, what := range []string{"from rollups", "raw", "died", "lost", "sealed", "folded", "late", "old manifest",
		"erased"} {
		require.Positive(t, total[what], what)
	}
}

func (w *walk) step() {
	switch n := w.rnd.IntN(40); {
	case n < 5:
		w.store()
	case n < 10:
		w.now = w.now.Add(time.Duration(1+w.rnd.IntN(4)) * time.Second)
	case n < 11:
		w.now = w.now.Add(time.Duration(w.rnd.IntN(3600)) * time.Second)
	case n < 26:
		w.stepWriter(w.writers[w.rnd.IntN(2)])
	case n < 39:
		w.stepQuery()
	default:
		if w.rnd.IntN(8) == 0 {
			w.erase("m1")
		}
	}
}

func (w *walk) stepWriter(a *actor) {
	if !a.running {
		targets := a.writer().Targets(time.UnixMilli(day.Start()), 0)
		target := targets[w.rnd.IntN(len(targets))]
		rebuild := w.rnd.IntN(12) == 0
		writer := a.writer()
		a.start(func(ctx context.Context) func() {
			do := writer.Round
			if rebuild {
				do = writer.Rebuild
			}
			report, err := do(ctx, target)
			return func() {
				require.NoError(w.t, err)
				w.count(report)
			}
		})
		return
	}
	v := goOn
	if w.rnd.IntN(25) == 0 {
		v = verdict(1 + w.rnd.IntN(2))
		w.seen["died"]++
	}
	a.step(v)
}

func (w *walk) count(r rollups.Report) {
	w.seen["sealed"] += r.Built.Count()
	w.seen["folded"] += r.Corrected
	w.seen["late"] += r.LateDevices
	if r.Lost {
		w.seen["lost"]++
	}
}

func (w *walk) stepQuery() {
	a := w.asking
	if a.running {
		a.step(goOn)
		return
	}
	w.began = w.now
	targets := (&actor{w: w.world}).writer().Targets(time.UnixMilli(day.Start()), 0)
	target := targets[w.rnd.IntN(len(targets))]
	var cached *rollup.Manifest
	if w.cached != nil && w.cached.TenantShard == target.TenantShard && w.now.Sub(w.at) < margin && w.rnd.IntN(2) == 0 {
		cached = w.cached
		w.seen["old manifest"]++
	}
	a.start(func(ctx context.Context) func() {
		out, l, err := a.query(ctx, target, cached)
		return func() {
			require.NoError(w.t, err)
			if l != nil && cached == nil {
				w.cached, w.at = l, w.began
			}
			w.check(out, "")
		}
	})
}

// check holds an answer against what the chunks were while it was made.
func (w *walk) check(out result, why string) {
	for device := range w.answered(out) {
		families := out.familiesOf
		if out.raw[device] {
			families = everything
			w.seen["raw"]++
		} else {
			w.seen["from rollups"]++
		}
		got := out.answers[device]
		if at, erased := w.erased[device]; erased && w.began.Before(at) {
			continue // an erase was under way
		}
		if !w.was(device, got, out.from, out.to, families) {
			want := raw(w.visible(device, w.now, w.now), out.from, out.to, families)
			require.Equal(w.t, want, got, "%s: device %s, hours %d to %d, raw %v, at %s", why, device, out.from, out.to,
				out.raw[device], w.now)
		}
	}
}

// answered is the devices that an answer is about.
func (w *walk) answered(out result) map[string]bool {
	all := make(map[string]bool)
	for device := range out.answers {
		all[device] = true
	}
	return all
}

// was reports whether the chunks of a device were such at some moment of the query.
func (w *walk) was(device string, got answer, from, to int, families func(string) rollup.Families) bool {
	for _, replica := range w.moments(w.began.Add(-lagged), w.now) {
		for _, now := range w.moments(w.began, w.now) {
			want := raw(w.visible(device, replica, now), from, to, families)
			if fmt.Sprint(want) == fmt.Sprint(got) || len(want) == 0 && len(got) == 0 {
				return true
			}
		}
	}
	return false
}

// erase removes a device as an order does: its chunks, then the rollups of the day, with the waits of rule E-R10.
func (w *walk) erase(device string) {
	if _, done := w.erased[device]; done {
		return
	}
	w.seen["erased"]++
	w.erased[device] = w.now.Add(365 * 24 * time.Hour)
	orders := erasure.NewOrders(w.docs, func() time.Time { return w.now })
	order, err := orders.Announce(w.t.Context(), erasure.Order{Tenant: "acme", Device: device, From: day, To: day + 1})
	require.NoError(w.t, err)
	require.NoError(w.t, orders.Acknowledge(w.t.Context(), order.ID, nil))
	for i := range w.stored {
		r := &w.stored[i]
		if r.device == device && r.gone.IsZero() {
			w.chunks.Damage(r.key, r.id.String(), nil)
			r.gone = w.now
		}
	}
	require.NoError(w.t, orders.EndSweep(w.t.Context(), order.ID, "test", nil))
	w.now = w.now.Add(margin)
	for _, a := range w.writers {
		if a.running {
			a.step(goOn) // a request that was sent before arrives before
		}
	}
	w.now = w.now.Add(lagged) // and is seen
	a := &actor{w: w.world}
	writer := a.writer()
	for _, target := range writer.TargetsOf(day) {
		a.start(func(ctx context.Context) func() {
			err := writer.Drop(ctx, target)
			return func() { require.NoError(w.t, err) }
		})
		for a.running {
			a.step(goOn)
		}
	}
	w.now = w.now.Add(margin)
	w.erased[device] = w.now
}

// rest lets everything come to its end, with nothing in the way: then rollups show all, and nothing is raw but what is
// to be.
func (w *walk) rest() {
	w.calm = true
	for _, a := range append(w.writers[:], w.asking) {
		for a.running {
			a.step(goOn)
		}
	}
	if end := time.UnixMilli(day.End()).Add(time.Hour); w.now.Before(end) {
		w.now = end
	}
	a := &actor{w: w.world}
	writer := a.writer()
	for range 4 {
		w.now = w.now.Add(2 * margin)
		for _, target := range writer.TargetsOf(day) {
			a.start(func(ctx context.Context) func() {
				report, err := writer.Round(ctx, target)
				return func() {
					require.NoError(w.t, err)
					w.count(report)
				}
			})
			for a.running {
				a.step(goOn)
			}
		}
	}
	w.began = w.now
	for _, target := range writer.TargetsOf(day) {
		for range 3 {
			a.start(func(ctx context.Context) func() {
				out, l, err := a.query(ctx, target, nil)
				return func() {
					require.NoError(w.t, err)
					require.Equal(w.t, rollup.AllDay, l.MinuteHours())
					require.Equal(w.t, rollup.AllDay, l.CoveredHours(rollup.HalfHour))
					require.Empty(w.t, l.Raw)
					w.check(out, "at rest")
					w.halves(target, l)
					for device := range out.answers {
						require.False(w.t, out.raw[device] && device != "heavy", "%s is read raw at rest", device)
					}
				}
			})
			for a.running {
				a.step(goOn)
			}
		}
	}
}

// half is a half hour of a series.
type half struct {
	device, series string
	k              int
}

// halves holds rollups of half hours against the chunks.
func (w *walk) halves(target rollups.Target, l *rollup.Manifest) {
	have := make(map[half]string)
	lacks := make(map[string]bool)
	for i := range l.Batches {
		b := &l.Batches[i]
		if !slices.Contains(b.Grids, rollup.HalfHour) {
			continue
		}
		for at := range have {
			if at.k >= b.From*2 && at.k < b.To*2 && (!b.Correction || slices.Contains(b.Devices, at.device)) {
				delete(have, at)
			}
		}
		for _, m := range b.Without {
			lacks[m] = true
		}
		for _, ref := range w.halfDocuments(b) {
			d := w.document(target, ref)
			index := d.SeriesIndex
			if !b.Correction {
				index = w.document(target, b.SeriesIndexes(day)[ref.Part]).SeriesIndex
			}
			for k := range d.Sections {
				if s := &d.Sections[k]; s.Grid == rollup.HalfHour && s.Family == rollup.Last {
					w.putHalves(have, b, s, index)
				}
			}
		}
	}
	want := make(map[half]string)
	for _, device := range devices {
		if keys := w.tenant.Placement.Keys(device, day); len(keys) > 1 || keys[0].TenantShard != target.TenantShard {
			continue
		}
		var frames []chunk.Frame
		for _, r := range sourced(w.visible(device, w.now, w.now)) {
			frames = append(frames, r.frame)
		}
		merged := rollup.Merge(frames, nil)
		for i := range merged {
			s := &merged[i]
			t := rollup.NewTable(1, rollup.Minute.PerDay(), rollup.AllFamilies)
			s.Fill(t, 0, day, 0, rollup.HoursOfDay)
			t = rollup.HalfHours(t, rollup.AllFamilies)
			for k := range t.Buckets {
				if t.N[k] > 0 && !lacks[s.Metric] {
					want[half{device, fmt.Sprint(s.Labels, s.Metric), k}] = fmt.Sprint(t.N[k], t.LastT[k], t.Last[k])
				}
			}
		}
	}
	for at := range have {
		if lacks[at.series[strings.IndexByte(at.series, ']')+1:]] {
			delete(have, at)
		}
	}
	expired := func(at half, _ string) bool {
		until := l.Until[at.k/2]
		return until > 0 && until <= w.now.Unix()
	}
	maps.DeleteFunc(have, expired)
	maps.DeleteFunc(want, expired)
	require.Equal(w.t, want, have)
}

func (w *walk) document(target rollups.Target, ref rollup.Ref) *rollup.Document {
	v, _, _, err := w.rollups.ReadRollup(w.t.Context(), rollupKey(target, ref.Key), ref.ID)
	require.NoError(w.t, err)
	d, err := rollup.Parse(v.Doc)
	require.NoError(w.t, err)
	return d
}

func (w *walk) halfDocuments(b *rollup.Batch) (out []rollup.Ref) {
	if b.Correction {
		return []rollup.Ref{b.CorrectionDocument(day)}
	}
	for _, m := range b.Metrics {
		out = append(out, b.Documents(day, m.Name, rollup.Last, rollup.HalfHour, rollup.AllDay)...)
	}
	return out
}

func (w *walk) putHalves(have map[half]string, b *rollup.Batch, s *rollup.Section, index []rollup.Series) {
	places, err := s.SeriesNumbers()
	require.NoError(w.t, err)
	t := rollup.Table{Rows: s.Series, Buckets: s.Buckets}
	require.NoError(w.t, s.Decode(&t, s.Has()))
	for i, n := range t.N {
		if n > 0 {
			of := index[places[i/t.Buckets]]
			have[half{of.Device, fmt.Sprint(of.Labels, s.Metric), b.From*2 + i%t.Buckets}] = fmt.Sprint(n, t.LastT[i], t.Last[i])
		}
	}
}

// Hours that are rebuilt after the day was, because many devices have come late or chunks have expired, tell the
// same by half hours as by minutes.
func TestHalfHoursAreRebuiltWithMinutes(t *testing.T) {
	total := make(map[string]int)
	for i := range uint64(8) {
		w := &walk{world: newWorld(t, rand.New(rand.NewPCG(i, 3))), seen: total}
		w.writers, w.asking = [2]*actor{{w: w.world}, {w: w.world}}, &actor{w: w.world}
		w.calm = true
		w.now = time.UnixMilli(day.Start()).Add(23 * time.Hour)
		for range 20 {
			w.store()
		}
		w.rest()
		for range 3 {
			for range 12 {
				w.store()
			}
			w.rest()
		}
	}
	require.Positive(t, total["folded"])
	require.Positive(t, total["sealed"]-8*2*rollup.HoursOfDay, "hours that were sealed before")
}

var errFault = errors.New("a fault")

// Whatever one request of a round fails with, and whether it was done or not, the next round makes it good.
func TestFailedRequestFailsRound(t *testing.T) {
	for call := 1; ; call++ {
		for _, applied := range []bool{false, true} {
			rnd := rand.New(rand.NewPCG(7, 8))
			w := &walk{world: newWorld(t, rnd), seen: make(map[string]int)}
			w.asking, w.writers = &actor{w: w.world}, [2]*actor{{w: w.world}, {w: w.world}}
			w.calm = true
			w.now = time.UnixMilli(day.Start()).Add(23 * time.Hour)
			for range 20 {
				w.store()
			}
			w.now = time.UnixMilli(day.End()).Add(time.Hour)
			n, hit := 0, false
			w.rollups.Fault = func(op storetest.RollupOp) *storetest.Fault {
				if n++; n == call {
					hit = true
					return &storetest.Fault{Applied: applied, Err: errFault}
				}
				return nil
			}
			a := &actor{w: w.world}
			writer := a.writer()
			for _, target := range writer.TargetsOf(day) {
				a.start(func(ctx context.Context) func() {
					_, err := writer.Round(ctx, target)
					return func() {
						if err != nil {
							require.ErrorIs(t, err, errFault)
						}
					}
				})
				for a.running {
					a.step(goOn)
				}
			}
			w.rollups.Fault = nil
			if !hit {
				return
			}
			w.rest()
		}
	}
}

// A missing container is reported, and nothing is made.
func TestNoRoundWithoutContainer(t *testing.T) {
	world := newWorld(t, rand.New(rand.NewPCG(1, 1)))
	v := storetest.NewRollups(t)
	v.Now, world.rollups = world.rollups.Now, v
	a := &actor{w: world}
	writer := a.writer()
	a.start(func(ctx context.Context) func() {
		_, err := writer.Round(ctx, writer.TargetsOf(day)[0])
		return func() { require.ErrorIs(t, err, store.ErrNoContainer) }
	})
	for a.running {
		a.step(goOn)
	}
	require.Zero(t, v.Calls(storetest.CreateRollup))
}
