package prom_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/prom"
	"binnacle/query/querytest"

	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"
)

// Aggregations are the engine's in all bits, whatever the order in which series come: that of devices, while a label
// sorts before the device. Some are folded two by two, some are held, and some are read again.
func TestFoldsAreTheEngines(t *testing.T) {
	for _, order := range []string{"", "123456789", "987654321", "345678912", "111222333", "121212121"} {
		s, rnd := newServer(t, nil), rand.New(rand.NewPCG(7, 7))
		var records []querytest.Record
		for d := range 9 {
			for i := range 20 {
				labels := telemetry.LabelsOf(map[string]string{"site": fmt.Sprint(d % 2)})
				if order != "" {
					labels = telemetry.LabelsOf(map[string]string{"a": order[d : d+1], "site": fmt.Sprint(d % 2)})
				}
				v := math.Round(rnd.NormFloat64()*1000) / 10
				switch rnd.IntN(12) {
				case 0:
					v = math.Copysign(0, -1)
				case 1:
					v = 7 // ties
				case 2:
					v = math.NaN()
				case 3:
					v = math.MaxFloat64
				}
				records = append(records, record(int64(len(records)), fmt.Sprintf("m%d", d),
					noon.Add(-time.Duration(20-i)*time.Minute), labels, float("temp", v)))
			}
		}
		s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 1000}, records...)
		over := prom.Over(s.query, "acme")
		plain := engineOf()
		pushed := prom.Pushdowns{QueryEngine: plain, Over: over}
		for _, text := range []string{"sum(temp)", "avg by (site) (temp)", "min without (device) (temp)",
			"max by (site) (last_over_time(temp[3m]))", "count(temp)", "topk(3, temp)", "bottomk by (site) (2, temp)",
			"temp - on (device, a) topk(4, temp)", "sum(temp) / count(temp) + sum(temp)", "sum((temp)) - max(-temp)",
			"max_over_time(sum by (site) (temp)[7m:1m])", "sum(topk(2, temp))", "topk(0, temp)", "topk(1e6, temp)"} {
			ask := func(e promql.QueryEngine) func() (promql.Query, error) {
				return func() (promql.Query, error) {
					return e.NewRangeQuery(t.Context(), over, nil, text, noon.Add(-15*time.Minute), noon, time.Minute)
				}
			}
			want := describe(t.Context(), ask(plain), text)
			require.Contains(t, want, "error <nil>")
			require.Equal(t, want, describe(t.Context(), ask(pushed), text), "%s, a %q", text, order)
		}
	}
}
