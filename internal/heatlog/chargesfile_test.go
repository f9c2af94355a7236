package heatlog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/charges"
	"binnacle/internal/heatlog"
	"binnacle/internal/retry"

	"github.com/stretchr/testify/require"
)

// What processes have counted that are killed at any time, with the store away or not, is stored once by the next ones
// of their data directory: all but what was counted in the last tenth of a second. Two that live do not store for each
// other, and one that ends leaves nothing behind.
func TestChargesOfKilledProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, m := t.TempDir(), &memory{}
		rng := rand.New(rand.NewPCG(20, 2))
		sum := func() (rus float64) {
			all, err := heatlog.NewReader(m).Charges(t.Context(), charges.MonthOf(time.Now()))
			require.NoError(t, err)
			for key, a := range all.Rows {
				if key.Tenant != "" {
					rus += a.RUs
				}
			}
			return rus
		}
		run := func(name string, length time.Duration) (counted float64) {
			counter := charges.NewCounter(name)
			w := heatlog.NewChargesWriter(counter, m, retry.Trouble{Log: slog.New(slog.DiscardHandler)})
			require.NoError(t, w.KeepIn(dir))
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- w.Run(ctx) }()
			for until := time.Now().Add(length); time.Now().Before(until); time.Sleep(time.Second) {
				counter.Count(time.Now(), charges.Charge{Tenant: fmt.Sprint("t", rng.IntN(300)), Kind: charges.Chunks, RUs: 7})
				counted += 7
				if m.fail = nil; rng.IntN(3) == 0 {
					m.fail = errors.New("the store is away")
				}
			}
			m.fail = errors.New("it is killed: nothing is stored any more")
			stop()
			require.NoError(t, <-done)
			return counted
		}
		total := 0.0
		for n := range 20 {
			total += run(fmt.Sprintf("ingest-%d", n), time.Duration(rng.IntN(150))*time.Second)
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "charges-x.json"), []byte("[{"), 0o600))
		at := time.Now()
		require.NoError(t, os.Chtimes(filepath.Join(dir, "charges-x.json"), at, at))

		last := charges.NewCounter("ingest-last")
		w := heatlog.NewChargesWriter(last, m, retry.Trouble{Log: slog.New(slog.DiscardHandler)})
		require.NoError(t, w.KeepIn(dir))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		m.fail = nil
		go func() { done <- w.Run(ctx) }()
		time.Sleep(30 * time.Second)
		require.InDelta(t, total, sum(), 1e-6)
		stop()
		require.NoError(t, <-done)
		require.InDelta(t, total, sum(), 1e-6)
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	})
}
