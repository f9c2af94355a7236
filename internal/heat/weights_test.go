package heat_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"binnacle/internal/heat"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

func randomWeights(r *rand.Rand, n int) heat.Weights {
	w := heat.Weights{Tenant: "acme", Day: 20780, From: 20780 * heat.Day, To: 20781 * heat.Day, Writer: "ingest-1"}
	for i := range n {
		w.Devices = append(w.Devices, heat.Weight{Device: fmt.Sprintf("truck-%05d", i), RUs: float64(r.IntN(50_000)) / 100})
	}
	return w
}

func TestWeightsRoundTrip(t *testing.T) {
	r := random(t, 6)
	for _, n := range []int{0, 1, 700, heat.MaxDevices} {
		w := randomWeights(r, n)
		doc, err := w.Encode()
		require.NoError(t, err)
		got, err := heat.DecodeWeights(doc)
		require.NoError(t, err)
		require.Equal(t, w, got)
	}
}

// Of more devices than a document lists the heaviest are listed; sums by hash stay for every number of slots that
// divides the buckets, and nearly so for others.
func TestWeightsBeyondTheListKeepGroups(t *testing.T) {
	r := random(t, 7)
	all := randomWeights(r, 20_000)
	var parts []heat.Weights
	for i := range 3 { // of three ingesters
		part := all
		part.Devices = all.Devices[i*len(all.Devices)/3 : (i+1)*len(all.Devices)/3]
		doc, err := part.Encode()
		require.NoError(t, err)
		require.Less(t, len(doc), 60<<10)
		got, err := heat.DecodeWeights(doc)
		require.NoError(t, err)
		require.Equal(t, len(part.Devices)-heat.MaxDevices, got.Others)
		parts = append(parts, got)
	}
	got := heat.MergeWeights(parts)
	require.InEpsilon(t, total(&all), total(&got), 1e-6)
	require.Equal(t, len(all.Devices), len(got.Devices)+got.Others)
	for n := 1; n <= 90; n++ {
		want := make([]float64, n)
		for _, d := range all.Devices {
			want[sharding.GroupOf(d.Device, n)] += d.RUs
		}
		within := 1e-6
		if heat.Buckets%n != 0 {
			within = 0.15
		}
		for g, v := range groups(&got, n) {
			require.InEpsilon(t, want[g], v, within, "group %d of %d", g, n)
		}
	}
}

func FuzzWeights(f *testing.F) {
	r := rand.New(rand.NewPCG(8, 18))
	for _, n := range []int{0, 5, heat.MaxDevices + 5} {
		doc, err := randomWeights(r, n).Encode()
		require.NoError(f, err)
		f.Add(doc)
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		w, err := heat.DecodeWeights(doc)
		if err != nil {
			require.ErrorIs(t, err, heat.ErrCorrupt)
			return
		}
		again, err := w.Encode()
		require.NoError(t, err)
		same, err := heat.DecodeWeights(again)
		require.NoError(t, err)
		require.InDelta(t, total(&w), total(&same), 1e-6*(1+total(&w)))
	})
}

func randomForecast(r *rand.Rand, n int) heat.Forecast {
	f := heat.Forecast{At: 1_795_000_000_000, Writer: "ingest-1"}
	for i := range n {
		e := heat.Expected{Key: heat.KeyOf("chunks-2026-11", fmt.Sprintf("tenant-%04d~%x", i, r.IntN(300)))}
		for h := range e.RUs {
			e.RUs[h] = float64(r.IntN(10_000)) / 100
		}
		f.Cells = append(f.Cells, e)
	}
	return f
}

func TestForecastRoundTrip(t *testing.T) {
	r := random(t, 9)
	f := randomForecast(r, 200)
	doc, err := f.Encode()
	require.NoError(t, err)
	got, err := heat.DecodeForecast(doc)
	require.NoError(t, err)
	require.Equal(t, f, got)

	many := randomForecast(r, 8000)
	doc, err = many.Encode()
	require.NoError(t, err)
	require.LessOrEqual(t, len(doc), heat.TargetBytes)
	got, err = heat.DecodeForecast(doc)
	require.NoError(t, err)
	require.Positive(t, got.Folded)
	sum := func(f heat.Forecast) (total float64) {
		for _, e := range f.Cells {
			for _, v := range e.RUs {
				total += v
			}
		}
		return total
	}
	require.InEpsilon(t, sum(many), sum(got), 1e-6)
}

// Of each writer the newest forecast counts, from now on.
func TestMergeForecasts(t *testing.T) {
	key := heat.KeyOf("chunks-2026-11", "acme~1")
	at := func(writer string, at int64, rus float64) heat.Forecast {
		e := heat.Expected{Key: key}
		for h := range e.RUs {
			e.RUs[h] = rus
		}
		return heat.Forecast{At: at, Writer: writer, Cells: []heat.Expected{e}}
	}
	base := int64(1_795_000_000_000) / heat.Hour * heat.Hour
	now := base + heat.Hour + heat.Hour/4
	got := heat.MergeForecasts([]heat.Forecast{
		at("a", base, 1), at("a", base+heat.Hour/2, 2), at("b", base+heat.Hour, 10), at("c", base-9*heat.Hour, 100),
		at("d", now+1, 1000),
	}, now, 2*heat.Hour)
	require.Len(t, got.Cells, 1)
	require.InDelta(t, 0.75*12, got.Cells[0].RUs[0], 1e-9, "three quarters of the hour are left")
	require.InDelta(t, 12, got.Cells[0].RUs[1], 1e-9)
	require.InDelta(t, 10, got.Cells[0].RUs[heat.ForecastHours-1], 1e-9, "the older forecast ends earlier")
	require.Equal(t, now, got.At)
	require.Equal(t, base+3*heat.Hour, got.Start(2))
}

func FuzzForecast(f *testing.F) {
	doc, err := randomForecast(rand.New(rand.NewPCG(10, 18)), 9).Encode()
	require.NoError(f, err)
	f.Add(doc)
	f.Fuzz(func(t *testing.T, doc []byte) {
		if _, err := heat.DecodeForecast(doc); err != nil {
			require.ErrorIs(t, err, heat.ErrCorrupt)
		}
	})
}

// total returns the RU of all devices.
func total(w *heat.Weights) (rus float64) {
	for _, d := range w.Devices {
		rus += d.RUs
	}
	for _, r := range w.Rest {
		rus += r
	}
	return rus
}

// groups returns the RU by hash mod n, as devices are placed on n slots. Those in buckets are placed as
// sharding.AddBuckets does.
func groups(w *heat.Weights, n int) []float64 {
	out := make([]float64, n)
	for _, d := range w.Devices {
		out[sharding.GroupOf(d.Device, n)] += d.RUs
	}
	sharding.AddBuckets(out, w.Rest)
	return out
}
