package sharding_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"binnacle/internal/telemetry"
	"binnacle/sharding"
	"binnacle/sharding/epk"

	"github.com/stretchr/testify/require"
)

func TestShardVectors(t *testing.T) {
	for slot, want := range map[sharding.Slot]string{0: "acme~jd", 1: "acme~an", 64: "acme~2o", 128: "acme~5t",
		192: "acme~x", 255: "acme~b2"} {
		require.Equal(t, want, sharding.Shard("acme", slot), "slot %d", slot)
		require.Equal(t, slot, sharding.SlotOf(want))
	}
}

func TestSpreadVectors(t *testing.T) {
	slots := sharding.Spread("acme", 4)
	require.Equal(t, []sharding.Slot{7, 71, 135, 199}, slots)
	var names []string
	for _, s := range slots {
		names = append(names, sharding.Shard("acme", s))
	}
	require.Equal(t, []string{"acme~ab", "acme~5r", "acme~cg", "acme~4r"}, names)
}

func TestDeviceVectors(t *testing.T) {
	p, err := sharding.NewPlacement("acme", []sharding.Epoch{sharding.FirstEpoch("acme", 4)})
	require.NoError(t, err)
	day, err := telemetry.ParseDay("20261120")
	require.NoError(t, err)
	require.Equal(t, sharding.Key{Container: "chunks-2026-11", TenantShard: "acme~4r", Device: "m1"}, p.Key("m1", day, 0))
	require.Equal(t, sharding.Key{Container: "chunks-2026-11", TenantShard: "acme~cg", Device: "truck-0042"},
		p.Key("truck-0042", day, 17))
}

// As many slots as physical partitions land one on each, for any tenant: what random suffixes do not do.
func TestSlotsLandOnDifferentPartitions(t *testing.T) {
	for _, tenant := range []string{"acme", "globex", "t-1", "whale", "a"} {
		for _, n := range []int{2, 4, 5, 10, 16, 64} {
			hit := map[int]int{}
			for _, slot := range sharding.Spread(tenant, n) {
				key := epk.MultiHash(epk.String(sharding.Shard(tenant, slot)), epk.String("d"))
				for i, r := range epk.Split(n) {
					if r.Contains(key) {
						hit[i]++
					}
				}
			}
			// The grid of 256 slots does not divide by every n, so a neighbour may take one more.
			for i, h := range hit {
				require.LessOrEqual(t, h, 2, "tenant %s, %d slots, partition %d", tenant, n, i)
			}
			if 256%n == 0 {
				require.Len(t, hit, n, "tenant %s, %d slots", tenant, n)
			}
		}
	}
}

// What write derives, read enumerates: over random epochs, every chunk's key is visited exactly once,
// within a range that holds its day's part of the query.
func TestEveryWrittenKeyIsVisitedOnce(t *testing.T) {
	seed := uint64(7)
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	devices := []string{"m1", "truck-0042", "heavy", "x", "y"}
	for round := range 30 {
		tenant := fmt.Sprintf("t%d", rnd.IntN(4))
		base := telemetry.Day(20000 + rnd.IntN(500))
		epochs := []sharding.Epoch{sharding.FirstEpoch(tenant, 1+rnd.IntN(8))}
		for from := base; rnd.IntN(3) > 0; {
			from += telemetry.Day(1 + rnd.IntN(40))
			e := sharding.Epoch{From: from, Slots: sharding.Spread(tenant, 1+rnd.IntN(16)), Dedicated: rnd.IntN(2) == 0}
			if rnd.IntN(2) == 0 {
				e.Heavy = map[string][]sharding.Slot{"heavy": sharding.Spread(tenant+"x", 1+rnd.IntN(5))}
			}
			epochs = append(epochs, e)
		}
		var periods []sharding.PeriodEpoch
		for from := base - 20; rnd.IntN(4) > 0; {
			from += telemetry.Day(1 + rnd.IntN(30))
			periods = append(periods,
				sharding.PeriodEpoch{From: from, Period: sharding.Periods[rnd.IntN(len(sharding.Periods))]})
		}
		p, err := sharding.NewPlacement(tenant, epochs, periods...)
		require.NoError(t, err)
		r := telemetry.Range{From: base.Start() - rnd.Int64N(40*telemetry.DayMillis), To: base.Start() +
			rnd.Int64N(90*telemetry.DayMillis)}
		all, some := p.Visits(nil, r), p.Visits(devices[:3], r)
		require.Len(t, keysOf(all), len(all), "round %d: each key once", round)
		require.Len(t, keysOf(some), len(some), "round %d: each key once", round)
		for range 200 {
			device := devices[rnd.IntN(len(devices))]
			at := r.From + rnd.Int64N(r.To-r.From)
			day, number := telemetry.DayOf(at), rnd.Uint32N(20)
			key := p.Key(device, day, number)
			_, of, ok := sharding.ParseContainer(key.Container)
			require.True(t, ok && of.Range().Contains(at), "round %d: %s holds its day", round, key.Container)
			require.Equal(t, p.ContainerOn(day), key.Container)
			require.Contains(t, p.Keys(device, day), key)
			for _, v := range append(all, some...) {
				v.Device = device
				holds := p.Holds(v.Key, device, day)
				require.Equal(t, slices.Contains(p.Keys(device, day), v.Key), holds, "round %d: where readers look", round)
				require.True(t, !holds || p.Uses(v.Key, day))
			}
			require.Equal(t, 1, visiting(all, sharding.Key{Container: key.Container, TenantShard: key.TenantShard}, at),
				"round %d: all devices", round)
			want := 0
			if device != "x" && device != "y" {
				want = 1
			}
			require.Equal(t, want, visiting(some, key, at), "round %d: device %s", round, device)
		}
	}
}

func keysOf(visits []sharding.Visit) map[sharding.Key]bool {
	out := make(map[sharding.Key]bool)
	for _, v := range visits {
		out[v.Key] = true
	}
	return out
}

func visiting(visits []sharding.Visit, key sharding.Key, at int64) (n int) {
	for _, v := range visits {
		if v.Key == key && v.Range.Contains(at) {
			n++
		}
	}
	return n
}

var november = telemetry.MonthOf(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).UnixMilli())

// How many keys and containers a query visits is its cost: it must not creep up.
func TestVisitsOfAQueryAreFew(t *testing.T) {
	p, err := sharding.NewPlacement("acme", []sharding.Epoch{sharding.FirstEpoch("acme", 4)})
	require.NoError(t, err)
	hour := telemetry.Range{From: november.Range().From + 3_600_000, To: november.Range().From + 7_200_000}
	overNewYear := telemetry.Range{From: november.Range().From, To: (november + 3).Range().From + 1}
	for _, v := range []struct {
		name             string
		devices          []string
		r                telemetry.Range
		keys, containers int
	}{
		{"one device, one hour", []string{"m1"}, hour, 1, 1},
		{"two devices, one hour", []string{"m1", "m2"}, hour, 2, 1},
		{"all devices, one hour", nil, hour, 4, 1},
		{"one device, three months and a millisecond", []string{"m1"}, overNewYear, 4, 4},
		{"all devices, three months and a millisecond", nil, overNewYear, 16, 4},
		{"nothing", nil, telemetry.Range{From: 5, To: 5}, 0, 0},
	} {
		visits := p.Visits(v.devices, v.r)
		containers := map[string]bool{}
		for _, x := range visits {
			containers[x.Container] = true
		}
		require.Len(t, visits, v.keys, v.name)
		require.Len(t, containers, v.containers, v.name)
	}
}

// A month of a tenant with another share of 76 slots on each day is 76 visits.
func TestVisitsOfManyEpochsAreFew(t *testing.T) {
	slots := sharding.Spread("whale", 76)
	var epochs []sharding.Epoch
	perEpoch := 0
	for day := telemetry.DayOf(november.Range().From); day.Start() < november.Range().To; day++ {
		e := sharding.Epoch{From: day}
		for i := range 16 {
			e.Slots = append(e.Slots, slots[(5*int(day)+i)%len(slots)])
		}
		epochs, perEpoch = append(epochs, e), perEpoch+len(e.Slots)
	}
	p, err := sharding.NewPlacement("whale", epochs)
	require.NoError(t, err)
	require.Equal(t, 480, perEpoch)
	require.Len(t, p.Visits(nil, november.Range()), len(slots))
}

func TestContainerNames(t *testing.T) {
	day, err := telemetry.ParseDay("20261123")
	require.NoError(t, err)
	require.Equal(t, "chunks-2026-11", sharding.Container("", sharding.Month.Of(day)))
	require.Equal(t, "chunks-acme-2026", sharding.Container("acme", sharding.Year.Of(day)))
	require.Equal(t, "chunks-2026-Q4", sharding.Container("", sharding.Quarter.Of(day)))
	require.Equal(t, "chunks-2026-W48", sharding.Container("", sharding.Week.Of(day)))
	require.Equal(t, "chunks-2026-11-23", sharding.Container("", sharding.Day.Of(day)))
	names := map[string]bool{}
	for _, tenant := range []string{"", "acme", "a-2020-01", "2020", "2020-11", "1-2", "a-2026-w48", "q4"} {
		for _, period := range sharding.Periods {
			of := period.Of(day)
			name := sharding.Container(tenant, of)
			require.False(t, names[name], name)
			names[name] = true
			got, span, ok := sharding.ParseContainer(name)
			require.True(t, ok, name)
			require.Equal(t, tenant, got)
			require.Equal(t, of, span)
			got, span, ok = sharding.ParseRollupsContainer(sharding.RollupsContainer(name))
			require.True(t, ok, name)
			require.Equal(t, tenant, got)
			require.Equal(t, of, span)
		}
	}
	for _, bad := range []string{"control", "chunks-", "chunks-2026-13", "chunks-acme2026-11", "chunks--2026-11",
		"chunks-Acme-2026-11", "chunks-2026-W54", "chunks-2026-W00", "chunks-2026-Q5", "chunks-2026-Q0", "chunks-2026-02-30",
		"chunks-1969", "chunks-acme2026", "chunks-Q4", "chunks--W48", "chunks-2026-q4"} {
		_, _, ok := sharding.ParseContainer(bad)
		require.False(t, ok, bad)
	}
}

func TestEpochsAreChecked(t *testing.T) {
	for _, bad := range [][]sharding.Epoch{
		nil,
		{{}},
		{{Slots: []sharding.Slot{256}}},
		{{Slots: []sharding.Slot{3, 3}}},
		{{From: 5, Slots: []sharding.Slot{1}}, {From: 5, Slots: []sharding.Slot{2}}},
		{{Slots: []sharding.Slot{1}, Heavy: map[string][]sharding.Slot{"d": {-1}}}},
	} {
		_, err := sharding.NewPlacement("acme", bad)
		require.Error(t, err)
	}
}

// The spans of a period follow each other without a gap, and each day lies in the span that its name says.
func TestSpansCoverAllDays(t *testing.T) {
	for _, period := range sharding.Periods {
		of := period.Of(10000)
		for day := telemetry.Day(10000); day < 25000; day++ {
			if day == of.End() {
				require.Equal(t, day, of.Next().First)
				of = of.Next()
				_, back, ok := sharding.ParseContainer(sharding.Container("", of))
				require.True(t, ok && back == of, of.String())
			}
			if period.Of(day) != of {
				t.Fatalf("%s is not in %s", day, of)
			}
		}
	}
}

// A period counts from its day on; what was stored before stays where it is, under the names that it had.
func TestPeriodsChangeFromADayOn(t *testing.T) {
	day := func(text string) telemetry.Day {
		d, err := telemetry.ParseDay(text)
		require.NoError(t, err)
		return d
	}
	p, err := sharding.NewPlacement("acme", []sharding.Epoch{sharding.FirstEpoch("acme", 1)},
		sharding.PeriodEpoch{From: day("20261210"), Period: sharding.Month},
		sharding.PeriodEpoch{From: day("20261202"), Period: sharding.Week})
	require.NoError(t, err)
	for text, want := range map[string]string{"19700101": "chunks-1970-01", "20261130": "chunks-2026-11",
		"20261201": "chunks-2026-12", "20261202": "chunks-2026-W49", "20261209": "chunks-2026-W50",
		"20261210": "chunks-2026-12", "20270101": "chunks-2027-01"} {
		require.Equal(t, want, p.ContainerOn(day(text)), text)
	}
	visits := p.Visits([]string{"m"}, telemetry.Range{From: day("20261130").Start(), To: day("20261212").Start()})
	require.Len(t, visits, 4, "the month is visited once for the days before and after the weeks")
	_, err = sharding.NewPlacement("acme", p.Epochs(), sharding.PeriodEpoch{From: 5, Period: "fortnight"})
	require.ErrorContains(t, err, "fortnight")
	_, err = sharding.NewPlacement("acme", p.Epochs(), sharding.PeriodEpoch{From: 5}, sharding.PeriodEpoch{From: 5})
	require.Error(t, err)
}

// A renewed placement is the one that is made anew, whatever the one before has had; that one stays as it was.
func TestRenewedPlacements(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 1))
	epochs := func() (all []sharding.Epoch) {
		for i := range 1 + r.IntN(4) {
			all = append(all, sharding.Epoch{From: telemetry.Day(20000 + 3*i), Slots: sharding.Spread("acme", 1+r.IntN(8))})
		}
		return all
	}
	p, err := sharding.NewPlacement("acme", epochs())
	require.NoError(t, err)
	for range 20 {
		next := epochs()
		want, err := sharding.NewPlacement("acme", next)
		require.NoError(t, err)
		before := p.Key("m1", 20000, 0)
		renewed, err := p.Renew(next)
		require.NoError(t, err)
		require.Equal(t, want.Epochs(), renewed.Epochs())
		for day := telemetry.Day(19999); day < 20012; day++ {
			require.Equal(t, want.Keys("m1", day), renewed.Keys("m1", day))
		}
		require.Equal(t, before, p.Key("m1", 20000, 0))
		p = renewed
	}
	_, err = p.Renew(nil)
	require.Error(t, err)
}
