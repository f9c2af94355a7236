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

func newWalk(t *testing.T, seed uint64, n int, journaled bool) *walk {
	k := &walk{world: newWorld(t, countingLog(seed, n)), rnd: rand.New(rand.NewPCG(seed, 3)), steps: map[string]int{}}
	k.Chunks.Fault = func(storetest.Op) *storetest.Fault {
		f := k.fault
		k.fault = nil
		return f
	}
	k.Catalog.Fault = func(string, string, string) *storetest.Fault { return nil }
	if journaled {
		k.blocks = &blockLog{}
	}
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
		if c.Hold = 5 * time.Second; k.blocks != nil {
			c.Hold, c.JournalEvery = 20*time.Second, time.Second
		}
	})}
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
	if k.blocks != nil && k.rnd.IntN(40) == 0 {
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
	published, _ := k.published(o.Position())
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

// Owners often leave their bins to each other, by the journal, while they store some of what they hold: what is loaded
// has rows of many, and chunks of others in between; and the journal loses its head, its end, or all (rules J1 to J7).
func TestRandomWalksByTheJournal(t *testing.T) {
	const first = 9030
	t.Log("seeds from", first)
	whole, broken := 0, 0
	for seed := range uint64(ingesttest.Rounds(4, 1)) {
		k := newWalk(t, first+seed, 250, true)
		k.handsOn = true
		for range 600 {
			k.step()
			k.check()
			if t.Failed() {
				t.Fatalf("seed %d", first+seed)
			}
		}
		k.settle()
		whole, broken = whole+k.whole, broken+k.broken
	}
	require.Positive(t, whole)
	require.Positive(t, broken)
}
