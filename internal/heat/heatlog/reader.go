package heatlog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"binnacle/internal/heat"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// How long documents are kept, by what they are.
const (
	KeepMinutes  = 24 * time.Hour
	KeepHours    = 45 * 24 * time.Hour
	KeepDays     = 400 * 24 * time.Hour
	KeepWeights  = 45 * 24 * time.Hour
	KeepForecast = 24 * time.Hour
)

// forecastAge is how old a process's forecast may be to count.
const forecastAge = 45 * time.Minute

const forecastKey = "forecast"

// weightsKey returns the key of the weights of a UTC day.
func weightsKey(day telemetry.Day) string { return "weights." + day.String() }

// Reader reads documents of the load. It is safe for any number of callers, and keeps nothing.
type Reader struct{ docs store.HeatReader }

// NewReader returns a Reader of a store.
func NewReader(docs store.HeatReader) *Reader { return &Reader{docs} }

// Grid returns the heat of a container in a span of time. The newest minutes lack what processes have not written yet:
// they write once a minute, and a steady load up to heat.MaxMinutes later.
func (r *Reader) Grid(ctx context.Context, container string, span heat.Span) (heat.Grid, error) {
	frames, err := r.Frames(ctx, span)
	return heat.NewGrid(container, span, frames), err
}

// Frames returns the frames of all containers that lie in a span or overlap it, so that no minute is covered twice: the
// coarsest layers that the step allows, and finer ones where those have not been made yet.
func (r *Reader) Frames(ctx context.Context, span heat.Span) ([]heat.Frame, error) {
	var out []heat.Frame
	covered := map[int64]bool{} // hours since 1970
	for _, layer := range []heat.Layer{heat.Days, heat.Hours, heat.Minutes} {
		if layer == heat.Days && span.Step < heat.Day {
			continue
		}
		found, err := r.layer(ctx, layer, span)
		if err != nil {
			return nil, err
		}
		if layer == heat.Hours && span.Step < heat.Hour {
			// A finer step is for minutes; hours serve where those are not kept any more.
			fine, err := r.layer(ctx, heat.Minutes, span)
			if err != nil {
				return nil, err
			}
			for _, f := range fine {
				covered[(f.To-1)/heat.Hour] = true
			}
			out = append(out, fine...)
		} else if layer == heat.Minutes && span.Step < heat.Hour {
			continue
		}
		taken := map[int64]bool{}
		for _, f := range found {
			if at := (f.To - 1) / heat.Hour; !covered[at] && !covered[f.From/heat.Hour] {
				out = append(out, f)
				for h := f.From / heat.Hour; h <= at; h++ {
					taken[h] = true
				}
			}
		}
		for h := range taken {
			covered[h] = true
		}
	}
	return out, nil
}

func (r *Reader) layer(ctx context.Context, layer heat.Layer, span heat.Span) ([]heat.Frame, error) {
	var all []heat.Frame
	q := store.HeatQuery{Key: string(layer), From: span.From - layer.Step() + 1, To: span.To}
	_, err := r.docs.ReadHeat(ctx, q, func(doc []byte) error {
		f, err := heat.DecodeFrame(doc)
		if err != nil {
			return err
		}
		if f.To > span.From {
			all = append(all, f)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read heat by the %s: %w", layer, err)
	}
	return complete(all), nil
}

// complete leaves out frames of hours and days that lack a document, and all but one frame of an hour or day: two
// processes may have made it.
func complete(all []heat.Frame) []heat.Frame {
	type frame struct {
		from   int64
		writer string
	}
	parts, chosen := map[frame]int{}, map[int64]string{}
	for _, f := range all {
		at := frame{f.From, f.Writer}
		if parts[at]++; parts[at] == f.Of {
			if w, ok := chosen[f.From]; !ok || f.Writer < w {
				chosen[f.From] = f.Writer
			}
		}
	}
	return slices.DeleteFunc(all, func(f heat.Frame) bool {
		w, ok := chosen[f.From]
		return f.Layer != heat.Minutes && (!ok || w != f.Writer)
	})
}

// Weights returns what the devices of every tenant took on a UTC day, by tenant: of tenants from about 1 % of the load
// on. The day need not be over.
func (r *Reader) Weights(ctx context.Context, day telemetry.Day) ([]heat.Weights, error) {
	parts := map[string][]heat.Weights{}
	q := store.HeatQuery{Key: weightsKey(day), From: 0, To: day.End() + 1}
	_, err := r.docs.ReadHeat(ctx, q, func(doc []byte) error {
		w, err := heat.DecodeWeights(doc)
		parts[w.Tenant] = append(parts[w.Tenant], w)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the weights of devices of %s: %w", day, err)
	}
	var out []heat.Weights
	for _, of := range parts {
		out = append(out, heat.MergeWeights(of))
	}
	slices.SortFunc(out, func(a, b heat.Weights) int { return strings.Compare(a.Tenant, b.Tenant) })
	return out, nil
}

// Forecast returns the RU that writes of chunks are expected to take from now on, by key and hour.
func (r *Reader) Forecast(ctx context.Context, now time.Time) (heat.Forecast, error) {
	var all []heat.Forecast
	at := now.UnixMilli()
	q := store.HeatQuery{Key: forecastKey, From: at - forecastAge.Milliseconds(), To: at + 1}
	_, err := r.docs.ReadHeat(ctx, q, func(doc []byte) error {
		f, err := heat.DecodeForecast(doc)
		all = append(all, f)
		return err
	})
	if err != nil {
		return heat.Forecast{}, fmt.Errorf("read the forecast: %w", err)
	}
	return heat.MergeForecasts(all, at, forecastAge.Milliseconds()), nil
}
