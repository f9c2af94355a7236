package heatlog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"binnacle/internal/heat"
	"binnacle/internal/retry"
	"binnacle/internal/store"
)

// Thinner makes frames of hours of the minutes of all processes, and frames of days of hours, before the finer ones
// expire. It may die anywhere, and two of them do no harm: readers take one complete frame of an hour.
type Thinner struct {
	docs   store.HeatWriter
	reader *Reader
	now    func() time.Time
	log    *slog.Logger

	containers Containers
}

// When a frame is made: some time after its end, as processes write late.
const (
	thinEvery = 10 * time.Minute
	hourGrace = 10 * time.Minute
	dayGrace  = 30 * time.Minute
	thinBack  = 20 * time.Hour      // how far back hours are looked for
	daysBack  = 10 * 24 * time.Hour // how far back days are looked for
	mostParts = 16                  // documents of one frame
)

// NewThinner returns a Thinner.
func NewThinner(docs store.HeatWriter, now func() time.Time, log *slog.Logger) *Thinner {
	return &Thinner{docs: docs, reader: NewReader(docs), now: now, log: log}
}

// Bill has the Thinner store with each frame of an hour what the containers of the account cost in it.
func (t *Thinner) Bill(c Containers) *Thinner {
	t.containers = c
	return t
}

// Run does a round now and then, until ctx ends.
func (t *Thinner) Run(ctx context.Context) error {
	loop := retry.Loop{Spends: true, Every: thinEvery, Log: t.log,
		Failing: "heat is not thinned", Over: "heat is thinned again"}
	return loop.Run(ctx, t.Round)
}

// Round makes the frames that are missing.
func (t *Thinner) Round(ctx context.Context) error {
	now := t.now()
	hours := heat.Span{From: now.Add(-thinBack).Truncate(time.Hour).UnixMilli(),
		To: now.Add(-hourGrace).Truncate(time.Hour).UnixMilli(), Step: heat.Hour}
	days := heat.Span{From: now.Add(-daysBack).Truncate(24 * time.Hour).UnixMilli(),
		To: now.Add(-dayGrace).Truncate(24 * time.Hour).UnixMilli(), Step: heat.Day}
	return errors.Join(t.thin(ctx, hours, heat.Hours, heat.Minutes), t.thin(ctx, days, heat.Days, heat.Hours))
}

// thin makes the frames of a layer that a span lacks, of a finer one.
func (t *Thinner) thin(ctx context.Context, span heat.Span, to, of heat.Layer) error {
	made, err := t.reader.layer(ctx, to, span)
	if err != nil {
		return err
	}
	done := map[int64]bool{}
	for _, f := range made {
		done[f.From] = true
	}
	for at := span.From; at < span.To; at += span.Step {
		if done[at] {
			continue
		}
		if err := t.make(ctx, heat.Frame{Layer: to, From: at, To: at + span.Step}, of); err != nil {
			return err
		}
	}
	return nil
}

// lacksHour reports whether an hour of a day that a later round will make is not among those that were found.
func (t *Thinner) lacksHour(day heat.Frame, found []heat.Frame) bool {
	first := t.now().Add(-thinBack).Truncate(time.Hour).UnixMilli()
	for at := max(first, day.From); at < day.To; at += heat.Hour {
		if !slices.ContainsFunc(found, func(f heat.Frame) bool { return f.From == at }) {
			return true
		}
	}
	return false
}

// make makes one frame of the finer frames in it, also where there are none: then it says so. A day waits for its
// hours.
func (t *Thinner) make(ctx context.Context, f heat.Frame, of heat.Layer) error {
	found, err := t.reader.layer(ctx, of, heat.Span{From: f.From, To: f.To})
	if err != nil {
		return err
	}
	if f.Layer == heat.Days && t.lacksHour(f, found) {
		return nil
	}
	if f.Layer == heat.Hours && t.containers != nil {
		if err := t.bill(ctx, f.From, found); err != nil {
			return fmt.Errorf("store what an hour costs: %w", err)
		}
	}
	var cells []heat.Cell
	for _, finer := range found {
		if finer.To > f.To || finer.From < f.From {
			continue
		}
		cells = append(cells, finer.Cells...)
		f.Lost += finer.Lost
		f.Folded = max(f.Folded, finer.Folded)
	}
	f.Cells, f.Writer = heat.Sum(cells), strings.ToLower(rand.Text()[:8])
	bodies, err := f.Documents(mostParts)
	if err != nil {
		return err
	}
	keep := KeepHours
	if f.Layer == heat.Days {
		keep = KeepDays
	}
	for i, body := range bodies {
		_, err := t.docs.CreateHeat(ctx, store.HeatDocument{Key: string(f.Layer), TTL: keep, Body: body,
			ID: fmt.Sprintf("%013d.%s.%d", f.From, f.Writer, i)})
		if err != nil {
			return err
		}
	}
	t.log.Debug("heat thinned", "layer", f.Layer, "from", f.From, "frames", len(found), "cells", len(f.Cells))
	return nil
}
