package worker_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/ingesttest"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

// tight are limits that most of logOf is above, by the device or by the tenant.
var tight = []tenant.IngestLimits{
	{Readings: 0.2, Burst: 5},
	{DeviceReadings: 0.1, Burst: 5},
	{Readings: 0.5, DeviceValues: 0.2, Burst: 5},
}

// The process dies at every operation outside in turn while readings wait for limits, without a journal and with one:
// nothing is lost, nothing is stored twice, chains stay in order, and in the end everything is stored.
func TestDeathAtEveryStepWithLimits(t *testing.T) {
	log := logOf(5, ingesttest.Rounds(30, 20))
	for i, limits := range tight {
		var worlds []*world
		deathAtEveryStep(t, func() *world {
			w := newWorld(t, log)
			if w.limits = limits; i%2 == 0 {
				w.hold = 20 * time.Second
				withJournal(w)
			}
			worlds = append(worlds, w)
			return w
		})
		waited := 0
		for _, w := range worlds {
			waited += w.waited
		}
		require.Greater(t, waited, len(worlds))
	}
}

// Readings that wait for too long are refused, and the process dies all the time: each reading is stored or in the dead
// dead letters, at every moment of what is below the committed offset.
func TestDeathWhileDeferredIsRefused(t *testing.T) {
	const seed = 41
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	refused, stored := 0, 0
	for round := range ingesttest.Rounds(15, 8) {
		w := newWorld(t, nil)
		for i := range 120 {
			at := int64(start + i*300)
			w.log = append(w.log, admit.Record{Offset: int64(i), Time: at, Value: fmt.Appendf(nil,
				`{"tenant":"acme","device":"d%d","ts":%d,"values":{"a":%d}}`, rnd.IntN(3), at, i)})
		}
		w.now = time.UnixMilli(start)
		w.limits, w.held = tenant.IngestLimits{Readings: 0.3, DeviceReadings: 0.2, Burst: 3}, 5*time.Second
		w.lossy = true
		if round%2 == 0 {
			w.hold = time.Duration(1+rnd.IntN(30)) * time.Second
			withJournal(w)
		}
		deaths := 0
		w.fatal = func(int) int {
			if deaths < 8 && rnd.IntN(15) == 0 {
				deaths++
				return 1 + rnd.IntN(2)
			}
			return live
		}
		for !w.live(rnd.Uint64()) {
		}
		require.Equal(t, int64(len(w.log)), w.commit)
		w.checkCommitted()
		w.CheckChains()
		for _, l := range w.deadLetters {
			require.Equal(t, decode.Limit, l.Bad.Reason)
		}
		refused, stored = refused+len(w.deadLetters), stored+w.storedReadings()
	}
	t.Logf("%d stored, %d refused", stored, refused)
	require.Greater(t, refused, 100)
	require.Greater(t, stored, 100)
}
