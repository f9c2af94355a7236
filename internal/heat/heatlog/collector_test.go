package heatlog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/heat"
	"binnacle/internal/heat/heatlog"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

const container = "chunks-2026-11"

// started runs a collector on a store; stop ends it.
func started(t *testing.T, m *memory) (c *heatlog.Collector, stop func()) {
	t.Helper()
	c = heatlog.NewCollector(heatlog.Config{Role: "ingest"})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx, m) }()
	time.Sleep(30 * time.Second) // tests act between two minutes
	return c, func() {
		cancel()
		require.NoError(t, <-done)
	}
}

func charge(shard, device string, rus float64) heat.Charge {
	return heat.Charge{Container: container, Shard: shard, Device: device, Kind: heat.ChunkWrites, RUs: rus, Bytes: 100}
}

// sumOf returns what the minutes of a store say in all.
func sumOf(t *testing.T, m *memory) (sum heat.Amount, lost float64) {
	t.Helper()
	now := time.Now().UnixMilli()
	g, err := heatlog.NewReader(m).Grid(t.Context(), container,
		heat.Span{From: (now/heat.Day - 1) * heat.Day, To: now + heat.Hour, Step: heat.Minute})
	require.NoError(t, err)
	for i := range g.Rows {
		row := g.Rows[i].Total()
		sum.Add(&row)
	}
	return sum, g.Lost
}

// What was counted is written once, whatever the store does meanwhile and whenever the process ends; what can't be
// written in time is counted as lost.
func TestWhatIsCountedIsWrittenOnce(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 18))
			m := &memory{}
			c, stop := started(t, m)
			counted, bytes := 0.0, int64(0)
			for range 200 {
				time.Sleep(time.Duration(r.IntN(60)) * time.Second)
				for range r.IntN(8) {
					what := charge(fmt.Sprintf("acme~%d", r.IntN(40)), "", float64(r.IntN(1000))/100)
					c.Count(what)
					counted, bytes = counted+what.RUs, bytes+100
				}
				m.fail = nil
				if r.IntN(4) == 0 {
					m.fail = &store.BusyError{}
				}
			}
			m.fail = nil
			stop()
			sum, lost := sumOf(t, m)
			require.InDelta(t, counted, sum.Total(), 0.5, "seed %d", seed)
			require.Equal(t, bytes, sum.Bytes, "seed %d", seed)
			require.Zero(t, lost)
		})
	}
}

// A store that takes nothing for long has what was counted lost, not written as of a time when it did not happen.
func TestLongOutageIsLostAndSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{fail: store.ErrNoContainer}
		c, stop := started(t, m)
		for range 60 {
			c.Count(charge("acme~1", "", 5))
			time.Sleep(time.Minute)
		}
		m.fail = nil
		for range 10 {
			c.Count(charge("acme~1", "", 5))
			time.Sleep(time.Minute)
		}
		stop()
		sum, lost := sumOf(t, m)
		require.InDelta(t, 70*5, sum.Total()+lost, 1)
		require.InDelta(t, 60*5, lost, 60)
	})
}

// A steady load is written every five minutes; one that changes, or is throttled, at the next minute.
func TestSteadyKeysAreWrittenSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		c, stop := started(t, m)
		cells := func() (n int) {
			for _, d := range m.docs[string(heat.Minutes)] {
				f, err := heat.DecodeFrame(d.Body)
				require.NoError(t, err)
				n += len(f.Cells)
			}
			return n
		}
		for i := range 60 {
			c.Count(charge("acme~1", "", 50+float64(i%3)))
			time.Sleep(time.Minute)
		}
		require.LessOrEqual(t, cells(), 15)
		before := cells()
		c.Count(charge("acme~1", "", 100))
		time.Sleep(time.Minute)
		require.Equal(t, before+1, cells(), "it has changed")
		c.Count(heat.Charge{Container: container, Shard: "acme~1", RUs: 0.4, Throttled: true})
		time.Sleep(time.Minute)
		require.Equal(t, before+2, cells(), "it is throttled")
		stop()
	})
}

func TestWeightsOfDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		c, stop := started(t, m)
		day := telemetry.DayOf(time.Now().UnixMilli())
		for range 8 {
			c.Count(charge("whale~1", "truck-1", 100))
			c.Count(charge("whale~2", "truck-2", 50))
			c.Count(charge("minnow~1", "d", 0.1)) // too little to be listed
			time.Sleep(150 * time.Minute)
		}
		stop()
		got, err := heatlog.NewReader(m).Weights(t.Context(), day)
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.Equal(t, []heat.Weight{{Device: "truck-1", RUs: 800}, {Device: "truck-2", RUs: 400}}, got[0].Devices)
	})
}

func TestForecastIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		c, stop := started(t, m)
		c.SetForecast(func(time.Time, map[string]int64) []heat.Expected {
			e := heat.Expected{Key: heat.KeyOf(container, "acme~1")}
			e.RUs[3] = 7
			return []heat.Expected{e}
		})
		time.Sleep(31 * time.Minute)
		got, err := heatlog.NewReader(m).Forecast(t.Context(), time.Now())
		require.NoError(t, err)
		require.Len(t, got.OfContainer(container), 1)
		require.InDelta(t, 7, got.Cells[0].RUs[3], 1e-9)
		stop()
	})
}
