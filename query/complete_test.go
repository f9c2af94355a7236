package query_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func lastHour() telemetry.Range {
	return telemetry.Range{From: noon.Add(-time.Hour).UnixMilli(), To: noon.UnixMilli()}
}

// head is a partition's head without rows.
func head(partition int32, stream uint32, position, caughtUp int64) store.PartitionHead {
	return store.PartitionHead{Stream: stream, Partition: partition, Position: position, CaughtUp: caughtUp}
}

// An answer is complete only if for every partition a head answers that has read far enough (R3).
func TestComplete(t *testing.T) {
	type step struct {
		heads   []store.PartitionHead
		failing error // of the heads
		ends    []int64
		noLog   bool // it does not answer
		strict  bool
		after   time.Duration // since the step before
		missing []string      // nil: complete
	}
	for _, c := range []struct {
		name      string
		withoutIt bool // there is no log to ask
		steps     []step
	}{
		{"one head, caught up", false, []step{{heads: []store.PartitionHead{head(0, 1, 5, 5)}, ends: []int64{9}}}},
		{"no head", false, []step{{ends: []int64{9}, missing: []string{"no ingester answers for partition telemetry/0"}}}},
		{"a head that replays", false, []step{
			{heads: []store.PartitionHead{head(0, 1, 4, 5)}, ends: []int64{9},
				missing: []string{"partition telemetry/0 is being replayed: offset 4 of 5"}},
			{heads: []store.PartitionHead{head(0, 1, 5, 5)}, ends: []int64{9}},
		}},
		{"one partition of two", false, []step{
			{heads: []store.PartitionHead{head(1, 1, 5, 5)}, ends: []int64{0, 9},
				missing: []string{"no ingester answers for partition telemetry/0"}},
		}},
		{"an older owner beside the new one", false, []step{
			{heads: []store.PartitionHead{head(0, 1, 3, 9), head(0, 1, 7, 7)}, ends: []int64{9}},
			{heads: []store.PartitionHead{head(0, 1, 7, 7), head(0, 1, 3, 9)}, ends: []int64{9}},
		}},
		{"a head behind an earlier answer", false, []step{
			{heads: []store.PartitionHead{head(0, 1, 7, 0)}, ends: []int64{9}},
			{heads: []store.PartitionHead{head(0, 1, 6,
				0)}, missing: []string{"partition telemetry/0 is behind an earlier answer: offset 6 of stream 1 after offset 7 " +
				"of stream 1"}},
			{heads: []store.PartitionHead{head(0, 1, 7, 0)}},
		}},
		{"a new incarnation begins again", false, []step{
			{heads: []store.PartitionHead{head(0, 1, 7, 0)}, ends: []int64{9}},
			{heads: []store.PartitionHead{head(0, 1, 7, 0), head(0, 2, 1, 1)}},
			{heads: []store.PartitionHead{head(0, 1, 8,
				0)}, missing: []string{"partition telemetry/0 is behind an earlier answer: offset 8 of stream 1 after offset 1 " +
				"of stream 2"}},
		}},
		{"an ingester that is gone, and a partition with it", false, []step{
			{heads: []store.PartitionHead{head(0, 1, 7, 0)}, failing: errors.New("x"), ends: []int64{9, 9}, missing: []string{
				"no ingester answers for partition telemetry/1", "not all ingesters answer"}},
			{heads: []store.PartitionHead{head(0, 1, 7, 0), head(1, 1, 7, 0)}, failing: errors.New("x")}, // others have it
		}},
		{"an ingester that is gone, and no log to tell which partitions there are", true, []step{
			{heads: []store.PartitionHead{head(0, 1, 7, 0)}, failing: errors.New("x"),
				missing: []string{"not all ingesters answer"}},
			{heads: []store.PartitionHead{head(0, 1, 7, 0)},
				failing: fmt.Errorf("x: %w", &store.SilentHeads{Silent: 1, All: 3}),
				missing: []string{"not all ingesters answer: 2 of 3"}},
		}},
		{"the log has never answered", false, []step{
			{heads: []store.PartitionHead{head(0, 1, 7, 0)}, noLog: true,
				missing: []string{"which partitions there are is not known yet"}},
			{heads: []store.PartitionHead{head(0, 1, 7, 0)}, ends: []int64{9}, after: time.Second,
				missing: []string{"which partitions there are is not known yet"}},
			{heads: []store.PartitionHead{head(0, 1, 7, 0)}, ends: []int64{9}, after: 5 * time.Second},
		}},
		{"the log answered before", false, []step{
			{heads: []store.PartitionHead{head(0, 1, 7, 0)}, ends: []int64{9}},
			{heads: []store.PartitionHead{head(0, 1, 7, 0)}, noLog: true, after: time.Hour},
		}},
		{"a partition is added", false, []step{
			{heads: []store.PartitionHead{head(0, 1, 7, 0)}, ends: []int64{9}},
			{heads: []store.PartitionHead{head(0, 1, 7, 0)}, ends: []int64{9, 1}, after: time.Second},
			{heads: []store.PartitionHead{head(0, 1, 7, 0)}, ends: []int64{9, 1}, after: 30 * time.Second,
				missing: []string{"no ingester answers for partition telemetry/1"}},
			{heads: []store.PartitionHead{head(0, 1, 7, 0), head(1, 1, 1, 0)}, ends: []int64{9, 1}},
		}},
		{"a topic is made anew with fewer partitions", false, []step{
			{heads: []store.PartitionHead{head(0, 1, 7, 0), head(1, 1, 7, 0)}, ends: []int64{9, 9}},
			{heads: []store.PartitionHead{head(0, 2, 1, 0)}, ends: []int64{1}, after: time.Minute},
		}},
		{"without a log the heads seen tell", true, []step{
			{missing: []string{"no ingester answers"}},
			{heads: []store.PartitionHead{head(3, 1, 7, 0)}},
			{missing: []string{"no ingester answers for partition telemetry/3"}},
		}},
		{"strict: at the end", false, []step{{heads: []store.PartitionHead{head(0, 1, 9, 0)}, ends: []int64{9},
			strict: true}}},
		{"strict: before the end", false, []step{
			{heads: []store.PartitionHead{head(0, 1, 8, 0)}, ends: []int64{9}, strict: true,
				missing: []string{"partition telemetry/0 is read to offset 8 of 9"}},
		}},
		{"strict: no head", false, []step{{ends: []int64{9}, strict: true,
			missing: []string{"no ingester answers for partition telemetry/0"}}}},
		{"strict: the log does not answer", false, []step{
			{heads: []store.PartitionHead{head(0, 1, 9, 0)}, ends: []int64{9}},
			{heads: []store.PartitionHead{head(0, 1, 9, 0)}, noLog: true, strict: true,
				missing: []string{"the log's end is not known"}},
		}},
		{"strict: there is no log", true, []step{
			{heads: []store.PartitionHead{head(0, 1, 9, 0)}, strict: true,
				missing: []string{"the log's end is not known"}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := querytest.New(t, noon)
				w.Tenant("acme")
				q := newQuerier(t, w, func(config *query.Config) {
					if !c.withoutIt {
						config.Log = w.Log
					}
				})
				for i, s := range c.steps {
					w.Now = w.Now.Add(s.after)
					w.Heads.Reset()
					for _, h := range s.heads {
						w.Heads.Set(h)
					}
					w.Heads.Fail(s.failing)
					if s.ends != nil {
						w.Log.Set(s.ends...)
					}
					w.Log.Fail(nil)
					if s.noLog {
						w.Log.Fail(errors.New("broken"))
					}
					_, res := ask(t, q, query.Request{Tenant: "acme", Range: lastHour(), Strict: s.strict})
					require.Equal(t, s.missing, res.Incomplete, "step %d", i)
					require.Equal(t, s.missing == nil, res.Complete, "step %d", i)
				}
			})
		})
	}
}

// A chunk that an answer has shown counts as read. The next answer is of a replica that may lack the chunk: it is not
// complete while the only head is of an ingester that had lost the partition before the chunk was stored (R3). That
// ingester need not know the stream of the chunk.
func TestShownChunkCountsAsRead(t *testing.T) {
	behind := func(stream int) []string {
		return []string{"partition telemetry/0 is behind an earlier answer: offset 5 of stream 1 after offset 7 of stream " +
			strconv.Itoa(stream)}
	}
	unknown := []string{"a stored chunk is of stream 2, which is not known here yet"}
	for _, c := range []struct {
		name        string
		stream      uint32
		cluster     string // of stream 2; "" where there is none
		first, next []string
	}{
		{name: "of the stream of a head", stream: 1, next: behind(1)},
		{name: "of a later stream of the log", stream: 2, cluster: "c", next: behind(2)},
		{name: "of another cluster", stream: 2, cluster: "d"},
		{name: "of a stream that is new", stream: 2, first: unknown, next: unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := querytest.New(t, noon)
			streams := stream.NewStreams(w.Documents)
			first, err := streams.Find(t.Context(), "c", querytest.Topic, 1)
			require.NoError(t, err)
			if c.cluster == first.Cluster {
				_, err = streams.Next(t.Context(), first, 1)
			} else if c.cluster != "" {
				_, err = streams.Find(t.Context(), c.cluster, querytest.Topic, 1)
			}
			require.NoError(t, err)
			w.Tenant("acme")
			r := record(6, "m1", noon.Add(-time.Minute), float("x", 1))
			r.Position.Stream = c.stream
			w.Heads.Unaware(func() { w.Chunk(r) })
			w.Heads.Set(head(0, 1, 5, 0))
			q := newQuerier(t, w, nil)
			for _, missing := range [][]string{c.first, c.next} {
				rows, res := ask(t, q, query.Request{Tenant: "acme", Range: lastHour()})
				require.Len(t, rows, 1)
				require.Equal(t, missing, res.Incomplete)
			}
		})
	}
}

// Rule R3: a stream that heads read and the snapshot lacks is read before a chunk of an older one is judged.
func TestHeadOfANewStream(t *testing.T) {
	w := querytest.New(t, noon)
	w.Tenant("acme")
	w.Heads.Unaware(func() { w.Chunk(record(6, "m1", noon.Add(-time.Minute), float("x", 1))) })
	q, d := elsewhere(t, w)
	v, err := d.Refresh(t.Context())
	require.NoError(t, err)
	_, err = stream.NewStreams(w.Documents).Next(t.Context(), v.Streams[1], 1)
	require.NoError(t, err)
	w.Heads.Set(head(0, 2, 5, 0))
	rows, res := ask(t, q, query.Request{Tenant: "acme", Range: lastHour()})
	require.Len(t, rows, 1)
	require.True(t, res.Complete, res.Incomplete)
	require.Contains(t, d.Snapshot().Streams, uint32(2))
}

func TestStrictWaitsForLogEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := querytest.New(t, noon)
		w.Tenant("acme")
		w.Log.Set(9)
		w.Heads.Set(head(0, 1, 5, 0))
		q := newQuerier(t, w, func(c *query.Config) { c.Log = w.Log })
		request := query.Request{Tenant: "acme", Range: lastHour(), Strict: true}

		began := time.Now()
		time.AfterFunc(3*time.Second, func() {
			w.Heads.Set(head(0, 1, 9, 0), record(8, "m1", noon.Add(-time.Minute), float("x", 1)))
		})
		rows, res := ask(t, q, request)
		require.True(t, res.Complete, "%v", res.Incomplete)
		require.Len(t, rows, 1)
		require.InDelta(t, 3, time.Since(began).Seconds(), 0.38, "a pause is at most 375 ms")
		asked := w.Heads.Requests()
		require.Less(t, len(asked), 40)
		for i, r := range asked {
			require.Equal(t, i < len(asked)-1, r.Range.Empty(), "positions are asked for without rows")
		}

		w.Log.Set(10)
		for timeout, seconds := range map[time.Duration]float64{0: 15, 2 * time.Second: 1} {
			began = time.Now()
			ctx := t.Context()
			if timeout > 0 {
				ctx = query.WithTimeout(ctx, timeout)
			}
			rows = nil
			res, err := q.Readings(ctx, request, func(row query.Row) error {
				rows = append(rows, row)
				return nil
			})
			require.NoError(t, err)
			require.False(t, res.Complete)
			require.Len(t, rows, 1, "the rows that could be read")
			require.InDelta(t, seconds, time.Since(began).Seconds(), 0.01)
		}
	})
}

// An answer that another one overtakes is as complete as it would be alone: neither is earlier than the other. What is
// asked afterwards is held to the one that reaches further.
func TestCompleteAfterConcurrentAnswer(t *testing.T) {
	w := querytest.New(t, noon)
	w.Tenant("acme")
	w.Log.Set(6)
	q := newQuerier(t, w, func(c *query.Config) { c.Log = w.Log })
	answers := func(position int64) []string {
		w.Heads.Reset()
		w.Heads.Set(head(0, 1, position, 0))
		_, res := ask(t, q, query.Request{Tenant: "acme", Range: lastHour()})
		return res.Incomplete
	}
	w.Heads.OnCall(func() {
		w.Heads.OnCall(nil)
		require.Empty(t, answers(7))
		w.Heads.Reset()
		w.Heads.Set(head(0, 1, 6, 0))
	})
	require.Empty(t, answers(6))
	require.NotEmpty(t, answers(6), "it reaches less than what was answered before")
}

func TestLogEndsAreCached(t *testing.T) {
	w := querytest.New(t, noon)
	w.Tenant("acme")
	w.Log.Set(1)
	w.Heads.Set(head(0, 1, 1, 1))
	q := newQuerier(t, w, func(c *query.Config) { c.Log = w.Log })
	for range 100 {
		ask(t, q, query.Request{Tenant: "acme", Range: lastHour()})
	}
	require.Equal(t, 1, w.Log.Calls())
	w.Now = w.Now.Add(31 * time.Second)
	ask(t, q, query.Request{Tenant: "acme", Range: lastHour()})
	require.Equal(t, 2, w.Log.Calls())
}

func record(offset int64, device string, at time.Time, fields ...telemetry.Field) querytest.Record {
	return querytest.Record{
		Position: telemetry.Position{Stream: 1, Offset: offset},
		Reading:  telemetry.Reading{Tenant: "acme", Device: device, Time: at.UnixMilli(), Fields: fields},
	}
}

func float(metric string, f float64) telemetry.Field {
	return telemetry.Field{Metric: metric, Value: telemetry.FloatValue(f)}
}
