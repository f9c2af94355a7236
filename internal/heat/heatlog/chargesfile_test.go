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
	"binnacle/internal/heat/heatlog"
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

// keeper is a process with a directory.
func keeper(t *testing.T, name, dir string, m *memory) (*charges.Counter, *heatlog.ChargesWriter) {
	counter := charges.NewCounter(name)
	w := heatlog.NewChargesWriter(counter, m, retry.Trouble{Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, w.KeepIn(dir))
	return counter, w
}

// running runs a writer until what is returned is called.
func running(t *testing.T, w *heatlog.ChargesWriter) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}

// acme returns what is stored of a tenant.
func acme(t *testing.T, m *memory) (rus float64) {
	all, err := heatlog.NewReader(m).Charges(t.Context(), charges.MonthOf(time.Now()))
	require.NoError(t, err)
	return all.Rows[charges.Key{Tenant: "acme"}].RUs
}

// A file that can't be read, in whatever way, keeps nobody from storing the others.
func TestDamagedChargesFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, m := t.TempDir(), &memory{fail: errors.New("away")}
		counter, w := keeper(t, "serve-z", dir, m)
		counter.Count(time.Now(), charges.Charge{Tenant: "acme", RUs: 7})
		stop := running(t, w)
		time.Sleep(time.Second)
		stop()
		for i, text := range []string{"", "[{", `[{"id":"a","month":"x","body":{"v":1}}]`, `[{"id":"a","month":"2000-01"}]`,
			`[{"id":"a","month":"2000-01","body":{"v":9}}]`} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("charges-%d.json", i)), []byte(text), 0o600))
		}
		m.fail = nil
		_, next := keeper(t, "serve-next", dir, m)
		stop = running(t, next)
		time.Sleep(20 * time.Second)
		require.InDelta(t, 7, acme(t, m), 0)
		stop()
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	})
}

// What a process stores goes to the store also where no file can be written, and no older file comes after it.
func TestChargesWithoutRoomForAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, m := t.TempDir(), &memory{}
		counter, w := keeper(t, "serve-1", dir, m)
		counter.Count(time.Now(), charges.Charge{Tenant: "acme", RUs: 7})
		stop := running(t, w)
		time.Sleep(time.Second)
		require.NoError(t, os.Mkdir(filepath.Join(dir, "charges-serve-1.json.new"), 0o700)) // in the way of writes
		counter.Count(time.Now(), charges.Charge{Tenant: "acme", RUs: 5})
		time.Sleep(2 * time.Minute)
		require.InDelta(t, 12, acme(t, m), 0)
		m.fail = errors.New("killed")
		stop()
		m.fail = nil
		_, next := keeper(t, "serve-2", dir, m)
		stop = running(t, next)
		time.Sleep(20 * time.Second)
		stop()
		require.InDelta(t, 12, acme(t, m), 0)
	})
}

// A process that lives keeps its file, however long it hangs.
func TestChargesOfAHangingProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, m := t.TempDir(), &memory{}
		keeper(t, "serve-1", dir, m) // it does not run on
		path := filepath.Join(dir, "charges-serve-1.json")
		require.NoError(t, os.WriteFile(path, []byte("[]"), 0o600))
		require.NoError(t, os.Chtimes(path, time.Now(), time.Now()))
		_, other := keeper(t, "serve-2", dir, m)
		stop := running(t, other)
		time.Sleep(time.Minute)
		require.FileExists(t, path)
		stop()
	})
}

// A process that dies between storing and removing a file, or in the midst of it, leaves it to the next one: all is
// stored once.
func TestChargesAreAdoptedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, m := t.TempDir(), &memory{fail: errors.New("away")}
		counter, w := keeper(t, "serve-1", dir, m)
		for i := range 250 {
			counter.Count(time.Now(), charges.Charge{Tenant: fmt.Sprint("t", i), RUs: 1})
		}
		counter.Count(time.Now(), charges.Charge{Tenant: "acme", RUs: 7})
		stop := running(t, w)
		time.Sleep(time.Second)
		stop()
		path := filepath.Join(dir, "charges-serve-1.json")
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		m.fail = nil
		for n := range 3 {
			_, next := keeper(t, fmt.Sprint("serve-next-", n), dir, m)
			stop := running(t, next)
			time.Sleep(20 * time.Second)
			stop()
			require.NoFileExists(t, path)
			require.InDelta(t, 7, acme(t, m), 0)
			require.NoError(t, os.WriteFile(path, text, 0o600)) // it was not removed
		}
	})
}
