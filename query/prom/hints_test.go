package prom_test

import (
	"encoding/json"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// A metric or device that the catalog has never seen is not looked for; a warning names the nearest one. So does one
// for labels, and for metrics that have only texts.
func TestHints(t *testing.T) {
	s := newServer(t, nil)
	at := noon.Add(-10 * time.Minute)
	s.world.Chunk(record(1, "m1", at, telemetry.Labels{{Name: "axis", Value: "x"}}, float("temp", 1)),
		record(2, "m1", at.Add(time.Second), nil, telemetry.Field{Metric: "state", Value: telemetry.TextValue("on")}))
	s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 100})
	for text, want := range map[string][]string{
		`Temp`:                                  {`no metric "Temp"; there is "temp"`},
		`sum(rate(Temp[5m]))`:                   {`no metric "Temp"; there is "temp"`},
		`avg_over_time(temp{device="n9"}[30m])`: {`no device "n9"`},
		`temp{axies="x"}`:                       {`no tag or label "axies"; there is "axis"`},
		`state`:                                 {`metric "state" has only texts: ask /api/v1/latest or /api/v1/readings`},
		`temp`:                                  nil,
		`temp{axis="y"}`:                        nil,
		`temp offset 3h`:                        nil,
		`absent(Temp)`:                          {`no metric "Temp"; there is "temp"`},
	} {
		r := s.ask(t, "/api/v1/query", "query", text, "time", at.Add(time.Minute).Format(time.RFC3339))
		require.Equal(t, 200, r.status, r.Error)
		require.Equal(t, want, r.Warnings, text)
		if len(want) > 0 && text[0] != 's' && text[:4] != "temp" {
			var cost struct{ Keys int }
			require.NoError(t, json.Unmarshal([]byte(r.header.Get("Binnacle-Stats")), &cost))
			require.Zero(t, cost.Keys, text)
		}
	}
}
