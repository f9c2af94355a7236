package box_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"binnacle/binning/rollup"
	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/ops"
	"binnacle/internal/rollups"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/query"
	"binnacle/query/merge"
)

// rollupMakers leaves out the makers of rollups.
const rollupMakers = "rollup makers"

// maker is one life of a process that makes rollups.
type maker struct{ *actor }

// startMaker starts a maker of rollups.
func (b *box) startMaker() {
	b.births++
	a := b.newActor(fmt.Sprintf("rollups.%d", b.births))
	names := 0
	var w *rollups.Writer
	d := a.directory(func(ctx context.Context) { _ = w.Run(ctx) })
	fresh := ops.FreshSnapshots(d)
	var err error
	w, err = rollups.New(rollups.Config{Chunks: chunks{a}, Rollups: rollupStore{a}, Now: a.now, Logger: a.logger(),
		Tenants: func() []tenant.Tenant { return d.Snapshot().Tenants() },
		Lease:   control.NewLeases(documents{a}, a.name, a.now).OnlyWhile(a.service.Check),
		Name:    func() string { names++; return fmt.Sprintf("%sx%d", a.name[len("rollups."):], names) },
		Erasures: func(ctx context.Context, tenant string) (erasure.List, error) {
			v, err := fresh(ctx)
			if err != nil {
				return nil, err
			}
			return v.Erasures(tenant), nil
		},
		Margin: 2*maxLag + time.Second, Every: b.services.makeEvery, LateEvery: b.services.makeEvery, Days: 1,
		Hold: b.services.makeHold, Families: b.settings.families(b.services.families)})
	if err != nil {
		panic(err)
	}
	b.makers = append(b.makers, &maker{a})
	b.event("box", "start", a.name, "")
}

// actMaker kills a maker of rollups, and starts another one.
func (b *box) actMaker() {
	i := b.rnd.IntN(len(b.makers))
	b.event("box", "kill", b.makers[i].name, "")
	b.die(b.makers[i].actor)
	b.makers = slices.Delete(b.makers, i, i+1)
	b.startMaker()
}

// rollupStore is what an actor sees of the rollups: store.RollupWriter.
type rollupStore struct{ a *actor }

var _ store.RollupWriter = rollupStore{}

func rollupName(key store.RollupKey, id string) string {
	return key.Container + " " + key.TenantShard + "/" + key.Name + " " + id
}

// readRollup is what a read of a rollup has found.
type readRollup struct {
	store.Rollup
	date time.Time
}

// ReadRollup implements store.RollupReader.
func (s rollupStore) ReadRollup(ctx context.Context, key store.RollupKey, id string) (store.Rollup, time.Time,
	store.Receipt, error) {
	r, err := answer(ctx, s.a, &call{kind: "read", what: rollupName(key, id)}, func(ctx context.Context,
		_ view) (r readRollup, err error) {
		r.Rollup, r.date, _, err = s.a.b.rollups.ReadRollup(s.a.charged(ctx), key, id)
		return r, err
	})
	return r.Rollup, r.date, store.Receipt{}, err
}

// ScanRollups implements store.RollupReader.
func (s rollupStore) ScanRollups(ctx context.Context, q store.RollupScan, yield func(doc []byte) error) (store.Usage,
	error) {
	charge := q.Charge
	q.Charge = nil
	what := fmt.Sprintf("%s %v %v %d-%d", rollupName(q.Key, ""), q.Names, q.Batches, q.Range.From, q.Range.To)
	out, err := answer(ctx, s.a, &call{kind: "scan", what: what}, func(ctx context.Context, _ view) (out scanned,
		err error) {
		out.usage, err = s.a.b.rollups.ScanRollups(s.a.charged(ctx), q, out.keep)
		slices.SortFunc(out.docs, bytes.Compare)
		return out, err
	})
	if err == nil {
		err = out.lend(ctx, charge, yield)
	}
	return out.usage, err
}

// CreateRollup implements store.RollupWriter.
func (s rollupStore) CreateRollup(ctx context.Context, key store.RollupKey, id string, doc []byte) (store.Receipt,
	error) {
	doc = bytes.Clone(doc)
	return answer(ctx, s.a, &call{kind: "create", what: rollupName(key, id) + " " + digest(doc), isWrite: true},
		func(ctx context.Context, _ view) (store.Receipt, error) {
			return s.a.b.rollups.CreateRollup(ctx, key, id, doc)
		})
}

// ReplaceRollup implements store.RollupWriter.
func (s rollupStore) ReplaceRollup(ctx context.Context, key store.RollupKey, id, etag string,
	doc []byte) (store.Receipt, error) {
	doc = bytes.Clone(doc)
	return answer(ctx, s.a, &call{kind: "replace", what: rollupName(key, id) + " " + digest(doc), isWrite: true},
		func(ctx context.Context, _ view) (store.Receipt, error) {
			return s.a.b.rollups.ReplaceRollup(ctx, key, id, etag, doc)
		})
}

// DeleteRollup implements store.RollupWriter.
func (s rollupStore) DeleteRollup(ctx context.Context, key store.RollupKey, id string) (store.Receipt, error) {
	return answer(ctx, s.a, &call{kind: "delete", what: rollupName(key, id), isWrite: true},
		func(ctx context.Context, _ view) (store.Receipt, error) {
			return s.a.b.rollups.DeleteRollup(ctx, key, id)
		})
}

// newRollups makes the store of rollups.
func (b *box) newRollups(t testing.TB) {
	b.rollups = storetest.NewRollups(t)
	b.rollups.Now, b.rollups.Behind = time.Now, func() time.Duration { return b.view.lag }
}

// bucketed asks for buckets of all devices of a tenant, of one metric.
type bucketed struct {
	question
	metric string
	grid   rollup.Grid
	all    bool // asks for the extremes too
}

// bucket is some instants of a series, all that are behind the end of the bucket before, up to its own end.
type bucket struct {
	n              int
	last, min, max float64
	lastAt         int64
}

// add adds an instant, or several.
func (k *bucket) add(other bucket) {
	if other.n == 0 {
		return
	}
	if k.n == 0 {
		*k = other
		return
	}
	if other.lastAt > k.lastAt {
		k.last, k.lastAt = other.last, other.lastAt
	}
	k.n, k.min, k.max = k.n+other.n, min(k.min, other.min), max(k.max, other.max)
}

// buckets picks a question that rollups may answer.
func (q *querier) buckets() (out bucketed) {
	b := q.b
	out.Tenant, out.metric = b.tenants[q.rnd.IntN(len(b.tenants))], oneOf(q.rnd, "a", "b")
	out.grid, out.all = oneOf(q.rnd, rollup.Minute, rollup.Minute, rollup.HalfHour), q.rnd.IntN(2) == 0
	out.Metrics, out.Strict = []string{out.metric}, q.rnd.IntN(4) == 0
	width := int64(out.grid)
	from := telemetry.DayOf(time.Now().UnixMilli()).Start() - int64(q.rnd.IntN(2))*telemetry.DayMillis
	if q.rnd.IntN(2) == 0 && b.about != unasked {
		from += int64(q.rnd.IntN(24)) * 3_600_000
	}
	to := (time.Now().UnixMilli()/width + int64(1+q.rnd.IntN(3))) * width
	if q.rnd.IntN(3) == 0 && b.about != unasked {
		to -= int64(q.rnd.IntN(5)) * 3_600_000
	}
	out.Range = telemetry.Range{From: from + 1, To: max(from, to) + 1}
	columns := rollup.Counts | rollup.Newest
	if out.all {
		columns |= rollup.Lowest | rollup.Highest
	}
	out.Rollups = &query.RollupsRequest{Grid: out.grid, Columns: columns}
	return out
}

// end returns the end of the bucket of an instant.
func (x bucketed) end(t int64) int64 { return (t-1)/int64(x.grid)*int64(x.grid) + int64(x.grid) }

// askBuckets asks one such question, and compares a complete answer with the oracle.
func (q *querier) askBuckets(ctx context.Context, asked bucketed) (isComplete bool) {
	q.taken = q.b.takenOver()
	begun, got := q.b.oracle.acknowledged(), map[series]bucket{}
	q.asked = time.Now()
	res, err := q.q.Series(ctx, asked.Request, func(c query.Curve) error {
		s := series{tenant: asked.Tenant, device: c.Device, labels: string(c.Labels.AppendKey(nil)), metric: c.Metric}
		add := func(at int64, k bucket) {
			if s.time = asked.end(at); k.n > 0 && asked.Range.Contains(at) {
				all := got[s]
				all.add(k)
				got[s] = all
			}
		}
		asked.rollups(c.Rollups, add)
		for i := range c.Stretches {
			x := &c.Stretches[i]
			for k, at := range x.Times {
				v := x.Value(k).Float()
				add(at, bucket{1, v, v, v, at})
			}
		}
		return nil
	})
	if err != nil || !res.Complete {
		return false
	}
	q.b.oracle.compareBuckets(q, asked, got, begun)
	return true
}

// rollups adds the buckets of the rollups of a series, and its instants at midnight. Each family has rows of its own.
func (x bucketed) rollups(rows []merge.RollupRow, add func(at int64, k bucket)) {
	all := map[int64]bucket{} // by the end
	for i := range rows {
		row := &rows[i]
		t := row.Table
		for k := range (row.To - row.From) * row.Grid.PerHour() {
			end := row.Day.Start() + int64(row.From)*3_600_000 + int64(k+1)*int64(row.Grid)
			b, at := all[end], row.Row*t.Buckets+k
			if !row.Hours.Has(row.From + k/row.Grid.PerHour()) {
				continue
			}
			if t.N != nil {
				b.n, b.last, b.lastAt = int(t.N[at]), t.Last[at], end-int64(t.LastT[at])
			}
			if t.Min != nil {
				b.min, b.max = t.Min[at], t.Max[at]
			}
			all[end] = b
		}
		if row.At0 != nil && row.Hours.Has(0) && row.At0[row.Row].Present && t.N != nil {
			v := row.At0[row.Row].V
			add(row.Day.Start(), bucket{1, v, v, v, row.Day.Start()})
		}
	}
	for end, b := range all {
		add(end, b)
	}
}

// owedBucket is what the oracle knows of a bucket.
type owedBucket struct {
	owed, all     int // instants
	newest        int64
	lowest, least float64 // of what is owed, the least that its minimum may be
	highest, most float64
}

// compareBuckets holds what a complete answer with buckets promises: each has all instants that are owed, none that
// nobody sent, and the newest value.
func (o *oracle) compareBuckets(q *querier, asked bucketed, got map[series]bucket, begun int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	owed := map[series]*owedBucket{}
	last := map[series]bool{} // buckets in which the last value is one of the newest instant's
	for _, device := range o.b.devicesOf(asked.Tenant) {
		for _, s := range o.byDevice[device] {
			if s.metric != asked.metric || !asked.Range.Contains(s.time) {
				continue
			}
			end := s
			end.time = asked.end(s.time)
			o.addOwed(q, asked, begun, s, end, owed)
			if k := got[end]; k.n > 0 && k.lastAt == s.time {
				for _, v := range o.versions[s] {
					if v.value.Float() == k.last && v.number >= q.shown[s] && !o.isGone(q, s, v) {
						last[end], q.shown[s] = true, v.number
					}
				}
			}
		}
	}
	for end, x := range owed {
		switch k := got[end]; {
		case k.n < x.owed || k.n > x.all:
			o.b.fail("%s: a complete answer to %s has %d instants in the bucket %v, and %d of %d are owed", q.name, asked, k.n,
				end, x.owed, x.all)
		case k.n > 0 && (!last[end] || k.lastAt < x.newest):
			o.b.fail("%s: a complete answer to %s has %v as the last value of the bucket %v", q.name, asked, k, end)
		case k.n > 0 && asked.all && (k.min < x.least || k.max > x.most || x.owed > 0 && (k.min > x.lowest ||
			k.max < x.highest)):
			o.b.fail("%s: a complete answer to %s has extremes %v in the bucket %v, instead of %v", q.name, asked, k, end, x)
		}
	}
	for end, k := range got {
		if owed[end] == nil {
			o.b.fail("%s: a complete answer to %s has %v in the bucket %v, which nobody sent", q.name, asked, k, end)
		}
	}
}

// addOwed adds an instant to what the oracle knows of its bucket.
func (o *oracle) addOwed(q *querier, asked bucketed, begun int64, s, end series, owed map[series]*owedBucket) {
	number := o.owed(q, asked.question, s, begun, 0)
	low, high := 0.0, 0.0
	for _, v := range o.versions[s] {
		f := v.value.Float()
		if v.number < number || o.isGone(q, s, v) {
			continue
		}
		if high == 0 {
			low, high = f, f
		}
		low, high = min(low, f), max(high, f)
	}
	if high == 0 {
		return // all of it is erased
	}
	x := owed[end]
	if x == nil {
		x = &owedBucket{newest: -1}
		owed[end] = x
	}
	if x.all++; x.all == 1 {
		x.least, x.most = low, high
	}
	x.least, x.most = min(x.least, low), max(x.most, high)
	if number == 0 {
		return
	}
	if x.owed++; x.owed == 1 {
		x.lowest, x.highest = high, low
	}
	x.newest, x.lowest, x.highest = max(x.newest, s.time), min(x.lowest, high), max(x.highest, low)
}

// String describes a question for buckets.
func (x bucketed) String() string {
	return fmt.Sprintf("buckets of %s %s from %d to %d by %d, strict %t", x.Tenant, x.metric, x.Range.From, x.Range.To,
		x.grid, x.Strict)
}

// pickBuckets reports whether the next question is one for buckets. Where the store is left unasked most are: readings
// are asked for in an order, and the store is asked for these each time.
func pickBuckets(r *rand.Rand, b *box) bool {
	return b.services.makers > 0 && r.IntN(2) == 0 || b.about == unasked && r.IntN(4) > 0
}

// finalBuckets holds that buckets of all tenants are complete soon, and right.
func (b *box) finalBuckets(q *querier) {
	for _, tenant := range b.tenants {
		for _, asked := range []bucketed{q.buckets(), q.buckets()} {
			asked.Tenant, asked.Strict = tenant, true
			isDone := false
			q.start(func(ctx context.Context) {
				for ctx.Err() == nil && !q.askBuckets(ctx, asked) {
					q.think(ctx)
				}
				isDone = true
				b.stir()
			})
			b.await("buckets are complete", func() bool { return isDone })
		}
	}
}

// lateTime picks when a reading was made that is late for rollups: also at the ends of buckets, hours and days.
func (b *box) lateTime(now int64) int64 {
	at := now - int64(b.rnd.IntN(3*3_600_000))
	switch b.rnd.IntN(4) {
	case 0:
		return at - at%int64(oneOf(b.rnd, rollup.Minute, rollup.HalfHour, 2*rollup.HalfHour))
	case 1:
		return telemetry.DayOf(now).Start() + int64(b.rnd.IntN(2))
	}
	return at
}
