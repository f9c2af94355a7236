package query_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// unasked is a world in which one question is asked again and again, and what its querier asks the store (rule R8).
type unasked struct {
	t     *testing.T
	w     *querytest.World
	q     *query.Querier
	r     query.Request
	owner uint64
	next  int64 // the offset of the next record
	lost  chunk.ID
	fails chan struct{} // unless nil: scans of acme~ab fail, once m1's key has been scanned

	mu    sync.Mutex // guards below
	scans []store.Scan
}

// newUnasked makes one with a stored chunk of m1. Nothing of it was asked.
func newUnasked(t *testing.T) *unasked {
	u := &unasked{t: t, w: querytest.New(t, noon), owner: 1}
	u.r = query.Request{Tenant: "acme", Metrics: []string{"x"},
		Range: telemetry.Range{From: noon.Add(-2 * time.Hour).UnixMilli(), To: noon.UnixMilli()}}
	u.q = newQuerier(t, u.w, func(c *query.Config) {
		c.Log = u.w.Log
		c.Reader = scanner(func(ctx context.Context, s store.Scan, yield func([]byte) error) (store.Usage, error) {
			u.mu.Lock()
			u.scans = append(u.scans, s)
			u.mu.Unlock()
			if u.fails != nil && s.Key.TenantShard == "acme~ab" {
				<-u.fails
				return store.Usage{}, store.ErrBusy
			}
			usage, err := u.w.Store.Scan(ctx, s, func(doc []byte) error {
				if c, err := chunk.Parse(doc); err != nil || c.Header.ID == u.lost {
					return err
				}
				return yield(doc)
			})
			if u.fails != nil && s.Key.TenantShard == "acme~4r" {
				defer close(u.fails)
			}
			return usage, err
		})
	})
	u.w.Chunk(u.row(-time.Hour))
	u.show()
	return u
}

// row returns the next record of m1, of a time since noon.
func (u *unasked) row(since time.Duration) querytest.Record {
	u.next++
	return record(u.next, "m1", noon.Add(since), float("x", float64(u.next)))
}

// show sets what the head shows, a bin each.
func (u *unasked) show(bins ...[]querytest.Record) {
	u.w.Log.Set(u.next + 1)
	u.w.Heads.SetOnly(store.PartitionHead{Stream: 1, Position: u.next + 1, Owner: u.owner})
	for _, b := range bins {
		u.w.Heads.AddBin(b...)
	}
}

// answer asks, and returns how many scans of the store that took. Unless a chunk is lost the answer is complete, and
// the one without a cache.
func (u *unasked) answer(after time.Duration) int {
	u.t.Helper()
	u.w.Now = u.w.Now.Add(after)
	before := u.w.Store.Calls(storetest.Scan)
	got, res := seriesOf(u.t, u.q, u.r)
	scans := u.w.Store.Calls(storetest.Scan) - before
	if u.lost == (chunk.ID{}) {
		require.True(u.t, res.Complete, "%v", res.Incomplete)
		want, _ := seriesOf(u.t, newQuerier(u.t, u.w, func(c *query.Config) { c.CacheBytes = -1 }), u.r)
		require.Equal(u.t, want, got)
	}
	return scans
}

// settle asks until the store need not be asked for half an hour.
func (u *unasked) settle() {
	u.t.Helper()
	require.Positive(u.t, u.answer(0))
	require.Zero(u.t, u.answer(4*time.Minute))
	require.Positive(u.t, u.answer(time.Minute), "a replica may have lagged")
	require.Zero(u.t, u.answer(6*time.Minute))
}

// A question knows the rows of a chunk that a replica does not show yet, and has read the same range as another
// question, which does not know them: that one asks the store.
func TestRowsThatAnotherQuestionKnows(t *testing.T) {
	u := newUnasked(t)
	u.settle()
	long, short := u.r, u.r
	short.Range.From = noon.Add(-50 * time.Minute).UnixMilli() // heads are asked for no whole bins
	u.r = short
	u.answer(0)
	u.r = long
	row := u.row(-30 * time.Minute)
	u.show([]querytest.Record{row})
	require.Zero(t, u.answer(20*time.Minute))
	u.w.Chunk(row)
	docs := u.w.Store.Documents()
	last, err := chunk.Parse(docs[len(docs)-1].Doc)
	require.NoError(t, err)
	u.lost = last.Header.ID
	require.Positive(t, u.answer(5*time.Minute), "half an hour is over")
	u.show()
	u.lost, u.r = chunk.ID{}, short
	u.answer(time.Second)
}

// A chunk that no query has seen in heads is read exactly where it has rows in the range, both ends included.
func TestTailsAtTheEndsOfARange(t *testing.T) {
	from, to := -2*time.Hour, time.Duration(0)
	for at, isIn := range map[time.Duration]bool{from - time.Millisecond: false, from: true, to - time.Millisecond: true,
		to: false} {
		u := newUnasked(t)
		u.settle()
		u.w.Chunk(u.row(at))
		require.Equal(t, isIn, u.answer(time.Second) > 0, "%s", at)
	}
}

// After what is new was found the store is asked again when the margin is over, as after the first time; and after
// half an hour in any case.
func TestStoreIsAskedAgainInTime(t *testing.T) {
	u := newUnasked(t)
	u.settle()
	u.w.Chunk(u.row(-30 * time.Minute))
	require.Equal(t, 1, u.answer(0), "an unknown chunk, of one key of four")
	require.Zero(t, u.answer(299*time.Second))
	require.Equal(t, 1, u.answer(time.Second), "a replica may have lagged")
	require.Equal(t, 3, u.answer(29*time.Minute), "more than half an hour for the others")
	require.Equal(t, 1, u.answer(time.Minute), "half an hour")
	require.Zero(t, u.answer(5*time.Minute))
	u.w.Now = u.w.Now.Add(-2 * time.Hour)
	require.Positive(t, u.answer(0), "the clock was set back: nobody knows when half an hour is over")

	u = newUnasked(t)
	u.settle()
	u.r.Range.From -= time.Hour.Milliseconds()
	require.Positive(t, u.answer(0), "of a longer range a part was never read")
	require.Zero(t, u.answer(299*time.Second))
	require.Positive(t, u.answer(time.Second), "that part a second time")
	require.Zero(t, u.answer(29*time.Minute))
}

// The store is asked each time while heads do not count, or others answer than before, and five minutes longer: a
// process that is gone may have a create under way.
func TestStoreIsAskedWhileHeadsDiffer(t *testing.T) {
	changes := map[string]struct{ begin, end func(u *unasked) }{
		"a head of another partition": {
			func(u *unasked) {
				u.w.Heads.Set(store.PartitionHead{Stream: 1, Partition: 1, Position: 1, Owner: 7})
			}, func(*unasked) {}},
		"another owner": {func(u *unasked) { u.owner++; u.show() }, func(*unasked) {}},
		"a head without an owner": {
			func(u *unasked) { u.w.Heads.SetOnly(store.PartitionHead{Stream: 1, Position: u.next + 1}) },
			func(u *unasked) { u.owner++; u.show() }},
		"a head that does not answer": {
			func(u *unasked) { u.w.Heads.Fail(errors.New("no answer")) },
			func(u *unasked) { u.w.Heads.Fail(nil); u.owner++; u.show() }},
	}
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			u := newUnasked(t)
			u.settle()
			c.begin(u)
			for range 3 {
				require.Positive(t, u.answer(time.Minute))
			}
			c.end(u)
			for range 2 {
				require.Positive(t, u.answer(time.Minute))
			}
			u.answer(time.Minute)
			u.answer(5 * time.Minute)
			require.Zero(t, u.answer(time.Minute), "they are the same again")
		})
	}
	u := newUnasked(t)
	u.settle()
	u.owner++
	u.show()
	require.Positive(t, u.answer(time.Second))
	u.w.Heads.SetOnly(store.PartitionHead{Stream: 1, Position: u.next + 1})
	require.Positive(t, u.answer(time.Second), "heads do not count for a moment")
	u.show()
	for range 4 {
		require.Positive(t, u.answer(time.Minute), "which does not make the change forgotten")
	}
}

// A chunk is not asked for if heads have shown its rows. Where it is not certain that these are all its rows it is.
func TestRowsOfChunksThatHeadsHaveShown(t *testing.T) {
	type rows = []querytest.Record
	for name, c := range map[string]struct {
		asks bool
		run  func(u *unasked, first, second rows)
	}{
		"its bin has left": {false, func(u *unasked, first, _ rows) {
			u.show(first)
			u.answer(time.Second)
			u.w.Chunk(first...)
			u.show()
		}},
		"its bin is still shown": {false, func(u *unasked, first, _ rows) {
			u.show(first)
			u.answer(time.Second)
			u.w.Chunk(first...)
			u.show(first)
		}},
		"its bin is shown for the first time": {false, func(u *unasked, first, _ rows) {
			u.w.Chunk(first...)
			u.show(first)
		}},
		"another bin has come": {false, func(u *unasked, first, second rows) {
			u.show(first)
			u.answer(time.Second)
			u.w.Chunk(first...)
			u.show(second)
		}},
		"two bins have left": {true, func(u *unasked, first, second rows) {
			u.show(first, second)
			u.answer(time.Second)
			u.w.Chunk(second...)
			u.show()
		}},
		"one bin has left and one is shown": {true, func(u *unasked, first, second rows) {
			u.show(first, second)
			u.answer(time.Second)
			u.w.Chunk(second...)
			u.show(second)
		}},
		"a bin has left before its last row": {true, func(u *unasked, first, second rows) {
			u.show(first)
			u.answer(time.Second)
			u.w.Chunk(append(first, second...)...)
			u.show()
		}},
		"a bin with a row of the chunk before": {true, func(u *unasked, first, second rows) {
			u.show(append(first[:1:1], second...))
			u.w.Chunk(first...)
			u.answer(time.Second)
			u.w.Chunk(second...)
			u.show()
		}},
		"two chunks": {true, func(u *unasked, first, second rows) {
			u.show(append(first[:2:2], second...))
			u.answer(time.Second)
			u.w.Chunk(first...)
			u.w.Chunk(second...)
			u.show()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUnasked(t)
			first := rows{u.row(-50 * time.Minute), u.row(-49 * time.Minute)}
			second := rows{u.row(-48 * time.Minute), u.row(-47 * time.Minute)}
			u.show()
			u.settle()
			c.run(u, first, second)
			require.Equal(t, c.asks, u.answer(time.Second) > 0)
			require.Zero(t, u.answer(time.Second))
		})
	}
}

// Of a short range no rows of heads are kept. Then too the store is asked only for chunks that were stored since, and
// have rows in the range.
func TestShortQuestionsLeaveTheStoreUnasked(t *testing.T) {
	u := newUnasked(t)
	u.r.Range.From = noon.Add(-5 * time.Minute).UnixMilli()
	u.settle()
	u.w.Chunk(u.row(-time.Hour))
	shown := []querytest.Record{u.row(-3 * time.Minute), u.row(-2 * time.Minute)}
	u.show(shown)
	require.Zero(t, u.answer(time.Second), "rows of a bin, and a chunk outside of the range")
	u.w.Chunk(shown...)
	u.show()
	require.Positive(t, u.answer(time.Second), "a chunk of rows that are not kept")
	require.Zero(t, u.answer(time.Second))
	u.r.Metrics = []string{"x", "y"}
	require.Positive(t, u.answer(time.Second), "another column was never read")
}

// What was read for an answer that lacks a chunk is no reason to leave the store unasked. It does not make a change of
// heads forgotten either.
func TestIncompleteAnswerLeavesNoNote(t *testing.T) {
	for _, changes := range []bool{false, true} {
		u := newUnasked(t)
		u.settle()
		if changes {
			u.owner++
			u.show()
			require.Positive(t, u.answer(time.Second))
		}
		u.lost = u.w.Chunk(u.row(-150 * time.Minute))
		u.r.Range.From -= time.Hour.Milliseconds()
		for range 2 {
			_, res := seriesOf(t, u.q, u.r)
			require.NotEmpty(t, res.Incomplete)
		}
		u.lost = chunk.ID{}
		require.Positive(t, u.answer(time.Second), "the replica has caught up")
		require.Equal(t, changes, u.answer(time.Minute) > 0)
	}
}

// What was read for an answer that failed elsewhere is no reason to leave the store unasked: rule R4 was not held.
func TestFailedAnswerLeavesNoNote(t *testing.T) {
	u := newUnasked(t)
	u.lost, u.fails = u.w.Chunk(u.row(-90*time.Minute)), make(chan struct{})
	_, err := u.q.Series(t.Context(), u.r, func(query.Curve) error { return nil })
	require.ErrorIs(t, err, store.ErrBusy)
	u.lost, u.fails = chunk.ID{}, nil
	require.Positive(t, u.answer(time.Second))
	require.Zero(t, u.answer(time.Second))
}

// An hour after it was read a range is read again as a whole, however often the store was asked in between.
func TestRangesAreReadAgain(t *testing.T) {
	u := newUnasked(t)
	var whole []int
	for minute := range 100 {
		u.w.Now = u.w.Now.Add(time.Minute)
		before := len(u.scans)
		seriesOf(t, u.q, u.r)
		for _, s := range u.scans[before:] {
			if s.Since == 0 {
				whole = append(whole, minute)
				break
			}
		}
	}
	require.Equal(t, []int{0, 60}, whole)
}

// That a key has nothing new for one metric counts for another one only where nothing was stored since, and no more is
// asked for.
func TestNothingNewForOtherMetrics(t *testing.T) {
	u := newUnasked(t)
	other := u.r
	other.Metrics = []string{"y"}
	ask := func(r query.Request) (scans int) {
		before := len(u.scans)
		seriesOf(t, u.q, r)
		return len(u.scans) - before
	}
	u.w.Now = u.w.Now.Add(10 * time.Minute)
	earlier := u.r
	earlier.Metrics = []string{"z"}
	for _, r := range []query.Request{earlier, u.r, other} {
		u.w.Now = u.w.Now.Add(time.Minute)
		ask(r)
	}
	u.w.Now = u.w.Now.Add(5 * time.Minute)
	require.Positive(t, ask(u.r), "five minutes after the first read")
	require.Zero(t, ask(other), "nothing is new since the other metric was read, either")
	require.Positive(t, ask(earlier), "what was stored between the reads was not asked for")
	u.w.Now = u.w.Now.Add(30 * time.Minute)
	require.Positive(t, ask(u.r))
	r := u.row(-20 * time.Minute)
	r.Fields = append(r.Fields, float("y", 1))
	u.w.Chunk(r)
	require.Positive(t, ask(other), "a chunk was stored since")
	lines, _ := seriesOf(t, u.q, other)
	require.Len(t, lines, 1)
}

// A head that is behind knows nothing of a chunk that a former owner has just stored, and a replica lacks the chunk.
// That nothing was found then says nothing once the head has caught up.
func TestNothingNewForHeadsThatAreBehind(t *testing.T) {
	u := newUnasked(t)
	set := func(caughtUp int64) {
		u.w.Heads.SetOnly(store.PartitionHead{Stream: 1, Position: u.next + 1, CaughtUp: caughtUp, Owner: u.owner})
	}
	set(u.next + 2)
	ask := func(metric string) []string {
		u.w.Now = u.w.Now.Add(time.Second)
		u.r.Metrics = []string{metric}
		lines, _ := seriesOf(t, u.q, u.r)
		return lines
	}
	ask("y")
	ask("x")
	u.w.Heads.Unaware(func() { u.lost = u.w.Chunk(u.row(-30 * time.Minute)) })
	set(u.next + 2)
	require.Empty(t, ask("y"))
	u.lost = chunk.ID{}
	set(u.next + 1)
	require.Contains(t, ask("x")[0], fmt.Sprint(noon.Add(-30*time.Minute).UnixMilli()))
}

// So many chunks are stored that some of them are forgotten: the store is asked, whatever the others explain.
func TestForgottenTailsExplainNothing(t *testing.T) {
	u := newUnasked(t)
	u.settle()
	u.w.Chunk(u.row(-30 * time.Minute))
	other := u.r
	other.Metrics = []string{"y"}
	for n := range 3 {
		for i := range 2100 { // without rows in the range
			u.next++
			u.w.Chunk(record(u.next, fmt.Sprintf("d%d-%d", n, i), noon.Add(-3*time.Hour), float("x", 1)))
		}
		other := u.r // takes what heads tell, and asks the store for a range of its own
		other.Range.From, other.Range.To = noon.Add(-11*time.Hour).UnixMilli(), noon.Add(-9*time.Hour).UnixMilli()
		seriesOf(t, u.q, other)
	}
	require.Positive(t, u.answer(time.Second))
}
