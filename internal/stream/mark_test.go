package stream_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"binnacle/internal/store/storetest"
	"binnacle/internal/stream"
)

func mark(offset int64) stream.Mark {
	return stream.Mark{Offset: offset, Timestamp: 1795183200123, CRC: 4294967295}
}

// of is the stream of a partition, and the offset of its mark; -1 none.
func of(t *testing.T, s *stream.Streams, partitions int, partition int32) (stream uint32, offset int64) {
	t.Helper()
	x, m, marked, err := s.Of(t.Context(), "c", "telemetry", partitions, partition)
	require.NoError(t, err)
	if !marked {
		require.Zero(t, m)
		return x.Number, -1
	}
	return x.Number, m.Offset
}

func requireOf(t *testing.T, s *stream.Streams, partition int32, stream uint32, offset int64) {
	t.Helper()
	number, at := of(t, s, 4, partition)
	require.Equal(t, [2]int64{int64(stream), offset}, [2]int64{int64(number), at}, "partition %d", partition)
}

func TestAdvanceKeepsGreaterOffset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stream.NewStreams(storetest.NewDocuments(t))
		requireOf(t, s, 0, 1, -1)
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if err := s.Advance(t.Context(), 1, int32(i%2), mark(int64(100+i*7%20))); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		requireOf(t, s, 0, 1, 118)
		requireOf(t, s, 1, 1, 119)
		requireOf(t, s, 2, 1, -1)
	})
}

// The mark that a stream begins with gives way to one of the same record that is committed, never the other way.
func TestAdvanceToSameRecord(t *testing.T) {
	s := stream.NewStreams(storetest.NewDocuments(t))
	requireOf(t, s, 0, 1, -1)
	begins := mark(7)
	begins.Begins = true
	require.True(t, begins.IsSameRecord(mark(7)))
	require.False(t, begins.IsSameRecord(mark(8)))
	for _, m := range []stream.Mark{begins, mark(7), begins} {
		require.NoError(t, s.Advance(t.Context(), 1, 0, m))
	}
	_, m, marked, err := s.Of(t.Context(), "c", "telemetry", 4, 0)
	require.NoError(t, err)
	require.True(t, marked)
	require.Equal(t, mark(7), m)
}

// A partition stays in the stream that has its mark when another one begins a new one; without a mark it goes to the
// newest.
func TestStreamOfEachPartition(t *testing.T) {
	s := stream.NewStreams(storetest.NewDocuments(t))
	ctx := t.Context()
	first, err := s.Find(ctx, "c", "telemetry", 4)
	require.NoError(t, err)
	for p := range int32(3) {
		require.NoError(t, s.Advance(ctx, 1, p, mark(10)))
	}
	second, err := s.Next(ctx, first, 4)
	require.NoError(t, err)
	require.NoError(t, s.Advance(ctx, second.Number, 1, mark(3)))
	requireOf(t, s, 0, 1, 10)
	requireOf(t, s, 1, 2, 3)
	requireOf(t, s, 3, 2, -1)
	_, err = s.Next(ctx, second, 4)
	require.NoError(t, err)
	requireOf(t, s, 0, 1, 10)
	requireOf(t, s, 1, 2, 3)
	requireOf(t, s, 3, 3, -1)

	// The topic has grown: devices may have moved, so an older stream would lose to a newer one that is read from its
	// start.
	number, offset := of(t, s, 8, 0)
	require.Equal(t, uint32(3), number)
	require.EqualValues(t, -1, offset)
	require.NoError(t, s.Advance(ctx, 3, 0, mark(1)))
	number, offset = of(t, s, 8, 0)
	require.Equal(t, uint32(3), number)
	require.EqualValues(t, 1, offset)
}

// Partitions do not contend: what each asks of the control documents does not depend on how many there are.
func TestMarksOfPartitionsAreIndependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const partitions = 100
		docs := storetest.NewDocuments(t)
		s := stream.NewStreams(docs)
		_, err := s.Find(t.Context(), "c", "telemetry", partitions)
		require.NoError(t, err)
		var operations atomic.Int64
		docs.Fault = func(string, string, string) *storetest.Fault {
			operations.Add(1)
			return nil
		}
		run := func(do func(ctx context.Context, p int32) error) int64 {
			before := operations.Load()
			var wg sync.WaitGroup
			for p := range int32(partitions) {
				wg.Go(func() {
					if err := do(t.Context(), p); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			return operations.Load() - before
		}
		require.EqualValues(t, 2*partitions, run(func(ctx context.Context, p int32) error {
			_, _, _, err := s.Of(ctx, "c", "telemetry", partitions, p)
			return err
		}))
		for round := range int64(2) {
			require.EqualValues(t, 2*partitions, run(func(ctx context.Context, p int32) error {
				return s.Advance(ctx, 1, p, mark(round))
			}))
		}
	})
}
