package provision_test

import (
	"context"
	"testing"
	"time"

	"binnacle/internal/heat"
	"binnacle/internal/provision"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding/epk"

	"github.com/stretchr/testify/require"
)

// written is heat that processes have written: 600 RU in each minute of a key, more from a minute on, and answers 429.
type written struct {
	begin, now time.Time
	reads      []heat.Span
}

const loaded = "chunks-2026-11"

func (w *written) Frames(_ context.Context, span heat.Span) (out []heat.Frame, err error) {
	w.reads = append(w.reads, span)
	for at := w.begin.UnixMilli(); at < w.now.UnixMilli(); at += heat.Minute {
		if at+heat.Minute <= span.From || at >= span.To {
			continue
		}
		c := heat.Cell{Key: heat.Key{Container: loaded, Shard: "acme~00"}, Minutes: 1}
		c.RUs[heat.ChunkWrites], c.Throttled = 600, 2
		out = append(out, heat.Frame{Layer: heat.Minutes, From: at, To: at + heat.Minute, Writer: "a", Of: 1,
			Cells: []heat.Cell{c}})
	}
	return out, nil
}

func (*written) Weights(context.Context, telemetry.Day) ([]heat.Weights, error) { return nil, nil }

func (w *written) Forecast(context.Context, time.Time) (heat.Forecast, error) {
	e := heat.Expected{Key: heat.Key{Container: loaded, Shard: "acme~00"}}
	e.RUs[1] = 7200
	return heat.Forecast{Cells: []heat.Expected{e}}, nil
}

// RangesOf returns two halves of the space of one container.
func (*written) RangesOf(_ context.Context, container string) ([]epk.Range, error) {
	if container != loaded && container != "chunks-2026-12" {
		return nil, store.ErrNoContainer
	}
	return []epk.Range{{Min: "", Max: "20"}, {Min: "20", Max: epk.Max}}, nil
}

// The load of a container is that of its hottest physical partition times their number, as far back as processes have
// written anything; a later round reads only what is new, and says the same.
func TestContainerLoads(t *testing.T) {
	begin := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	w := &written{begin: begin, now: begin.Add(40 * time.Minute)}
	l := &provision.ContainerLoads{Ranges: w, Heat: w, Forecasts: w}
	for round, minutes := range []int{40, 41, 75, 75} {
		w.now = begin.Add(time.Duration(minutes) * time.Minute)
		all, err := l.Of(t.Context(), []string{loaded, "chunks-2026-12", "chunks-2027-01"}, w.now.Add(10*time.Second))
		require.NoError(t, err)
		require.Len(t, all, 2, "none of what is not there")
		got := all[loaded]
		require.Len(t, got.RUs, minutes)
		require.Len(t, got.Throttled, minutes)
		for i := range got.RUs {
			require.InDelta(t, 20, got.RUs[i], 1e-9, "600 RU in a minute, twice for two partitions")
			require.EqualValues(t, 2, got.Throttled[i])
			require.InDelta(t, 10, got.Partitions[0][i]+got.Partitions[1][i], 1e-9)
		}
		require.Equal(t, len(got.RUs), len(got.Partitions[0]))
		tenants := l.OfTenant("acme", loaded, w.now)
		require.Len(t, tenants.RUs, minutes)
		require.InDelta(t, 10, tenants.RUs[0], 1e-9)
		require.Zero(t, sumOf(l.OfTenant("other", loaded, w.now).RUs))
		require.Equal(t, 20_000, got.Most)
		require.InDelta(t, 2, got.Expected[1], 1e-9)
		require.Len(t, all["chunks-2026-12"].RUs, minutes, "a container that nobody uses has a load of zero")
		if round > 0 {
			require.GreaterOrEqual(t, w.reads[round].From, begin.Add(30*time.Minute).UnixMilli())
		}
	}
}

func sumOf(all []float64) (sum float64) {
	for _, x := range all {
		sum += x
	}
	return sum
}

// A container's first hours know the load of the container before it, up to its own first day.
func TestContainerLoadsOfAFirstDay(t *testing.T) {
	begin := time.Date(2026, 11, 30, 22, 0, 0, 0, time.UTC)
	w := &written{begin: begin, now: begin.Add(150 * time.Minute)}
	l := &provision.ContainerLoads{Ranges: w, Heat: w, Forecasts: w}
	all, err := l.Of(t.Context(), []string{"chunks-2026-12"}, w.now.Add(10*time.Second))
	require.NoError(t, err)
	got := all["chunks-2026-12"].RUs
	require.Len(t, got, 150)
	for i, rus := range got {
		want := 20.0
		if i >= 120 {
			want = 0
		}
		require.InDelta(t, want, rus, 1e-9, "minute %d", i)
	}
}
