package heat_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"binnacle/internal/heat"
	"binnacle/sharding"
	"binnacle/sharding/epk"

	"github.com/stretchr/testify/require"
)

// Whatever the ranges are, all heat is in one of them, that of a key where its hash lies.
func TestOnPartitionsKeepsSums(t *testing.T) {
	r := random(t, 11)
	const container = "chunks-2026-11"
	for range 30 {
		f := randomFrame(r, 300)
		g := heat.NewGrid(container, heat.Span{From: f.From, To: f.To, Step: heat.Minute}, []heat.Frame{f})
		ranges := randomRanges(r)
		parts := heat.OnPartitions(g, nil, ranges)
		want, got := 0.0, 0.0
		for i := range g.Rows {
			row := g.Rows[i].Total()
			want += row.Total()
		}
		for p := range parts {
			got += parts[p].Sum.Total()
			require.LessOrEqual(t, parts[p].Busiest, parts[p].Sum.Total()+1e-6)
			for _, k := range parts[p].Keys {
				prefix := epk.MultiHash(epk.String(k.Shard))
				if k.Shard != "" {
					require.True(t, ranges[p].Overlaps(epk.Range{Min: prefix, Max: prefix + epk.Max}))
				}
			}
		}
		require.InEpsilon(t, want, got, 1e-9)
	}
}

// randomRanges returns equal ranges, some of them split, also inside a key.
func randomRanges(r *rand.Rand) []epk.Range {
	ranges := epk.Split(1 + r.IntN(20))
	for range r.IntN(6) {
		cut := epk.MultiHash(epk.String(fmt.Sprint(r.Int())))
		if r.IntN(2) == 0 {
			cut = epk.MultiHash(epk.String("tenant-1~1"), epk.String(fmt.Sprint(r.Int())))
		}
		for i, old := range ranges {
			if old.Contains(cut) && cut != old.Min {
				ranges = append(append(append([]epk.Range{}, ranges[:i]...), epk.Range{Min: old.Min, Max: cut},
					epk.Range{Min: cut, Max: old.Max}), ranges[i+1:]...)
				break
			}
		}
	}
	return ranges
}

// The sum of keys without a name is spread over its slot: slot 128 of 256 begins in the middle of the space.
func TestRestsAreSpreadOverTheirSlot(t *testing.T) {
	cell := heat.Cell{Key: heat.Key{Container: "c", Slot: sharding.Slot(128)}}
	cell.RUs[0] = 10
	g := heat.NewGrid("c", heat.Span{From: 0, To: heat.Hour, Step: heat.Hour},
		[]heat.Frame{{Layer: heat.Hours, From: 0, To: heat.Hour, Cells: []heat.Cell{cell}}})
	for n, want := range map[int][]float64{2: {0, 10}, 512: nil} {
		parts := heat.OnPartitions(g, nil, epk.Split(n))
		if want == nil {
			require.InDelta(t, 5, parts[256].Sum.Total(), 1e-6)
			require.InDelta(t, 5, parts[257].Sum.Total(), 1e-6)
			continue
		}
		for p := range parts {
			require.InDelta(t, want[p], parts[p].Sum.Total(), 1e-6)
		}
	}
}

func TestDiagnosis(t *testing.T) {
	ranges := epk.Split(4)
	key := func(slot sharding.Slot) heat.Key { return heat.KeyOf("c", sharding.Shard("acme", slot)) }
	report := func(rus [4]float64, throttled int64, devices ...heat.Share) heat.Report {
		var f heat.Frame
		f.Layer, f.To = heat.Hours, heat.Hour
		for p, r := range rus {
			c := heat.Cell{Key: key(sharding.Slot(p*64 + 9))}
			c.RUs[heat.ChunkReads] = r
			if p == 2 {
				c.Throttled = throttled
			}
			f.Cells = append(f.Cells, c)
		}
		g := heat.NewGrid("c", heat.Span{From: 0, To: heat.Hour, Step: heat.Minute}, []heat.Frame{f})
		return heat.NewReport(heat.Facts{Grid: g, To: heat.Hour, Ranges: ranges, BoughtRUs: 400, Devices: devices})
	}
	hot := key(137).Shard
	for want, got := range map[string]heat.Report{
		"nothing was charged in this time": report([4]float64{}, 0),
		"partition 2 takes 28 % of the RU, 1.12 times the mean: the load is even; " + hot + " alone 28 %; " +
			"at its busiest it takes 28 % of what it may use": report([4]float64{86400, 86400, 28 * 3600, 86400}, 0),
		"partition 2 takes 70 % of the RU, 2.80 times the mean; " + hot + " alone 70 %; 12 requests were answered 429, " +
			"12 of them by partition 2": report([4]float64{3600, 3600, 7 * 3600, 3600}, 12),
		"partition 2 takes 70 % of the RU, 2.80 times the mean; " + hot + "/truck-7 alone 41 %; from tomorrow it has 4 " +
			"slots; at its busiest it takes 7 % of what it may use": report([4]float64{3600, 3600, 7 * 3600, 3600}, 0,
			heat.Share{Key: key(9).Shard, Device: "elsewhere", Share: 0.5},
			heat.Share{Key: hot, Device: "truck-7", Share: 0.41, SlotsTomorrow: 4}),
	} {
		require.Equal(t, want, got.Diagnosis)
	}
}
