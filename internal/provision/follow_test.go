package provision_test

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/control"
	"binnacle/internal/provision"
	"binnacle/internal/store"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

func minutes(n int, rus float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = rus
	}
	return out
}

func minutesOf(n int, answers int64) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = answers
	}
	return out
}

// What throughput becomes of a load, of what is expected, of answers 429 and of what was changed lately.
func TestThroughputFollowsLoad(t *testing.T) {
	f := provision.DefaultFollow()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	long := now.Add(-2 * time.Hour)
	atEnd := time.Date(2026, 11, 20, 12, 58, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		bought, least int
		auto          bool
		now           time.Time
		load          provision.Load
		changed       time.Time
		want          int
		why           string
	}{
		"nothing is known": {1000, 0, false, now, provision.Load{}, long, 1000, ""},
		"enough":           {1000, 0, false, now, provision.Load{RUs: minutes(120, 900)}, long, 1000, ""},
		"too little": {2000, 0, false, now, provision.Load{RUs: append(minutes(119, 100), 1980)}, now, 2100,
			"1980 RU/s were used"},
		"expected": {1000, 0, false, now, provision.Load{RUs: minutes(9, 9), Expected: []float64{680}}, now, 1800,
			"1700 RU/s are expected"},
		"429": {1000, 0, false, now, provision.Load{RUs: minutes(120, 900), Throttled: []int64{2000, 0}}, long, 1200,
			"2000 answers 429"},
		"429, a few of a hundred": {1000, 0, false, now, provision.Load{RUs: minutes(120, 900),
			Throttled: []int64{500, 0}}, long, 1100, "500 answers 429 in 5 minutes, 2 % of the load"},
		"429, as with any good use": {1000, 0, false, now, provision.Load{RUs: minutes(120, 900),
			Throttled: []int64{60, 60, 60}}, long, 1000, ""},
		"429, while next to nothing is used": {4000, 0, false, now, provision.Load{RUs: minutes(120, 400),
			Throttled: minutesOf(120, 500)}, long, 4000, ""},
		"429 before the last change": {1000, 0, false, now, provision.Load{RUs: minutes(120, 500),
			Throttled: []int64{2000, 0}}, now.Add(-time.Minute), 1000, ""},
		"without a split": {9000, 0, false, now, provision.Load{RUs: minutes(120, 9900), Most: 10_000}, long, 10_000,
			"9900 RU/s were used"},
		"never down for a split": {12_000, 0, false, now, provision.Load{RUs: minutes(120, 19_000), Most: 10_000},
			long, 12_000,
			"19000 RU/s were used"},
		"calm": {4000, 0, false, atEnd, provision.Load{RUs: minutes(120, 850)}, long, 900,
			"850 RU/s suffice for the next hour"},
		"calm, within the hour": {4000, 0, false, now, provision.Load{RUs: minutes(120, 850)}, long, 4000, ""},
		"calm, above its floor": {4000, 2400, false, atEnd, provision.Load{RUs: minutes(120, 850)}, long, 2400,
			"suffice"},
		"calm, unused": {4000, 0, false, atEnd, provision.Load{RUs: minutes(120, 0)}, long, 400,
			"0 RU/s suffice"},
		"calm, not for long": {4000, 0, false, atEnd, provision.Load{RUs: minutes(120, 850)},
			atEnd.Add(-29 * time.Minute), 4000,
			""},
		"calm, not known": {4000, 0, false, atEnd, provision.Load{RUs: minutes(29, 850)}, long, 4000, ""},
		"calm, bins fill": {4000, 0, false, atEnd, provision.Load{RUs: minutes(120, 850), Expected: []float64{9, 1560}},
			long, 4000,
			""},
		"calm, as yesterday": {4000, 0, false, atEnd, provision.Load{RUs: minutes(26*60, 850)}, long, 900,
			"850 RU/s suffice"},
		"calm, busy yesterday": {4000, 0, false, atEnd, provision.Load{RUs: busyYesterday(atEnd)}, long, 4000, ""},
		"a little less":        {1000, 0, false, atEnd, provision.Load{RUs: minutes(120, 940)}, long, 1000, ""},
		"autoscale": {1000, 0, true, now, provision.Load{RUs: minutes(120, 1700)}, long, 2000,
			"1700 RU/s were used"},
	} {
		seen := store.ContainerState{Throughput: store.Throughput{RUs: c.bought, Autoscale: c.auto}, MinRUs: c.least}
		got, why := f.Wanted(c.now, seen, c.load, c.changed)
		require.Equal(t, c.want, got, "%s: %s", name, why)
		require.Contains(t, why, c.why, name)
		require.Equal(t, c.why == "", why == "", name)
	}
}

// busyYesterday returns a load of 850 RU/s of which the hour that follows took 5,000 the day before.
func busyYesterday(now time.Time) []float64 {
	load := minutes(26*60, 850)
	begin := len(load) - now.Minute() - 24*60 + 60
	copy(load[begin:begin+60], minutes(60, 5000))
	return load
}

// followed is the bill of some days, by a rule and by an oracle that knew each minute.
type followed struct{ bill, oracle, throttled float64 }

// follows runs the rule over days of a load by the minute: daily and weekly seasons, waves of bins that fill in step,
// growth, and from a day on a tenant that takes five times all others.
func follows(f provision.Follow, random *rand.Rand, days, explodes int) (out followed) {
	base := math.Exp(random.Float64()*3) * 300 // RU/s
	phase, wave := random.Float64(), 0.3+0.5*random.Float64()
	load := make([]float64, days*1440)
	for m := range load {
		day := float64(m) / 1440
		x := base * (1 + 0.5*math.Sin(2*math.Pi*(day+phase))) * (1 + 0.15*math.Sin(2*math.Pi*day/7)) * (1 + 0.01*day)
		x *= 1 + wave*math.Max(0, math.Sin(2*math.Pi*float64(m%68)/68)) + 0.1*random.Float64()
		if explodes > 0 && m/1440 >= explodes {
			x *= 5
		}
		load[m] = x
	}
	seen := store.ContainerState{Throughput: store.Throughput{RUs: 4000}}
	var asked, refused, hour, need, waits float64
	changed := time.Unix(0, 0)
	used, throttled := make([]float64, len(load)), make([]int64, len(load))
	for m, x := range load {
		// What is refused waits for the next minute.
		used[m] = min(x+waits, float64(seen.Throughput.RUs))
		if waits += x - used[m]; waits > 0 {
			throttled[m] = int64(waits*60/13) + 1
			if explodes == 0 || m < explodes*1440 || m >= explodes*1440+60 {
				refused += waits
			}
		}
		asked += x
		hour, need = max(hour, float64(seen.Throughput.RUs)), max(need, x)
		if m%60 == 59 {
			out.bill, out.oracle = out.bill+hour, out.oracle+max(400, math.Ceil(need/100)*100)
			hour, need = 0, 0
		}
		now := time.Unix(int64(m)*60, 0)
		known := max(0, m) // the newest minute is written when it is over
		of := provision.Load{RUs: used[max(0, known-1560):known],
			Throttled: throttled[max(0, known-1560):known], Most: 1_000_000}
		if rus, _ := f.Wanted(now, seen, of, changed); rus != seen.Throughput.RUs {
			seen.Throughput.RUs, changed = rus, now
			hour = max(hour, float64(rus))
		}
	}
	out.throttled = refused / asked
	return out
}

// Over 30 days the bill is near that of an oracle that buys for each hour what its busiest minute takes, and almost
// nothing is refused outside the first hour of an explosion.
func TestFollowAgainstAnOracle(t *testing.T) {
	const seeds = 10
	all := 0.0
	for seed := range uint64(seeds) {
		random := rand.New(rand.NewPCG(seed, 1))
		r := follows(provision.DefaultFollow(), random, 30, int(seed%2)*15)
		ratio := r.bill / r.oracle
		t.Logf("seed %d: bill %.3f of the oracle's, %.4f %% refused", seed, ratio, 100*r.throttled)
		require.Less(t, ratio, 1.3, "seed %d", seed)
		require.Less(t, r.throttled, 0.001, "seed %d", seed)
		all += ratio / seeds
	}
	require.Less(t, all, 1.18)
}

// A container's mode costs less over its whole life than the other one: a small one rests in autoscale, one with much
// data or none to rest for is manual. Where the load is not known for a day, what was bought counts for it.
func TestModeByPrice(t *testing.T) {
	p := provision.DefaultPolicy()
	follow := provision.DefaultFollow()
	p.Follow = &follow
	now := at("2026-11-28 12:00")
	for name, c := range map[string]struct {
		load      provision.Load
		retention time.Duration
		auto      bool
		why       string
	}{
		"small, kept for a year": {provision.Load{RUs: minutes(1560, 300)}, 400 * day, true, "autoscale $"},
		"kept for ever":          {provision.Load{RUs: minutes(1560, 300)}, 0, true, "autoscale $"},
		"busy, kept for a month": {provision.Load{RUs: minutes(1560, 3000)}, 30 * day, false, "manual $"},
		"with much data":         {provision.Load{RUs: minutes(1560, 300), Stored: 20}, 400 * day, false, "manual $"},
		// As if it took what it has.
		"not known for a day": {provision.Load{RUs: minutes(100, 300)}, 400 * day, true, "with 4000 RU/s"},
		"no load":             {provision.Load{}, 60 * day, false, "with 4000 RU/s"},
	} {
		steps := p.Plan(now, provision.Found{
			Containers: []store.ContainerState{seen("chunks-2026-11", 4000)},
			Months:     []control.Month{asked("chunks-2026-11")},
			Tenants:    []tenant.Tenant{newTenant(t, "acme", c.retention)},
			Loads:      map[string]provision.Load{"chunks-2026-11": c.load},
			Changed:    map[string]time.Time{"chunks-2026-11": now},
		})
		next := steps[len(steps)-1]
		require.Equal(t, "chunks-2026-12", next.Container, name)
		require.Equal(t, provision.Create, next.Action, name)
		require.Equal(t, c.auto, next.Wanted.Autoscale, "%s: %s", name, next.Why)
		require.Contains(t, next.Why, c.why, name)
		if c.auto {
			require.Equal(t, 1000, next.Wanted.RUs, name)
		}
	}
}

// The first container of a tenant that gets its own has the mode that fits its part of the shared ones; one that is
// made for late readings has the mode that fits its rest.
func TestModeOfContainersThatHadNoLoad(t *testing.T) {
	p := provision.DefaultPolicy()
	follow := provision.DefaultFollow()
	p.Follow = &follow
	now := at("2026-11-10 12:00")
	for rus, auto := range map[float64]bool{300: true, 9000: false} {
		mover := newTenant(t, "acme", 100*day, dedicated("20261112"))
		steps := p.Plan(now, provision.Found{
			Containers: []store.ContainerState{seen("chunks-2026-11", 10_000)},
			Months:     []control.Month{asked("chunks-2026-11"), asked("chunks-2026-02")},
			Tenants:    []tenant.Tenant{mover, newTenant(t, "other", 400*day)},
			Loads:      map[string]provision.Load{"chunks-2026-11": {RUs: minutes(1560, 9500)}},
			Moving:     map[string]provision.Load{"acme": {RUs: minutes(1560, rus)}},
			Changed:    map[string]time.Time{"chunks-2026-11": now},
		})
		made := map[string]provision.Step{}
		for _, s := range steps {
			if s.Action == provision.Create {
				made[s.Container] = s
			}
		}
		require.Contains(t, made, "chunks-acme-2026-11")
		require.Equal(t, auto, made["chunks-acme-2026-11"].Wanted.Autoscale, made["chunks-acme-2026-11"].Why)
		require.Contains(t, made["chunks-acme-2026-11"].Why, "by its tenant's load")
		require.Equal(t, store.Throughput{RUs: 1000, Autoscale: true}, made["chunks-2026-02"].Wanted, "it only rests")
	}
}

// Where autoscale is billed by physical partition, a hot one makes it cheaper than manual throughput, which all get.
func TestModeWithAutoscaleByPartition(t *testing.T) {
	p := provision.DefaultPolicy()
	follow := provision.DefaultFollow()
	p.Follow = &follow
	now := at("2026-11-28 12:00")
	for _, each := range []bool{false, true} {
		p.PerPartition = each
		steps := p.Plan(now, provision.Found{
			Containers: []store.ContainerState{seen("chunks-2026-11", 16_000)},
			Months:     []control.Month{asked("chunks-2026-11")},
			Tenants:    []tenant.Tenant{newTenant(t, "acme", 30*day)},
			Loads: map[string]provision.Load{"chunks-2026-11": {RUs: minutes(1560, 16_000), Partitions: [][]float64{
				minutes(1560, 4000), minutes(1560, 1000), minutes(1560, 1000), minutes(1560, 1000)}}},
			Changed: map[string]time.Time{"chunks-2026-11": now},
		})
		next := steps[len(steps)-1]
		require.Equal(t, "chunks-2026-12", next.Container)
		require.Equal(t, each, next.Wanted.Autoscale, next.Why)
	}
}

// The container after one that is near what its physical partitions take gets one more: else no load could pass it.
func TestTheNextContainerHasRoomToGrow(t *testing.T) {
	p := provision.DefaultPolicy()
	follow := provision.DefaultFollow()
	p.Follow = &follow
	for hot, partitions := range map[int]int{4000: 1, 6600: 1, 9000: 2, 10_000: 2, 18_000: 3} {
		steps := p.Plan(at("2026-11-28 12:00"), provision.Found{
			Containers: []store.ContainerState{seen("chunks-2026-11", hot)},
			Months:     []control.Month{asked("chunks-2026-11")},
			Tenants:    []tenant.Tenant{newTenant(t, "acme", 0)},
		})
		next := steps[len(steps)-1]
		require.Equal(t, "chunks-2026-12", next.Container)
		require.Equal(t, partitions, ru.Partitions(float64(next.Wanted.RUs), false), "%d RU/s", hot)
	}
}

// idle is the load of containers that nobody uses, after a minute of 3,900 RU/s if it says so.
type idle struct{ busy bool }

func (l *idle) Of(_ context.Context, names []string, _ time.Time) (map[string]provision.Load, error) {
	out := make(map[string]provision.Load)
	for _, name := range names {
		out[name] = provision.Load{RUs: minutes(120, 0), Throttled: make([]int64, 120), Most: 10_000}
		if l.busy {
			out[name].RUs[119] = 3900
		}
	}
	return out, nil
}

func (*idle) OfTenant(string, string, time.Time) provision.Load { return provision.Load{} }

// A process knows from the actions when another one changed throughput, and a round lies at each hour's end however
// seldom there is one.
func TestFollowingOutlivesItsProcess(t *testing.T) {
	const hot = "chunks-2026-11"
	now := at("2026-11-20 12:40")
	load := &idle{busy: true}
	var cfg provision.Config
	b := newBench(t, func() time.Time { return now }, func(pc *provision.Config, dc *control.DirectoryConfig) {
		follow := provision.DefaultFollow()
		pc.Policy.Follow, pc.Loads = &follow, load
		pc.Actions = control.NewActions(dc.Documents, "a", slog.New(slog.DiscardHandler), dc.Now)
		cfg = *pc
	})
	b.containers[hot] = seen(hot, 2000)
	require.NoError(t, b.directory.AskMonth(t.Context(), hot, ""))
	cfg.Containers, cfg.Directory, cfg.Registerer = b.account, b.directory, nil
	cfg.Now = func() time.Time { return now }
	once := func(every time.Duration) int {
		cfg.Every = every
		p, err := provision.New(cfg)
		require.NoError(t, err)
		_, err = p.Once(t.Context())
		require.NoError(t, err)
		return b.rus()[hot]
	}
	require.Equal(t, 4200, once(0))
	load.busy = false
	now = at("2026-11-20 12:58")
	require.Equal(t, 4200, once(0), "another process raised it 18 minutes ago")
	now = at("2026-11-20 13:55")
	require.Equal(t, 4200, once(0), "the hour has not ended")
	require.Equal(t, 400, once(5*time.Minute), "the next round would be in the next hour")
}

// used is the load of containers that take so many RU/s.
type used struct{ rus float64 }

func (l *used) Of(_ context.Context, names []string, _ time.Time) (map[string]provision.Load, error) {
	out := make(map[string]provision.Load)
	for _, name := range names {
		out[name] = provision.Load{RUs: minutes(120, l.rus), Throttled: make([]int64, 120), Most: 10_000}
	}
	return out, nil
}

func (*used) OfTenant(string, string, time.Time) provision.Load { return provision.Load{} }

// A process that comes back to the lease counts each change once, its own as those of others.
func TestOwnChangesCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hot = "chunks-2000-01"
		load := &used{3900}
		b := newBench(t, time.Now, func(pc *provision.Config, dc *control.DirectoryConfig) {
			follow := provision.DefaultFollow()
			pc.Policy.Follow, pc.Policy.MaxChanges, pc.Loads = &follow, 2, load
			pc.Actions = control.NewActions(dc.Documents, "a", slog.New(slog.DiscardHandler), dc.Now)
			pc.Lease = control.NewLeases(dc.Documents, "a", time.Now)
		})
		b.containers[hot] = seen(hot, 2000)
		require.NoError(t, b.directory.AskMonth(t.Context(), hot, ""))
		for _, want := range []int{4200, 5300} {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			require.NoError(t, b.Run(ctx))
			cancel()
			require.Equal(t, want, b.rus()[hot])
			load.rus = 5000
			time.Sleep(3 * time.Minute)
		}
	})
}
