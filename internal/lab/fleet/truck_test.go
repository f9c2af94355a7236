package fleet_test

import (
	"math"
	"sort"
	"testing"
	"time"

	"binnacle/internal/lab/fleet"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestTruckIsDeterministic(t *testing.T) {
	a, b := fleet.NewTruck(7, 3, start), fleet.NewTruck(7, 3, start)
	other := fleet.NewTruck(8, 3, start)
	neighbour := fleet.NewTruck(7, 4, start)
	require.Equal(t, "truck-0003", a.ID())
	require.Equal(t, "truck-12345", fleet.NewTruck(7, 12345, start).ID())
	require.Equal(t, a.Tags(), b.Tags())
	for i := range 1000 {
		at := start.Add(time.Duration(i) * 10 * time.Second)
		values := a.Next(at)
		require.Equal(t, values, b.Next(at))
		require.Equal(t, values, a.Next(at), "an instant asked for again takes no step")
		require.NotEqual(t, values, other.Next(at))
		require.NotEqual(t, values, neighbour.Next(at))
	}
}

func TestTruckTags(t *testing.T) {
	seen := map[string]map[string]bool{}
	for i := range 200 {
		truck := fleet.NewTruck(1, i, start)
		require.Len(t, truck.Tags(), 8)
		name, _ := truck.Tags().Get("name")
		require.Equal(t, truck.ID(), name)
		require.NoError(t, telemetry.CheckDevice(truck.ID()))
		for _, tag := range truck.Tags() {
			require.NoError(t, telemetry.CheckName("tag", tag.Name))
			if seen[tag.Name] == nil {
				seen[tag.Name] = map[string]bool{}
			}
			seen[tag.Name][tag.Value] = true
		}
	}
	for tag, want := range map[string]int{
		"name": 200, "fleet": 4, "driver": 6, "model": 3, "device_version": 4,
		"load_capacity": 3, "fuel_capacity": 3, "nominal_fuel_consumption": 3,
	} {
		require.Len(t, seen[tag], want, tag)
	}
}

// The bounds and steps are those of TSBS; a value is cut to its digits, so two of them may differ by one
// unit of the last digit more than a step.
func TestTruckValues(t *testing.T) {
	limits := map[string]struct{ min, max, step, scale float64 }{
		"current_load":     {0, 5000, 5000, 1},
		"elevation":        {0, 5000, 10, 1},
		"fuel_consumption": {0, 50, 5, 10},
		"fuel_state":       {0, 1, 0.001, 10},
		"grade":            {0, 100, 5, 1},
		"heading":          {0, 360, 5, 1},
		"latitude":         {-90, 90, 0.005, 100_000},
		"longitude":        {-180, 180, 0.005, 100_000},
		"status":           {0, 5, 5, 1},
		"velocity":         {0, 100, 10, 1},
	}
	const reports = 20_000
	var loads, refuels int
	truck := fleet.NewTruck(42, 0, start)
	before := map[string]float64{}
	for i := range reports {
		fields := truck.Next(start.Add(time.Duration(i) * time.Second))
		require.Len(t, fields, len(limits))
		require.True(t, sort.SliceIsSorted(fields, func(i, j int) bool { return fields[i].Metric < fields[j].Metric }))
		for _, f := range fields {
			l, v := limits[f.Metric], f.Value.Float()
			if f.Metric == "status" {
				require.Equal(t, telemetry.Int, f.Value.Kind())
				v = float64(f.Value.Int())
			} else {
				require.Equal(t, telemetry.Float, f.Value.Kind())
			}
			require.Truef(t, l.min <= v && v <= l.max, "%s = %v", f.Metric, v)
			require.Equalf(t, math.Round(v*l.scale)/l.scale, v, "%s has more digits than its sensor shows", f.Metric)
			if last, ok := before[f.Metric]; ok {
				refuel := f.Metric == "fuel_state" && last == 0 && v == 1
				require.Truef(t, refuel || math.Abs(v-last) <= l.step+1.001/l.scale, "%s went from %v to %v", f.Metric, last, v)
				if refuel {
					refuels++
				}
				if f.Metric == "current_load" && v != last {
					loads++
				}
			}
			before[f.Metric] = v
		}
	}
	require.InDelta(t, 0.05*reports, loads, 200)
	require.InDelta(t, reports/2000, refuels, 1, "a tank lasts for 2,000 reports on average")
}
