package balance_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"binnacle/internal/telemetry"
	"binnacle/sharding"
	"binnacle/sharding/balance"
	"binnacle/sharding/epk"

	"github.com/stretchr/testify/require"
)

func placement(t *testing.T, tenant string, slots int) *sharding.Placement {
	p, err := sharding.NewPlacement(tenant, []sharding.Epoch{sharding.FirstEpoch(tenant, slots)})
	require.NoError(t, err)
	return p
}

// even returns tenants of four keys each with the same load.
func even(t *testing.T, n int) (out []balance.Tenant) {
	for i := range n {
		name := fmt.Sprintf("t%d", i)
		x := balance.Tenant{Name: name, Placement: placement(t, name, 4)}
		for _, s := range x.Placement.EpochOn(start).Slots {
			x.Keys = append(x.Keys, balance.Key{Shard: sharding.Shard(name, s), Writes: 25})
		}
		out = append(out, x)
	}
	return out
}

// What is decided is the same in whatever order the input comes, and deciding again from the epochs that were made
// changes nothing more: a process that dies in between leaves no other outcome.
func TestDecisionIsPure(t *testing.T) {
	w := newWorld(3, zipf(50), 3000, 0.5)
	w.ranges = epk.Split(10)
	_, known := w.live()
	in := balance.Input{Day: w.day, Measured: w.day - 1, Ranges: w.ranges, Tenants: known}
	first := balance.Decide(in)
	require.NotEmpty(t, first.Changes)
	shuffled := in
	shuffled.Tenants, shuffled.Ranges = slices.Clone(known), slices.Clone(in.Ranges)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(known), func(i, j int) {
		shuffled.Tenants[i], shuffled.Tenants[j] = shuffled.Tenants[j], shuffled.Tenants[i]
	})
	slices.Reverse(shuffled.Ranges)
	require.Equal(t, first, balance.Decide(shuffled))
	for _, c := range first.Changes {
		require.Equal(t, in.Day, c.Epoch.From)
		_, err := sharding.NewPlacement(c.Tenant, []sharding.Epoch{c.Epoch})
		require.NoError(t, err)
		require.NotEmpty(t, c.Reason)
	}
	require.Less(t, first.After, first.Before)
	w.decide(known)
	again := w.again(known)
	require.InDelta(t, first.After, again.Before, 1e-6, "the epochs do what is said of them")
	require.Empty(t, again.Changes)
}

func TestNothingToDo(t *testing.T) {
	require.Empty(t, balance.Decide(balance.Input{Day: start, Ranges: epk.Split(3)}).Changes, "no load")
	require.Empty(t, balance.Decide(balance.Input{Day: start, Tenants: even(t, 3)}).Changes, "no partitions")
	one := balance.Decide(balance.Input{Day: start, Measured: start - 1, Ranges: epk.Split(1), Tenants: even(t, 300)})
	require.Empty(t, one.Changes, "one partition")
	require.Equal(t, 1.0, one.Before)
}

func TestPins(t *testing.T) {
	tenants := even(t, 2)
	tenants[0].Pin = sharding.Pin{Keep: true}
	tenants[1].Pin = sharding.Pin{Keys: 7}
	d := balance.Decide(balance.Input{Day: start, Measured: start - 1, Ranges: epk.Split(20), Tenants: tenants})
	require.Len(t, d.Changes, 1)
	require.Equal(t, "t1", d.Changes[0].Tenant)
	require.Len(t, d.Changes[0].Epoch.Slots, 7)
	require.Contains(t, d.Changes[0].Reason, "pinned to 7 keys")
}

// A device that would fill its logical partition gets several keys, however even the load is.
func TestFullKeyIsSplitEarly(t *testing.T) {
	full := []balance.FullKey{
		{Tenant: "t1", Device: "fast", Bytes: 2e9, Growth: 0.5e9}, // 28 days: 16 GB
		{Tenant: "t2", Device: "slow", Bytes: 2e9, Growth: 0.1e9},
	}
	in := balance.Input{Day: start, Measured: start - 1, Ranges: epk.Split(1), Tenants: even(t, 3), Full: full}
	d := balance.Decide(in)
	require.Len(t, d.Changes, 1)
	require.Equal(t, "t1", d.Changes[0].Tenant)
	require.Len(t, d.Changes[0].Epoch.Heavy["fast"], 2)
	require.Equal(t, in.Tenants[1].Placement.EpochOn(start).Slots, d.Changes[0].Epoch.Slots)
	require.Contains(t, d.Changes[0].Reason, "16 GB")
}

// Ranges narrower than a slot have keys of finer slices: a tenant of most of the load has one in each of 100 ranges of
// which some were split.
func TestNarrowRangesHaveKeys(t *testing.T) {
	w := newWorld(1, []float64{0.9, 0.1}, 20_000, 0)
	w.ranges = epk.Split(100)
	w.split(60)
	var d balance.Decision
	for range 3 {
		_, known := w.live()
		d = w.decide(known)
		again := w.again(known)
		require.InDelta(t, d.After, again.Before, 1e-6, "the epochs do what is said of them")
	}
	ratio, _ := w.live()
	require.Less(t, ratio, 1.25, "seed 1: 23 devices a partition have such noise")
	fine := 0
	for _, s := range w.tenants[0].placement.EpochOn(w.day).Slots {
		if s >= sharding.Slots {
			fine++
		}
	}
	require.Positive(t, fine)
	require.Equal(t, 160, d.Partitions)
}

// Keys are taken away as a period begins, and never within it.
func TestKeysAreTakenAwayAsAPeriodBegins(t *testing.T) {
	tenants := even(t, 40)
	p, err := sharding.NewPlacement("t0", []sharding.Epoch{sharding.FirstEpoch("t0", 80)})
	require.NoError(t, err)
	tenants[0].Placement, tenants[0].Keys = p, nil
	for _, s := range p.EpochOn(start).Slots {
		tenants[0].Keys = append(tenants[0].Keys, balance.Key{Shard: p.Shard(s), Writes: 1})
	}
	first := telemetry.DayOf((start.Month() + 1).Range().From)
	for day, want := range map[telemetry.Day]bool{first - 1: false, first: true, first + 1: false} {
		d := balance.Decide(balance.Input{Day: day, Measured: day - 1, Ranges: epk.Split(5), Tenants: tenants})
		fewer := slices.ContainsFunc(d.Changes, func(c sharding.EpochChange) bool {
			return c.Tenant == "t0" && c.KeysAfter < c.KeysBefore
		})
		require.Equal(t, want, fewer, "%s", day)
	}
}

// A tenant that grows tenfold overnight finds its keys spread: it was not known of before that day.
func TestTenfoldGrowthFindsItsKeys(t *testing.T) {
	for _, n := range []int{10, 20} {
		for share, most := range map[float64]float64{0.01: 1.5, 0.05: 1.45, 0.1: 1.25} {
			var ratios []float64
			for seed := range 2 {
				rest := (1 - share) / 9
				shares := append([]float64{share}, rest, rest, rest, rest, rest, rest, rest, rest, rest)
				w := newWorld(uint64(seed), shares, 20_000, 0)
				w.ranges = epk.Split(n)
				for range 3 {
					_, known := w.live()
					w.decide(known)
				}
				w.tenants[0].level = 10
				ratio, _ := w.live()
				ratios = append(ratios, ratio)
			}
			t.Logf("%d partitions, %.0f %%: %.2f", n, 100*share, ratios)
			require.LessOrEqual(t, quantile(ratios, 0.5), most, "%d partitions, %.0f %%", n, 100*share)
		}
	}
}

// A device that has a key in each physical partition can't be spread further: however heavy it is, no epoch is made for
// it again.
func TestSpreadDeviceStays(t *testing.T) {
	w := newWorld(1, equal(10), 5000, 0)
	w.ranges = epk.Split(5)
	heavy := &w.tenants[0].devices[0]
	heavy.rate = 0
	for _, x := range w.tenants {
		for _, d := range x.devices {
			heavy.rate += 0.4 * d.rate
		}
	}
	_, known := w.live()
	w.decide(known)
	require.Len(t, w.tenants[0].placement.EpochOn(w.day).Heavy[heavy.name], 5)
	for range 4 {
		_, known := w.live()
		for _, c := range w.decide(known).Changes {
			require.NotContains(t, c.Reason, heavy.name)
		}
	}
}
