package loadtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A simulation is within a twentieth of the load test of the same fleet: charges, chunks, bytes, and how hot partitions
// are before and after the balancer has seen the load.
func TestSimulationIsTheLoadTest(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Devices, cfg.Interval, cfg.Hold, cfg.Seed = 300, 5*time.Minute, 12*time.Hour, 7
	cfg = cfg.withDefaults()
	samples, err := sampleDay(t.Context(), cfg)
	require.NoError(t, err)
	simulated := func() SimulationReport {
		m := &simulation{cfg: cfg, of: Simulation{Tenants: tenants, Days: 3}, samples: samples}
		sim, err := m.simulate(t.Context(), Whale)
		require.NoError(t, err)
		return sim
	}
	sim := simulated()
	require.Equal(t, sim, simulated())

	run := func(l Layout, placed totals) totals {
		p := pass{cfg: cfg.of(Whale), scenario: Whale, layout: l, placed: placed.decision.Changes}
		got, err := p.run(t.Context())
		require.NoError(t, err)
		return got
	}
	hottest := func(of totals) (hottest float64) {
		for _, p := range of.partitions {
			hottest = max(hottest, p.RUs/of.charged()*float64(len(of.partitions)))
		}
		return hottest
	}
	free := run(Binnacle, totals{})
	near := func(want, got float64, what string) {
		t.Helper()
		require.InEpsilon(t, want, got, 0.05, what)
	}
	near(free.charged()*1e6/float64(free.stored*metrics), sim.PerMillion, "RU per million values")
	near(float64(free.chunks), sim.Chunks, "chunks a day")
	near(float64(free.bytes)/float64(free.stored*metrics), sim.PerValue, "bytes a value")
	near(float64(cfg.Devices)*metrics/cfg.Interval.Seconds(), sim.Values, "values")
	// With a long hold the chunks of a day are written on the next one.
	near(hottest(free), sim.Days[0].Hottest, "hottest, as tenants begin")
	near(hottest(run(Balanced, free)), sim.Days[2].Hottest, "hottest, balanced")
}

// What can't be simulated is refused, all faults at once.
func TestSimulationIsRefused(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Devices, cfg.Partitions = 1, 1000
	_, err := Simulate(t.Context(), cfg, Simulation{Tenants: 0, Days: 1000}, Reconnect)
	for _, want := range []string{"1 devices: 100 to 50000000", "0 tenants", "1000 physical partitions: 2 to 200",
		"1000 days", "scenario reconnect: uniform, whale and zipf"} {
		require.ErrorContains(t, err, want)
	}
}
