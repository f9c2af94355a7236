package balance_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"binnacle/internal/telemetry"
	"binnacle/sharding"
	"binnacle/sharding/epk"

	"github.com/stretchr/testify/require"
)

// chunk is one that was written: where, and what it is of.
type chunk struct {
	tenant int
	device string
	day    telemetry.Day
	number uint32
	key    sharding.Key
}

// Whatever epochs are decided, while ranges split, processes start anew from what is stored, and data comes late:
// every chunk lies at exactly one of the keys that a reader visits for it, and where it would be written again.
func TestChunksAreFoundInRandomHistories(t *testing.T) {
	histories := 12
	if *seeds > 0 {
		histories = 100
	}
	for seed := range histories {
		rnd := rand.New(rand.NewPCG(uint64(seed), 5))
		shares := []float64{0.1 + 0.8*rnd.Float64(), 0.05, 0.03}
		w := newWorld(uint64(seed), shares, 20+rnd.IntN(80), 0.5*rnd.Float64())
		w.ranges = epk.Split(1 + rnd.IntN(30))
		first := w.day
		var written []chunk
		for range 5 + rnd.IntN(40) {
			if rnd.IntN(8) == 0 {
				w.split(1 + rnd.IntN(3))
			}
			for i, x := range w.tenants {
				if rnd.IntN(10) == 0 {
					x.level *= 4 * rnd.Float64()
				}
				if rnd.IntN(15) == 0 {
					x.devices[0].rate *= 10
				}
				for range 3 { // some of it late
					c := chunk{i, x.devices[rnd.IntN(len(x.devices))].name, w.day - telemetry.Day(rnd.IntN(5)), rnd.Uint32N(30),
						sharding.Key{}}
					c.key = x.placement.Key(c.device, c.day, c.number)
					written = append(written, c)
				}
			}
			_, known := w.live()
			w.decide(known)
		}
		for i, x := range w.tenants { // as a process reads it that has just begun
			text, err := json.Marshal(x.placement.Epochs())
			require.NoError(t, err)
			var epochs []sharding.Epoch
			require.NoError(t, json.Unmarshal(text, &epochs))
			p, err := sharding.NewPlacement(x.name, epochs)
			require.NoError(t, err)
			all := p.Visits(nil, telemetry.Range{From: (first - 10).Start(), To: w.day.End()})
			for _, c := range written {
				if c.tenant != i {
					continue
				}
				at := fmt.Sprintf("history %d, %s of %s", seed, c.device, c.day)
				require.Equal(t, c.key, p.Key(c.device, c.day, c.number), at)
				require.True(t, p.Holds(c.key, c.device, c.day), at)
				require.Contains(t, p.Keys(c.device, c.day), c.key, at)
				require.Equal(t, 1, visits(all, c, ""), at)
				own := p.Visits([]string{c.device}, telemetry.Range{From: c.day.Start(), To: c.day.End()})
				require.Equal(t, 1, visits(own, c, c.device), at)
			}
		}
	}
}

func visits(all []sharding.Visit, c chunk, device string) (n int) {
	for _, v := range all {
		if v.Container == c.key.Container && v.TenantShard == c.key.TenantShard && v.Device == device &&
			v.Range.Contains(c.day.Start()) {
			n++
		}
	}
	return n
}
