package stream_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/stream"
)

func TestStreamNumbersAreUnique(t *testing.T) {
	s := stream.NewStreams(storetest.NewDocuments(t))
	ctx := t.Context()
	a, err := s.Find(ctx, "c1", "telemetry", 4)
	require.NoError(t, err)
	require.Equal(t, stream.Stream{Number: 1, Cluster: "c1", Topic: "telemetry", Incarnation: 1, Partitions: 4}, a)
	again, err := s.Find(ctx, "c1", "telemetry", 4)
	require.NoError(t, err)
	require.Equal(t, a, again)
	b, err := s.Find(ctx, "c2", "telemetry", 4)
	require.NoError(t, err)
	require.EqualValues(t, 2, b.Number)

	a2, err := s.Next(ctx, a, 8)
	require.NoError(t, err)
	require.Equal(t, stream.Stream{Number: 3, Cluster: "c1", Topic: "telemetry", Incarnation: 2, Partitions: 4}, a2,
		"that it has grown is not forgotten")
	again, err = s.Next(ctx, a, 8)
	require.NoError(t, err)
	require.Equal(t, a2, again, "somebody has begun it already")
	again, err = s.Find(ctx, "c1", "telemetry", 4)
	require.NoError(t, err)
	require.Equal(t, a2, again)
}

// Racing workers, each with its own lagging reads, agree on the number of each stream.
func TestConcurrentFindsAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := storetest.NewDocuments(t)
		var mu sync.Mutex
		lists := 0
		docs.Lagging = func(string) bool {
			mu.Lock()
			defer mu.Unlock()
			lists++
			return lists%3 == 0
		}
		s := stream.NewStreams(docs)
		seen := make(map[string]map[uint32]bool)
		var wg sync.WaitGroup
		for i := range 24 {
			wg.Go(func() {
				topic := fmt.Sprintf("t%d", i%4)
				x, err := s.Find(t.Context(), "c", topic, 1)
				if err == nil {
					x, err = s.Next(t.Context(), stream.Stream{Number: x.Number, Cluster: "c", Topic: topic, Incarnation: 1}, 1)
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if seen[topic] == nil {
					seen[topic] = make(map[uint32]bool)
				}
				seen[topic][x.Number] = true
			})
		}
		wg.Wait()
		for topic, numbers := range seen {
			require.Len(t, numbers, 1, topic)
		}
		docs.Lagging = nil
		all, err := docs.List(t.Context(), stream.Kind)
		require.NoError(t, err)
		require.Len(t, all, 8)
	})
}

// A number that is missing for good is no reason to hand out numbers that may be taken.
func TestMissingStreamNumberIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := storetest.NewDocuments(t)
		_, err := docs.Create(t.Context(), store.Document{Kind: stream.Kind, ID: "0000000002",
			Body: []byte(`{"cluster":"c","topic":"t","incarnation":1}`)})
		require.NoError(t, err)
		_, err = stream.NewStreams(docs).Find(t.Context(), "c", "x", 1)
		require.ErrorContains(t, err, "missing")
	})
}
