package storetest

import (
	"cmp"
	"context"
	"slices"
	"testing"

	"binnacle/internal/store"

	"github.com/stretchr/testify/require"
)

// LogFixture is a log under test, empty, of one topic.
type LogFixture struct {
	Log        store.Log
	Topic      string
	Partitions int
	Append     func(partition, records int) // returns when they are acknowledged
}

// RunLog checks an implementation of store.Log; open returns one with at least two partitions.
func RunLog(t *testing.T, open func(t *testing.T) LogFixture) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, LogFixture)
	}{
		{"every partition has an end", logPartitions},
		{"what is acknowledged lies below the end", logEnds},
		{"a context that has ended", logEnded},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

func ends(t *testing.T, f LogFixture) []int64 {
	t.Helper()
	all, err := f.Log.LogEnds(t.Context())
	require.NoError(t, err)
	require.Len(t, all, f.Partitions)
	slices.SortFunc(all, func(a, b store.LogEnd) int { return cmp.Compare(a.Partition, b.Partition) })
	out := make([]int64, len(all))
	for i, e := range all {
		require.Equal(t, f.Topic, e.Topic)
		require.EqualValues(t, i, e.Partition, "each once")
		out[i] = e.End
	}
	return out
}

func logPartitions(t *testing.T, f LogFixture) {
	require.Equal(t, make([]int64, f.Partitions), ends(t, f), "also the empty ones")
}

func logEnds(t *testing.T, f LogFixture) {
	want := make([]int64, f.Partitions)
	for i := range 6 {
		p := i % f.Partitions
		f.Append(p, i+1)
		want[p] += int64(i + 1)
		require.Equal(t, want, ends(t, f))
	}
}

func logEnded(t *testing.T, f LogFixture) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.Log.LogEnds(ctx)
	require.ErrorIs(t, err, context.Canceled)
}
