package main_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"binnacle/internal/lab/loadtest"
	"binnacle/internal/lab/planner"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A plan is within a tenth of what a load test of the same workload measures, over random workloads: two here, ten with
// -full.
func TestPlanBesideALoadTest(t *testing.T) {
	t.Parallel()
	const seed = 21
	r, n := rand.New(rand.NewPCG(seed, 0)), 2
	if *full {
		n = 10
	}
	for i := range n {
		hold := []time.Duration{12 * time.Hour, time.Hour, 6 * time.Hour}[i%3]
		cfg := loadtest.DefaultConfig()
		cfg.Scenarios, cfg.Layouts = []loadtest.Scenario{loadtest.Uniform}, []loadtest.Layout{loadtest.Binnacle}
		cfg.Hold, cfg.Window = hold, 24*time.Hour
		cfg.Devices, cfg.Interval = 100+r.IntN(20), time.Duration(120+r.IntN(240))*time.Second
		if i >= 2 {
			cfg.Interval = (cfg.Interval / 6).Truncate(time.Second)
		}
		cfg.Sample = cfg.Interval
		report, err := loadtest.Run(t.Context(), cfg)
		require.NoError(t, err)
		measured := report.Outcomes[0].Results[0]

		w, err := planner.Parse(fmt.Appendf(nil, "name: trucks\nhold: %s\nfleets: "+
			"[{name: trucks, devices: %d, interval: %s, metrics: {truck: 10}}]", hold, cfg.Devices, cfg.Interval), nil)
		require.NoError(t, err)
		plan, err := planner.New(w, 1, 20)
		require.NoError(t, err)
		for name, want := range map[string]float64{
			"RU per million values":     measured.PerMillion,
			"bytes of a chunk document": measured.DocumentBytes,
			"chunks written":            measured.Chunks,
		} {
			for _, f := range plan.Figures {
				if f.Name == name {
					t.Logf("every %s, hold %s: %s: planned %g, measured %g", cfg.Interval, hold, name, f.P50, want)
					assert.InEpsilon(t, want, f.P50, 0.1, "%s every %s with a hold of %s, seed %d", name, cfg.Interval, hold, seed)
				}
			}
		}
	}
}

// The plan that the guide links is what its command makes; without the data it is as it stands.
func TestPlanOfTrucks(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("../../../shared/data"); err != nil {
		t.Skip("no shared data")
	}
	out := t.TempDir()
	code, _, stderr := inProcess(t, "plan", "../../docs/start/plan-trucks.yaml", "--out", out)
	require.Zero(t, code, stderr)
	for _, name := range []string{"cosmosdb_requirements.md", "cosmosdb_data_model.md", "plan.json"} {
		made, err := os.ReadFile(filepath.Join(out, name))
		require.NoError(t, err)
		stands, err := os.ReadFile(filepath.Join("../../internal/lab/planner/testdata/plan-trucks", name))
		require.NoError(t, err)
		require.Equal(t, string(stands), string(made), "%s: make plan writes it anew", name)
	}
	code, stdout, _ := inProcess(t, "plan", "../../internal/lab/planner/testdata/sample.yaml", "--futures", "20",
		"--set", "retention=90d")
	require.Zero(t, code)
	require.Contains(t, stdout, "BILL OF MONTH 12")
	refused(t, []string{"plan", "../../docs/start/plan-trucks.yaml", "--futures=3"}, "20 to 100000 are allowed")
	refused(t, []string{"plan", "missing.yaml"}, "read the workload")
	refused(t, []string{"plan"}, "one of a workload file and --from-topic is needed")
	refused(t, []string{"plan", "x.yaml", "--from-topic=x"}, "one of a workload file")
	refused(t, []string{"plan", "x.yaml", "--save=y.yaml"}, "--save is for a workload that is measured")
	refused(t, []string{"plan", "--from-topic=x", "--records=0"}, "must be above 0")
}
