package box_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/stream/topics"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/diagnose/rejected"
)

// querier is one life of a querier, with a client that asks one question after another.
type querier struct {
	*actor
	q     *query.Querier
	rnd   *rand.Rand
	shown map[series]int64 // by what complete answers have shown: the number of the version
	// quits tells the client to ask no more, and quit that it does not. All is quiet when the scheduler reads them.
	quits, quit bool
	asked       time.Time // when the last question was
	nudged      chan struct{}
	taken       []int64  // by partition, what was acknowledged when those ingesters began that could answer it
	asks        []*actor // by partition, the ingester that it asks, nil for several
	web         http.Handler
	// index has the dead letters; nil where the run is not about refusals.
	index *rejected.Index
}

// startQuerier starts a querier and its client.
func (b *box) startQuerier() {
	b.births++
	a := b.newActor(fmt.Sprintf("query.%d", b.births))
	q := &querier{actor: a, rnd: rand.New(rand.NewPCG(b.opts.seed, uint64(a.number))), shown: map[series]int64{},
		nudged: make(chan struct{}, 1)}
	set, err := topics.Parse([]string{topic}, letters)
	if err != nil {
		panic(err)
	}
	cfg := query.Config{Reader: chunks{a}, Heads: heads{a}, Log: a.cluster().Sources(set), Topics: set,
		Directory: a.directory(q.client), Catalog: pages{a}, Timeout: 30 * time.Second, Now: a.now, Logger: a.logger()}
	if b.services.makers > 0 {
		cfg.Rollups = rollupStore{a}
	}
	q.q, err = query.New(cfg)
	if err != nil {
		panic(err)
	}
	q.followLetters(set)
	q.web = q.newWeb()
	b.queriers = append(b.queriers, q)
	b.event("box", "start", a.name, "")
}

// client asks one question after another.
func (q *querier) client(ctx context.Context) {
	for ctx.Err() == nil && !q.quits {
		q.think(ctx)
		if q.b.billing.on && q.rnd.IntN(5) == 0 {
			q.askCost(ctx, oneOf(q.rnd, q.b.tenants...))
			continue
		}
		if q.index != nil && q.rnd.IntN(4) == 0 {
			q.askRejected(ctx, oneOf(q.rnd, q.b.tenants...))
			continue
		}
		if pickBuckets(q.rnd, q.b) {
			q.askBuckets(ctx, q.buckets())
			continue
		}
		// Of years the oracle forgets what lists go on to have, and while orders erase there are several right answers.
		if q.b.opts.years == 0 && !q.b.operating.erasures && q.b.oracle.from == nil && q.rnd.IntN(3) == 0 {
			q.askExact(ctx)
			continue
		}
		q.askOnce(ctx)
	}
	q.quit = true
	q.b.stir()
}

// think waits before the next question, for a minute at most once nothing is disturbed any more.
func (q *querier) think(ctx context.Context) {
	longest := q.b.profile.think
	if q.b.settling { // clients of runs of years pause for as long as an answer may take to be complete
		longest = min(longest, time.Minute)
	}
	if q.b.limiting.deferred.device != "" {
		longest = min(longest, 5*time.Second)
	}
	timer := time.NewTimer(pick(q.rnd, time.Millisecond, longest))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-q.nudged:
	case <-ctx.Done():
	}
}

// question is what a client asks for.
type question struct {
	query.Request
	isLatest bool
	paged
}

// askOnce asks one question, and compares a complete answer with the oracle.
func (q *querier) askOnce(ctx context.Context) {
	asked := q.question()
	if !asked.isLatest && !q.b.about.asksWholeDays() && q.rnd.IntN(6) == 0 { // a page cuts days
		q.askPages(ctx, asked)
		return
	}
	before := q.meter.Read().RUs
	got, res, begun, err := q.answer(ctx, asked)
	if err != nil || !res.Complete {
		return
	}
	q.checkSpent(asked.String(), before, res.Stats.RequestUnits)
	q.b.oracle.compare(q, asked, got, begun)
}

// question picks a question.
func (q *querier) question() (out question) {
	b := q.b
	out.Tenant = b.tenants[q.rnd.IntN(len(b.tenants))]
	if q.rnd.IntN(2) == 0 {
		out.Devices = []string{b.devicesOf(out.Tenant)[q.rnd.IntN(b.profile.devices)]}
	}
	today := telemetry.DayOf(time.Now().UnixMilli())
	out.Range = telemetry.Range{From: (today - telemetry.Day(q.rnd.IntN(3))).Start(), To: (today + 1).End()}
	if q.rnd.IntN(3) == 0 && !b.about.asksWholeDays() {
		out.Range.From = time.Now().Add(-pick(q.rnd, time.Second, 48*time.Hour)).UnixMilli()
	}
	if q.rnd.IntN(3) == 0 && !b.about.asksWholeDays() {
		out.Range.To = out.Range.From + int64(pick(q.rnd, time.Second, 48*time.Hour)/time.Millisecond)
	}
	out.Strict = q.rnd.IntN(4) == 0 || q.actor == b.first && b.firstChunk.IsZero() // it asks heads again and again
	out.Descending = q.rnd.IntN(4) == 0
	out.isLatest = q.rnd.IntN(6) == 0
	if d := b.limiting.deferred; d.device != "" && q.rnd.IntN(2) == 0 {
		out.Tenant, out.Devices, out.Strict = d.tenant, []string{d.device}, true
	}
	return out
}

// begin begins a question, and returns how much has been acknowledged.
func (q *querier) begin() int64 {
	q.taken, q.asks = q.b.takenOver(), q.b.alone()
	q.asked = time.Now()
	return q.b.oracle.acknowledged()
}

// answer asks a question, and returns the values, and how much had been acknowledged when it began.
func (q *querier) answer(ctx context.Context, asked question) (got map[series]telemetry.Value, res query.Result,
	begun int64, err error) {
	begun, got = q.begin(), map[series]telemetry.Value{}
	take := func(s series, v telemetry.Value) {
		if _, twice := got[s]; twice {
			q.b.fail("%s: an answer to %+v has %v twice", q.name, asked, s)
		}
		got[s] = v
	}
	if asked.isLatest {
		res, err = q.q.Latest(ctx, asked.Request, func(l query.Last) error {
			take(series{asked.Tenant, l.Device, string(l.Labels.AppendKey(nil)), l.Metric, l.Time}, l.Value)
			return nil
		})
		return got, res, begun, err
	}
	res, err = q.q.Readings(ctx, asked.Request, func(r query.Row) error {
		for _, f := range r.Values {
			take(series{asked.Tenant, r.Device, string(r.Labels.AppendKey(nil)), f.Metric, r.Time}, f.Value)
		}
		return nil
	})
	return got, res, begun, err
}

// takenOver returns, for each partition, how much had been acknowledged when the first of those ingesters began that
// may answer now: any of them has read the log to where it ended then before an answer is complete (rule R3).
func (b *box) takenOver() (all []int64) {
	now := b.oracle.acknowledged()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.slots {
		least := now
		for _, x := range s.lives {
			least = min(least, x.begun)
		}
		all = append(all, least)
	}
	if b.grouped { // any of them may have any partition
		all = slices.Repeat([]int64{slices.Min(all)}, len(all))
	}
	return all
}

// heads is how an actor reaches the ingesters: store.Heads.
type heads struct{ a *actor }

// targets returns the ingesters that are known: those that live, some of those that only believe so, and the newest one
// of a slot although it is dead.
func (h heads) targets() (all []*ingester) {
	b := h.a.b
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, s := range b.slots {
		if len(s.lives) == 0 {
			all = append(all, nil)
		}
		for k, x := range s.lives {
			if k == len(s.lives)-1 || b.sum>>(8*i+k)&1 == 0 {
				all = append(all, x)
			}
		}
	}
	return all
}

// gather asks all ingesters at once, and joins what they answer in their order.
func gather[T any](ctx context.Context, h heads, what string, ask func(x *ingester) ([]T, error)) ([]T, error) {
	targets := h.targets()
	answers, errs := make([][]T, len(targets)), make([]error, len(targets))
	var asked sync.WaitGroup
	for i, x := range targets {
		asked.Go(func() { answers[i], errs[i] = askHead(ctx, h, x, what, ask) })
	}
	asked.Wait()
	var out []T
	silent := store.SilentHeads{All: len(targets)}
	for i := range targets {
		if out = append(out, answers[i]...); errs[i] != nil {
			silent.Silent++
		}
	}
	if silent.Silent > 0 {
		errs = append(errs, &silent)
	}
	return out, errors.Join(errs...)
}

func askHead[T any](ctx context.Context, h heads, x *ingester, what string,
	ask func(x *ingester) ([]T, error)) ([]T, error) {
	if x == nil {
		return nil, errLost
	}
	err := h.a.ask(ctx, &call{kind: "heads", what: x.name + " " + what, apply: func(view) {},
		isReady: func() bool { return h.a.b.calm() || !x.isPaused() }})
	if err != nil {
		return nil, err
	}
	if x.dead() {
		return nil, errLost
	}
	out, err := ask(x)
	if err != nil {
		return out, err
	}
	return out, h.a.ask(ctx, &call{kind: "heads", what: x.name + " answers " + what, apply: func(view) {}})
}

func (a *actor) dead() bool {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	return a.isDead
}

// Heads implements store.Heads.
func (h heads) Heads(ctx context.Context, r store.HeadRequest) ([]store.PartitionHead, error) {
	return gather(ctx, h, fmt.Sprintf("%s %v %d-%d", r.Tenant, r.Devices, r.Range.From, r.Range.To),
		func(x *ingester) ([]store.PartitionHead, error) {
			all, err := x.in.Heads(ctx, r)
			for i := range all {
				all[i].Rows = x.whileAlive(all[i].Rows)
			}
			return all, err
		})
}

// whileAlive yields rows until the ingester is dead.
func (x *ingester) whileAlive(rows iter.Seq2[store.HeadRows, error]) iter.Seq2[store.HeadRows, error] {
	return func(yield func(store.HeadRows, error) bool) {
		for r, err := range rows {
			if x.dead() {
				yield(store.HeadRows{}, errLost)
				return
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// Devices implements store.Heads.
func (h heads) Devices(ctx context.Context, r store.ListRequest) ([]store.HeadDevice, error) {
	return gather(ctx, h, "devices of "+r.Tenant, func(x *ingester) ([]store.HeadDevice, error) {
		return x.in.Devices(ctx, r)
	})
}

// CatalogUpdates implements store.Heads.
func (h heads) CatalogUpdates(ctx context.Context, tenant string) (out store.HeadUpdates, err error) {
	all, err := gather(ctx, h, "updates of "+tenant, func(x *ingester) ([]store.HeadUpdates, error) {
		u, err := x.in.CatalogUpdates(ctx, tenant)
		return []store.HeadUpdates{u}, err
	})
	for _, u := range all {
		out.Devices = append(out.Devices, u.Devices...)
		out.Version += u.Version
	}
	return out, err
}
