package retry_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/retry"

	"github.com/stretchr/testify/require"
)

// Pauses of work that spends request units are as long as the pace makes them, but after an error; all others are not.
func TestPacedLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(retry.WithPace(t.Context(), func(d time.Duration) time.Duration { return 15 * d }))
		began := time.Now()
		var plain, paced []time.Duration
		run := func(spends bool, at *[]time.Duration) {
			loop := retry.Loop{Every: time.Minute, Spends: spends, Log: slog.New(slog.DiscardHandler)}
			_ = loop.Run(ctx, func(context.Context) error {
				*at = append(*at, time.Since(began))
				if len(*at) == 2 {
					return errors.New("busy")
				}
				return nil
			})
		}
		go run(false, &plain)
		go run(true, &paced)
		time.Sleep(32*time.Minute + time.Second)
		cancel()
		synctest.Wait()
		require.Len(t, plain, 33)
		require.Equal(t, []time.Duration{0, 15 * time.Minute, 16 * time.Minute, 31 * time.Minute}, paced)
		require.Equal(t, time.Second, retry.Paced(context.Background(), time.Second))
	})
}
