package kafka_test

import (
	"context"
	"testing"
	"testing/synctest"

	"binnacle/internal/kafka"

	"github.com/stretchr/testify/require"
)

// What was fetched and not given back has a bound: a fetch without room waits for it.
func TestFetchedBatchesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := kafka.NewMemoryBudget(100)
		first, err := room.Hold(t.Context(), 80, 30)
		require.NoError(t, err)
		small, err := room.Hold(t.Context(), 70, 0)
		require.NoError(t, err)
		small.Release()
		done := make(chan *kafka.Batch)
		go func() {
			b, err := room.Hold(t.Context(), 80, 80)
			require.NoError(t, err)
			done <- b
		}()
		synctest.Wait()
		select {
		case <-done:
			require.Fail(t, "there is no room yet")
		default:
		}
		first.Release()
		first.Release() // again is nothing
		second := <-done

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = room.Hold(ctx, 80, 80)
		require.ErrorIs(t, err, context.Canceled)
		second.Release()
		_, err = room.Hold(t.Context(), 100, 1)
		require.NoError(t, err)
	})
}
