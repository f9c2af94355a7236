package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/bins"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/journal"
	"binnacle/ingest/worker"
	"binnacle/ingest/write"
	"binnacle/internal/control"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

// The walk drives real Workers through the steps of the protocol's model, at random: several that all believe they own
// the partition, and none of them learns otherwise; creates that are applied while their answer is lost, or that land
// long after their sender gave up; lookups that miss the newest chunks; dead letters acknowledged late or twice;
// commits that are delayed or refused; partitions that come back to a worker; chains that are forgotten; an operator
// that sets the group back. The invariants are checked after every step.
type walk struct {
	*world
	rnd     *rand.Rand
	owners  []*owner
	last    *owner // the one whose generation is current
	orphans []orphan
	late    *lateCommit
	seeks   int
	fault   *storetest.Fault // of the next create or lookup
	steps   map[string]int
	handsOn bool     // owners often leave all that they hold to the journal, and to another one
	sound   bool     // the journal keeps what it took, and the catalog follows with times once a week
	erasing *erasing // orders of erasure, and the sweep of them; nil: there are none
}

// owner is a process that believes it owns the partition, with what it has under way.
type owner struct {
	*ingest.Local
	jobs []write.Job
	dir  *control.Directory
}

// orphan is a create, or an append to the journal, that nobody waits for any more.
type orphan struct {
	create *write.Create
	values [][]byte
}

type lateCommit struct {
	from   *owner
	offset int64
	meta   journal.Commit
}

var errGivenUp = errors.New("the sender has given up")

func newWalk(t *testing.T, seed uint64, n int, journaled bool, limits tenant.IngestLimits) *walk {
	k := &walk{world: newWorld(t, countingLog(seed, n)), rnd: rand.New(rand.NewPCG(seed, 3)), steps: map[string]int{}}
	k.registers = limits.Any()
	k.Chunks.Fault = func(storetest.Op) *storetest.Fault {
		f := k.fault
		k.fault = nil
		return f
	}
	k.Catalog.Fault = func(string, string, string) *storetest.Fault { return nil }
	if journaled {
		k.blocks = &blockLog{}
	}
	k.limits = limits
	k.begin()
	return k
}

// countingLog returns a log with the offset as value: instants repeat, devices and days mix, records
// have several readings, and some are bad.
func countingLog(seed uint64, n int) []admit.Record {
	rnd := rand.New(rand.NewPCG(seed, 4))
	var log []admit.Record
	for i := range n {
		message := func() string {
			at := int64(start) + 1000*rnd.Int64N(8) - telemetry.DayMillis*rnd.Int64N(2)
			return fmt.Sprintf(`{"tenant":"acme","device":"d%d","ts":%d,"values":{"a":%d}}`, rnd.IntN(2), at, i)
		}
		value := message()
		switch rnd.IntN(6) {
		case 0:
			value = "bad"
		case 1:
			value = "[" + message() + "," + message() + ",7]"
		}
		log = append(log, admit.Record{Offset: int64(i), Time: start, Value: []byte(value)})
	}
	return log
}

// begin gives the partition to a new process.
func (k *walk) begin() {
	k.last = &owner{Local: k.worker(func(c *ingest.Config) {
		c.Limits, c.HeldFor = k.limits, 1000*time.Hour
		if c.Hold = 5 * time.Second; k.blocks != nil {
			c.Hold, c.JournalEvery = 20*time.Second, time.Second
		}
		if k.sound {
			c.CatalogEvery = 7 * 24 * time.Hour
		}
	})}
	if k.sound {
		k.checkTimes(k.last.Local)
	}
	k.last.dir = k.dir
	if k.erasing != nil {
		k.last.SetHorizon(0)
	}
	k.owners = append(k.owners, k.last)
	if len(k.owners) > 3 {
		k.owners = k.owners[1:]
	}
}

// step does one random step.
func (k *walk) step() {
	o := k.owners[k.rnd.IntN(len(k.owners))]
	if k.rnd.IntN(2) == 0 {
		o = k.last
	}
	name := "feed"
	switch n := k.rnd.IntN(100); {
	case n < 35:
		for range 1 + k.rnd.IntN(4) {
			if at := o.Position(); at < int64(len(k.log)) {
				k.take(o, k.log[at])
			}
		}
	case n < 40 && (k.limits.Any() || k.registers):
		if len(o.Deferred().Deferrals("")) > 0 {
			name = "take deferred"
			k.now = k.now.Add(time.Duration(k.rnd.IntN(3000)) * time.Millisecond)
			k.takeDeferred(o, 1+k.rnd.IntN(6))
		}
	case n < 50:
		name = "jobs"
		k.now = k.now.Add(time.Duration(k.rnd.IntN(3000)) * time.Millisecond)
		o.jobs = append(o.jobs, o.Due()...)
	case n < 80:
		if name = "idle"; len(o.jobs) > 0 {
			name = k.job(o, k.rnd.IntN(len(o.jobs)))
		}
	case n < 84:
		if name = "idle"; len(k.orphans) > 0 {
			name = k.land(k.rnd.IntN(len(k.orphans)))
		}
	case n < 93:
		name = k.commitFrom(o)
	case n < 95:
		name = "assign"
		k.begin()
	case n < 97:
		name = "resume"
		o.Resume(worker.Assignment{Stream: 1, Position: k.commit, LogEnd: int64(len(k.log))})
		k.last = o
	case n < 99:
		name = "forget"
		k.now = k.now.Add(49 * time.Hour)
		o.jobs = append(o.jobs, o.Due()...) // what lingers goes
		k.now = k.now.Add(2 * time.Second)
		o.jobs = append(o.jobs, o.Due()...)
	default:
		if name = "idle"; k.seeks < 2 {
			name = "seek"
			k.seeks++
			k.commit, k.meta, k.late = 0, journal.Commit{}, nil
			k.begin()
		}
	}
	k.steps[name]++
	if k.handsOn && k.rnd.IntN(8) == 0 {
		k.handOn()
	}
	if k.blocks != nil && !k.sound && k.rnd.IntN(40) == 0 {
		k.steps[k.damage()]++
	}
	if k.erasing != nil && k.rnd.IntN(2) == 0 {
		k.steps[k.erasing.step()]++
	}
}

// take feeds a record to an owner.
func (k *walk) take(o *owner, rec admit.Record) {
	if k.erasing != nil {
		k.erasing.take(o, rec)
		return
	}
	require.NoError(k.t, o.Take(context.Background(), rec))
}

// takeDeferred has an owner read some records again, and goes away in the middle of a pass.
func (k *walk) takeDeferred(o *owner, records int) {
	for range records {
		at, ok := o.Deferred().Next(k.now)
		if !ok {
			return
		}
		require.NoError(k.t, o.TakeDeferredRecord(context.Background(), k.log[at]))
	}
}

// handOn has the current owner journal what it holds, and commit; and may be another one takes it over.
func (k *walk) handOn() {
	o := k.last
	o.Flush()
	o.jobs = append(o.jobs, o.Due()...)
	o.jobs = slices.DeleteFunc(o.jobs, func(j write.Job) bool {
		switch j.(type) {
		case *write.Lookup, *write.Create:
			return false
		}
		require.NoError(k.t, o.Do(context.Background(), j))
		return true
	})
	k.set(o.Floor(), o.JournalCommit())
	k.steps["handed on"]++
	if k.rnd.IntN(3) == 0 {
		k.begin()
	}
}

// damage takes something away from the journal under its writer, has an older binary commit, or has an owner
// journal all that it holds.
func (k *walk) damage() string {
	b := k.blocks
	switch n := len(b.values); k.rnd.IntN(8) {
	case 0:
		gone := k.rnd.IntN(n + 1)
		b.begin, b.values = b.begin+int64(gone), b.values[gone:]
		return "head lost"
	case 1:
		b.values = b.values[:n-k.rnd.IntN(n+1)]
		return "end lost"
	case 2:
		b.begin, b.values = 0, nil
		return "made anew"
	case 3:
		k.meta = journal.Commit{}
		return "old binary"
	default:
		k.last.Flush()
		return "flush"
	}
}

// job does one job of an owner, with a fault of its kind or none.
func (k *walk) job(o *owner, i int) string {
	j := o.jobs[i]
	ctx, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	name := "done"
	switch j := j.(type) {
	case *write.Lookup:
		if k.rnd.IntN(2) == 0 {
			name = "stale lookup"
			k.fault = &storetest.Fault{Hide: 1 + k.rnd.IntN(2)}
		}
	case *write.Create:
		switch k.rnd.IntN(4) {
		case 0:
			name = "answer lost"
			k.fault = &storetest.Fault{Applied: true, Err: errGivenUp}
		case 1:
			if len(k.orphans) < 3 {
				name = "timeout"
				k.orphans = append(k.orphans, orphan{create: j})
				giveUp() // the job stays, and is sent again later
			}
		}
	case *write.Append:
		switch k.rnd.IntN(5) {
		case 0:
			name = "answer of an append lost"
			_, err := k.blocks.Append(ctx, "", 0, j.Values)
			require.NoError(k.t, err)
			j.Failed(write.Result{Fault: bins.Unknown})
			o.Done(j, k.now)
			o.jobs = slices.Delete(o.jobs, i, i+1)
			return name
		case 1:
			name = "append timed out"
			if len(k.orphans) < 3 {
				k.orphans = append(k.orphans, orphan{values: j.Values})
			}
			j.Failed(write.Result{Fault: bins.Unknown})
			o.Done(j, k.now)
			o.jobs = slices.Delete(o.jobs, i, i+1)
			return name
		}
		name = "appended"
	case *write.Publish:
		if k.rnd.IntN(4) == 0 {
			k.deadLetters = append(k.deadLetters, j.DeadLetters...)
			return "acknowledgement lost"
		}
	}
	err := o.Do(ctx, j)
	k.fault = nil
	if err == nil {
		o.jobs = slices.Delete(o.jobs, i, i+1)
	}
	return name
}

// land applies a create that nobody waits for.
func (k *walk) land(i int) string {
	c, values := k.orphans[i].create, k.orphans[i].values
	k.orphans = slices.Delete(k.orphans, i, i+1)
	if c == nil {
		_, err := k.blocks.Append(context.Background(), "", 0, values)
		require.NoError(k.t, err)
		return "orphan appended"
	}
	_, err := k.Chunks.Create(context.Background(), c.Key, c.ID, c.Doc)
	if err == nil {
		return "orphan stored"
	}
	require.ErrorIs(k.t, err, store.ErrExists)
	return "orphan refused"
}

// commitFrom commits the floor of an owner; only the current generation's is taken.
func (k *walk) commitFrom(o *owner) string {
	if l := k.late; l != nil && k.rnd.IntN(2) == 0 {
		k.late = nil
		if l.from != k.last {
			return "late commit refused"
		}
		k.set(l.offset, l.meta)
		return "late commit"
	}
	switch {
	case o != k.last:
		return "commit refused"
	case k.rnd.IntN(4) == 0:
		k.late = &lateCommit{o, o.Floor(), o.JournalCommit()}
		return "commit delayed"
	}
	k.set(o.Floor(), o.JournalCommit())
	return "commit"
}

func (k *walk) set(offset int64, meta journal.Commit) {
	k.commit, k.meta = offset, meta
	k.checkCommitted() // I1
}

// check holds what must hold at every moment: I3, I4, and for the store alone and with each head I5 and I8.
func (k *walk) check() {
	k.CheckChains()
	k.checkMerged(nil)
	for _, o := range k.owners {
		k.checkMerged(o)
		heldRows(k.t, o.Local)
	}
}

// checkMerged merges the store with the head of an owner: of each series and instant it gives the value that came
// last of all that are in either, which is at least the last one below the head's position.
func (k *walk) checkMerged(o *owner) {
	values, from := map[ingesttest.Series]telemetry.Value{}, map[ingesttest.Series]store.Source{}
	newest := map[ingesttest.Series]float64{}
	add := func(device string, source store.Source, f chunk.Frame) {
		ingesttest.Merge(values, from, device, source, f)
		own := map[ingesttest.Series]telemetry.Value{}
		ingesttest.Merge(own, map[ingesttest.Series]store.Source{}, device, source, f)
		for s, v := range own {
			newest[s] = max(newest[s], v.Float())
		}
	}
	if o != nil {
		request := store.HeadRequest{Tenant: "acme", Range: binning.All}
		if k.erasing != nil {
			request.Erased = k.erasing.ask()
		}
		for r := range o.HeadRead(request).Rows {
			add(r.Device, r.Source, r.Frame)
		}
	}
	for _, d := range k.Chunks.Documents() {
		c, err := chunk.Parse(d.Doc)
		require.NoError(k.t, err)
		if k.erasing != nil && k.erasing.hides(&c.Header) {
			continue
		}
		frame, err := c.Frame(nil)
		require.NoError(k.t, err)
		add(d.Key.Device, store.Source{Stream: c.Header.ID.Stream, Partition: c.Header.ID.Partition,
			Through: c.Header.Through}, frame)
	}
	// What holds is compared plainly: testify's reflection would take most of the walk's time.
	for s, v := range values {
		if newest[s] != v.Float() {
			require.Equal(k.t, newest[s], v.Float(), "I5: %v", s)
		}
		if k.erased != nil && k.erased(s.Device, s.Time, int64(v.Float())) {
			require.Fail(k.t, "an erased reading is answered", "%v of record %g", s, v.Float())
		}
	}
	if o == nil {
		return
	}
	reached := o.Position()
	for _, x := range o.Deferred().Deferrals("") { // a head says so: what it answers is not complete
		reached = min(reached, x.From)
	}
	published, _ := k.published(reached)
	for s, v := range published {
		if got, ok := values[s]; !ok || !(got.Float() >= v.Float()) {
			require.Contains(k.t, values, s, "I8: position %d", o.Position())
			require.GreaterOrEqual(k.t, got.Float(), v.Float(), "I8: %v, position %d", s, o.Position())
		}
	}
}

// settle ends all faults: requests under way land or never do, a new process starts, and all gets stored and
// committed (I11).
func (k *walk) settle() {
	for len(k.orphans) > 0 && k.rnd.IntN(2) == 0 {
		k.land(0)
	}
	k.begin()
	ctx := context.Background()
	for at := k.last.Position(); at < int64(len(k.log)); at++ {
		k.take(k.last, k.log[at])
	}
	k.drainWaiting(k.last)
	if k.erasing != nil {
		k.erasing.end()
	}
	require.NoError(k.t, k.last.Finish(ctx))
	k.set(k.last.Floor(), k.last.JournalCommit())
	if k.erasing == nil { // else not all is swept yet
		k.world.check()
	}
	// The zombies may go on for ever: nothing changes any more.
	for _, o := range k.owners {
		for _, j := range o.jobs {
			require.NoError(k.t, o.Do(ctx, j))
		}
		o.jobs = nil
		k.drainWaiting(o)
		if k.erasing != nil {
			k.erasing.refresh(o, o.Position())
		}
		require.NoError(k.t, o.Finish(ctx))
	}
	if k.erasing != nil {
		k.erasing.sweepAll()
	}
	k.world.check()
}

// drainWaiting lets everything go on that waits for limits.
func (k *walk) drainWaiting(o *owner) {
	for n := 0; len(o.Deferred().Deferrals("")) > 0; n++ {
		require.Less(k.t, n, 1000, "I11: something waits for ever")
		k.now = k.now.Add(10 * time.Second)
		require.NoError(k.t, o.Step(context.Background())) // tenants are registered
		for offset, ok := o.Deferred().Next(k.now); ok; offset, ok = o.Deferred().Next(k.now) {
			require.NoError(k.t, o.TakeDeferredRecord(context.Background(), k.at(offset)))
		}
	}
}

// The same while readings wait for limits of their tenant or device.
func TestRandomWalksWithLimits(t *testing.T) {
	for i, limits := range []tenant.IngestLimits{
		{Readings: 2, Burst: 3}, {DeviceReadings: 1, Burst: 3}, {Readings: 3, DeviceValues: 1, Burst: 2},
	} {
		for _, journaled := range []bool{false, true} {
			steps := walksWith(t, uint64(20_000+1000*i), ingesttest.Rounds(3, 1), journaled, limits)
			for _, name := range []string{"feed", "take deferred", "done", "commit", "assign", "resume"} {
				require.Positive(t, steps[name], name)
			}
		}
	}
}

func TestRandomWalks(t *testing.T) {
	steps := walks(t, 100, ingesttest.Rounds(15, 2), false)
	for _, name := range []string{
		"feed", "jobs", "done", "stale lookup", "answer lost", "timeout", "acknowledgement lost", "orphan stored",
		"orphan refused",
		"commit", "late commit", "late commit refused", "commit refused", "assign", "resume", "forget", "seek",
	} {
		require.Positive(t, steps[name], name)
	}
}

// The same with a journal: appends that land late, twice or never, those of owners that have lost the partition among
// them; a journal that loses its head, its end, or all; older binaries. Rules J1 to J7.
func TestRandomWalksWithAJournal(t *testing.T) {
	steps := walks(t, 7018, ingesttest.Rounds(30, 6), true)
	for _, name := range []string{
		"feed", "done", "appended", "answer of an append lost", "append timed out", "orphan appended", "flush", "commit",
		"late commit", "assign", "resume", "seek", "head lost", "end lost", "made anew", "old binary",
		"takeover from the journal", "takeover without",
	} {
		require.Positive(t, steps[name], name)
	}
}

// Owners often leave their bins to each other, by the journal, while they store some of what they hold: what is loaded
// has rows of many, and chunks of others in between.
func TestRandomWalksByTheJournal(t *testing.T) {
	const first = 9030
	t.Log("seeds from", first)
	whole := 0
	for seed := range uint64(ingesttest.Rounds(4, 1)) {
		k := newWalk(t, first+seed, 250, true, tenant.IngestLimits{})
		k.handsOn = true
		for range 600 {
			k.step()
			k.check()
			if t.Failed() {
				t.Fatalf("seed %d", first+seed)
			}
		}
		k.settle()
		whole += k.whole
	}
	require.Positive(t, whole)
}

// Whatever owners do, and calls become of, each owner that takes over has the times of all that was taken (rule J8):
// the newest of a device may lie in a chunk that none but a dead process has read.
func TestRandomWalksKeepTimes(t *testing.T) {
	const first = 40_000
	t.Log("seeds from", first)
	for seed := range uint64(ingesttest.Rounds(20, 4)) {
		k := newWalk(t, first+seed, 100, true, tenant.IngestLimits{})
		k.handsOn, k.sound = true, true
		for range 400 {
			k.step()
			if t.Failed() {
				t.Fatalf("seed %d", first+seed)
			}
		}
		k.settle()
	}
}

func walks(t *testing.T, seed uint64, rounds int, journaled bool) (steps map[string]int) {
	return walksWith(t, seed, rounds, journaled, tenant.IngestLimits{})
}

func walksWith(t *testing.T, seed uint64, rounds int, journaled bool,
	limits tenant.IngestLimits) (steps map[string]int) {
	t.Logf("seeds from %d", seed)
	steps = map[string]int{}
	for round := range uint64(rounds) {
		k := newWalk(t, seed+round, 40, journaled, limits)
		for range 250 {
			k.step()
			k.check()
			if t.Failed() {
				t.Fatalf("seed %d", seed+round)
			}
		}
		k.settle()
		for name, n := range k.steps {
			steps[name] += n
		}
		steps["takeover from the journal"] += k.whole
		steps["takeover without"] += k.broken
	}
	t.Log(steps)
	return steps
}
