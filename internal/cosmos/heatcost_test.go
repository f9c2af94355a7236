package cosmos_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"binnacle/internal/heat"
	"binnacle/internal/heat/heatlog"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/store"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

// What heat of 10,000 tenants takes in all processes: below 5 RU/s by the emulator's charges, thinning included. No RU
// is missing, and no key is without its name.
func TestHeatOfTenThousandTenantsIsCheap(t *testing.T) {
	const tenants, minutes, bound = 10_000, 75, 5.0
	clock := &simulation{now: time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)}
	_, c := openEmulator(t, emulator.Config{Unlimited: true, Now: clock.Now}, nil)
	roles := []string{"ingest", "ingest", "ingest", "query", "query", "query", "rollups", "provision"}
	var all []*heatlog.Collector
	for _, role := range roles {
		all = append(all, heatlog.NewCollector(heatlog.Config{Role: role, Now: clock.Now}))
	}
	keys := make([]string, 4*tenants)
	for i := range keys { // any suffix will do: which slot it leads to is the hash's affair
		keys[i] = fmt.Sprintf("tenant-%05d~%x", i/4, i%4)
	}
	r := rand.New(rand.NewPCG(18, 1))
	counted := 0.0
	count := func(process int, charge heat.Charge) {
		all[process].Count(charge)
		if charge.Container == "chunks-2026-11" {
			counted += charge.RUs
		}
	}
	var meter store.Meter
	ctx := store.WithMeter(t.Context(), &meter)
	thinner := heatlog.NewThinner(c.Heat(), clock.Now, slog.New(slog.DiscardHandler))
	for minute := range minutes {
		for range 140 { // ten devices a tenant, two chunks a day
			shard := keys[r.IntN(len(keys))]
			count(r.IntN(3), heat.Charge{Container: "chunks-2026-11", Shard: shard, Device: "d" + shard, Kind: heat.ChunkWrites,
				RUs: 7 + 6*r.Float64(), Bytes: 20_000})
		}
		for i := range 2000 { // panels of 500 tenants that are always open, and 500 now and then
			shard := keys[i]
			if i%2 == 1 {
				shard = keys[r.IntN(len(keys))]
			}
			count(3+i%3, heat.Charge{Container: "chunks-2026-11", Shard: shard, Kind: heat.ChunkReads, RUs: 6 + r.Float64()/5})
		}
		for range 4000 { // rollups of all keys, six an hour
			count(6, heat.Charge{Container: "rollups-2026-11", Shard: keys[r.IntN(len(keys))], Kind: heat.RollupWrites,
				RUs: 7 + r.Float64(), Bytes: 8000})
		}
		require.NoError(t, clock.Sleep(t.Context(), time.Minute))
		for _, p := range all {
			p.Round(ctx, c.Heat(), clock.Now())
		}
		if minute%10 == 0 {
			require.NoError(t, thinner.Round(ctx))
		}
	}
	perSecond := meter.Read().RUs / (minutes * 60)
	t.Logf("modelled: %.2f RU/s in %d requests", perSecond, meter.Read().Requests)
	require.Less(t, perSecond, bound)

	span := heat.Span{From: clock.now.Add(-minutes * time.Minute).UnixMilli(), To: clock.now.UnixMilli(), Step: heat.Hour}
	g, err := heatlog.NewReader(c.Heat()).Grid(t.Context(), "chunks-2026-11", span)
	require.NoError(t, err)
	got := g.Lost
	bySlot := map[sharding.Slot]float64{}
	for i := range g.Rows {
		sum := g.Rows[i].Total()
		got += sum.Total()
		bySlot[g.Rows[i].Slot] += sum.Total()
	}
	require.InEpsilon(t, counted, got, 0.1, "but for steady keys of the last five minutes")
	require.Len(t, bySlot, sharding.Slots)
	require.Zero(t, g.Folded, "all keys have their names")
}
