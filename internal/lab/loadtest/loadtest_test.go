package loadtest_test

import (
	"flag"
	"testing"
	"time"

	"binnacle/internal/lab/loadtest"

	"github.com/stretchr/testify/require"
)

const day = 24 * time.Hour

var days = flag.Bool("balanced.days", false, "TestBalancerEvensTheWhale measures whole days, with a hold of half a day")

// three are the layouts of most tests.
var three = []loadtest.Layout{loadtest.ByDate, loadtest.ByDevice, loadtest.Binnacle}

// small is a load that takes a second: holds of two minutes, so chunks of twelve rows.
func small(change func(*loadtest.Config)) loadtest.Config {
	cfg := loadtest.Config{
		Scenarios: loadtest.MainScenarios(), Layouts: three, Devices: 100, Interval: 10 * time.Second, Partitions: 5,
		Window: 2 * time.Minute, Sample: 30 * time.Second, Hold: 2 * time.Minute, Seed: 3,
	}
	if change != nil {
		change(&cfg)
	}
	return cfg
}

func run(t *testing.T, cfg loadtest.Config) loadtest.Report {
	t.Helper()
	t.Logf("seed %d", cfg.Seed)
	r, err := loadtest.Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Len(t, r.Outcomes, len(cfg.Scenarios))
	for _, o := range r.Outcomes {
		var got []loadtest.Layout
		for _, r := range o.Results {
			got = append(got, r.Layout)
		}
		require.Equal(t, cfg.Layouts, got)
	}
	return r
}

// The claim itself, with the bins of an hour: the whale heats one partition in layouts with a document per
// reading, and none in Binnacle, which takes a small fraction of the request units.
func TestWhaleHeatsOnePartitionButNotBinnacle(t *testing.T) {
	cfg := loadtest.DefaultConfig()
	cfg.Scenarios = []loadtest.Scenario{loadtest.Whale}
	cfg.Layouts = three
	cfg.Devices, cfg.Sample = 400, 20*time.Second
	report := run(t, cfg)
	require.Empty(t, report.Check(), "it keeps what Binnacle promises")
	results := report.Outcomes[0].Results
	byDate, byDevice, binnacle := results[0], results[1], results[2]

	require.GreaterOrEqual(t, byDate.Hottest, 4.5)
	require.GreaterOrEqual(t, byDevice.Hottest, 3.5)
	require.LessOrEqual(t, binnacle.Hottest, 1.5)
	require.LessOrEqual(t, binnacle.PerMillion, byDate.PerMillion/200)
	require.LessOrEqual(t, binnacle.PerMillion, byDevice.PerMillion/200)

	for _, r := range results {
		require.InDelta(t, 40, r.Offered, 1e-9)
		require.Len(t, r.Spread, 5)
		sum := 0.0
		for _, share := range r.Spread {
			sum += share
		}
		require.InDelta(t, 1, sum, 1e-3)
		require.InDelta(t, r.PerMillion*r.Offered*10/1e6/0.8, r.Needed, r.Needed*0.01)
		require.EqualValues(t, 400, r.Bought)
		require.InDelta(t, 23.36, r.Dollars, 0.001)
	}
	// 80 RU/s a partition are 11.6 writes of 6.87 RU, or 12.2 of 6.55.
	require.InDelta(t, 11.6, byDate.Accepted, 0.5)
	require.Greater(t, byDate.Throttled, 0.7)
	require.True(t, byDate.Grainy())
	require.Less(t, byDevice.Accepted, 0.6*byDevice.Offered)
	for _, r := range []loadtest.Result{byDate, byDevice} {
		require.GreaterOrEqual(t, r.Enough.Accepted, 0.995*r.Offered, "with what is enough all are accepted")
		require.Greater(t, r.Enough.RUs, r.Bought)
	}
	require.Nil(t, binnacle.Enough)
	require.InDelta(t, 40, binnacle.Accepted, 0.4)
	require.Zero(t, binnacle.Throttled)
}

// An even load of ten tenants is uneven too when a tenant's data is in one partition.
func TestUniform(t *testing.T) {
	uniform := small(func(c *loadtest.Config) { c.Scenarios = []loadtest.Scenario{loadtest.Uniform} })
	results := run(t, uniform).Outcomes[0].Results
	require.InDelta(t, 5, results[0].Hottest, 1e-9)
	require.InDelta(t, 2, results[1].Hottest, 0.01, "four of the ten names fall into one partition")
	require.Less(t, results[2].Hottest, 1.6)
}

// What else people do: a suffix is as uneven as its values fall, a key by device is even and as dear as any
// document per reading, and 100 readings of JSON in a document are cheaper, and as hot as their tenant.
func TestOtherLayouts(t *testing.T) {
	cfg := small(func(c *loadtest.Config) {
		c.Scenarios, c.Devices, c.Sample = []loadtest.Scenario{loadtest.Whale}, 200, 5*time.Second
		c.Layouts = []loadtest.Layout{loadtest.KeyHash, loadtest.ByDevice, loadtest.Device, loadtest.Hundred}
		c.Interval, c.Hold, c.Window = time.Second, 100*time.Second, 100*time.Second
	})
	results := run(t, cfg).Outcomes[0].Results
	suffix, byDevice, device, hundred := results[0], results[1], results[2], results[3]
	require.Greater(t, suffix.Hottest, 1.5)
	require.Less(t, suffix.Hottest, 3.0)
	require.Greater(t, byDevice.Hottest, 4.0)
	require.Less(t, device.Hottest, 1.3)
	require.InEpsilon(t, byDevice.PerMillion, device.PerMillion, 0.1)
	require.InEpsilon(t, byDevice.Hottest, hundred.Hottest, 0.05)
	require.Less(t, hundred.PerMillion, byDevice.PerMillion/30)
	require.InEpsilon(t, hundred.Offered, hundred.Accepted, 0.05, "as many readings are written as come")
}

// Tenants by Zipf's law, and a device with half of all readings: neither heats a partition of Binnacle's after a day,
// and a key by device does not help against the latter.
func TestZipfAndHotDevice(t *testing.T) {
	for scenario, hot := range map[loadtest.Scenario]loadtest.Layout{
		loadtest.Zipf: loadtest.ByDevice, loadtest.HotDevice: loadtest.Device,
	} {
		cfg := small(func(c *loadtest.Config) {
			c.Scenarios, c.Layouts = []loadtest.Scenario{scenario}, []loadtest.Layout{hot, loadtest.Binnacle, loadtest.Balanced}
			if c.Devices = 200; scenario == loadtest.Zipf {
				c.Devices = 100
			}
			c.Interval, c.Sample, c.Hold, c.Window = 20*time.Second, 20*time.Second, time.Minute, time.Minute
		})
		results := run(t, cfg).Outcomes[0].Results
		require.Greater(t, results[0].Hottest, 1.5, "%s, %s", scenario, hot)
		require.LessOrEqual(t, results[2].Hottest, 1.2, scenario)
		require.InEpsilon(t, results[2].Offered, results[2].Accepted, 0.05)
	}
}

// What the layouts with a document per reading do is the same in every interval of the fleet.
func TestSampleAgreesWithWholeWindow(t *testing.T) {
	whale := []loadtest.Scenario{loadtest.Whale}
	sample := run(t, small(func(c *loadtest.Config) { c.Scenarios = whale }))
	whole := run(t, small(func(c *loadtest.Config) { c.Scenarios, c.Sample = whale, c.Window }))
	require.InDelta(t, 30, sample.SampleSeconds, 0)
	require.InDelta(t, 120, whole.SampleSeconds, 0)
	for i, o := range sample.Outcomes {
		for j, s := range o.Results {
			w := whole.Outcomes[i].Results[j]
			require.InEpsilon(t, w.PerMillion, s.PerMillion, 1e-6)
			require.InEpsilon(t, w.Needed, s.Needed, 1e-6)
			require.Equal(t, w.Spread, s.Spread)
			require.Equal(t, w.Bought, s.Bought)
			require.InEpsilon(t, w.Accepted, s.Accepted, 0.02)
			require.InDelta(t, w.Throttled, s.Throttled, 0.05)
		}
	}
}

func TestReportIsDeterministic(t *testing.T) {
	first := run(t, small(nil))
	require.Equal(t, first, run(t, small(nil)))
}

// Chunks that come too fast for the budget wait, and nothing is lost.
func TestThrottledWritesAreRetried(t *testing.T) {
	r := run(t, small(func(c *loadtest.Config) {
		c.Scenarios, c.Devices, c.Hold = []loadtest.Scenario{loadtest.Whale}, 1500, 30*time.Second
		c.Window, c.Sample, c.Layouts = 30*time.Second, 10*time.Second, three[2:]
	})).Outcomes[0].Results[0]
	require.Positive(t, r.Throttled)
	require.InEpsilon(t, r.Offered, r.Accepted, 0.05)
}

func TestConfigIsChecked(t *testing.T) {
	require.NoError(t, loadtest.DefaultConfig().Validate())
	for want, change := range map[string]func(*loadtest.Config){
		`scenario "x": ["uniform" "whale" `:         func(c *loadtest.Config) { c.Scenarios = []loadtest.Scenario{"x"} },
		"5 devices: 100 to 100000 are allowed":      func(c *loadtest.Config) { c.Devices = 5 },
		"1 physical partitions: 2 to 100":           func(c *loadtest.Config) { c.Partitions = 1 },
		"an interval of 0s":                         func(c *loadtest.Config) { c.Interval = 0 },
		"a hold of 5s: whole seconds":               func(c *loadtest.Config) { c.Hold = 5 * time.Second },
		"a measured time of -1m0s":                  func(c *loadtest.Config) { c.Window = -time.Minute },
		"a sample of 30.5s":                         func(c *loadtest.Config) { c.Sample = 30500 * time.Millisecond },
		"whole days are to be measured with a hold": func(c *loadtest.Config) { c.Window = 24*time.Hour - time.Minute },
		"a measured time of 1h0m0s":                 func(c *loadtest.Config) { c.Hold, c.Window = day/2, day/24 },
		"a hold of 25h0m0s: a day is the longest":   func(c *loadtest.Config) { c.Hold, c.Window = 25*time.Hour, 0 },
		"240h0m0s are the most":                     func(c *loadtest.Config) { c.Window = 240 * time.Hour },
	} {
		_, err := loadtest.Run(t.Context(), small(change))
		require.ErrorContains(t, err, want)
	}
}

// The balancer evens what four keys a tenant leave uneven, whatever the number of physical partitions. Each device
// writes a chunk a hold of nearly the same size, so that a hold is as good as a day; -balanced.days measures days.
func TestBalancerEvensTheWhale(t *testing.T) {
	for _, partitions := range []int{5, 20} {
		cfg := small(func(c *loadtest.Config) {
			c.Scenarios, c.Devices, c.Partitions = []loadtest.Scenario{loadtest.Whale}, 400, partitions
			c.Layouts = []loadtest.Layout{loadtest.Binnacle, loadtest.Balanced}
			c.Interval, c.Sample, c.Hold, c.Window = 30*time.Second, 30*time.Second, time.Minute, time.Minute
			if *days {
				c.Devices, c.Interval, c.Sample, c.Hold, c.Window = 800, time.Minute, time.Minute, 12*time.Hour, day
			}
		})
		results := run(t, cfg).Outcomes[0].Results
		before, after := results[0], results[1]
		t.Logf("%d physical partitions: %.2f, balanced %.2f, %+v", partitions, before.Hottest, after.Hottest, after.Keys)
		require.Greater(t, before.Hottest, 1.15)
		require.LessOrEqual(t, after.Hottest, 1.15)
		require.Len(t, after.Spread, partitions)
		require.Equal(t, before.PerMillion, after.PerMillion, "a key that is longer by a letter costs nothing")
		require.Equal(t, "tenant-0", after.Keys.Tenant)
		require.Equal(t, 2*partitions, after.Keys.After)
	}
}

// Throughput is bought for other times than those in which a fleet comes back. Binnacle stores each reading, those of a
// month's end too.
func TestEvents(t *testing.T) {
	for _, s := range []loadtest.Scenario{loadtest.Reconnect, loadtest.MonthRoll} {
		cfg := small(func(c *loadtest.Config) {
			c.Scenarios, c.Layouts = []loadtest.Scenario{s}, []loadtest.Layout{loadtest.Device, loadtest.Binnacle}
			c.Devices, c.Interval, c.Sample, c.Window = 100, 2*time.Minute, 2*time.Minute, 2*time.Minute
		})
		r := run(t, cfg).Outcomes[0].Results
		device, binnacle := r[0], r[1]
		if s == loadtest.MonthRoll {
			require.InDelta(t, device.Foreseen, device.Offered, 0.1, s)
		} else {
			require.Greater(t, device.Offered, 1.3*device.Foreseen, s)
		}
		require.Positive(t, binnacle.Accepted, s)
		require.Zero(t, binnacle.Throttled, s)
	}
}
