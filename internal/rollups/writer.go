// Package rollups makes rollups of chunks, and keeps them right: per first-level key and day it builds hours when their
// chunks are stored, finds chunks that came later, and recomputes what they touch. The rules are V1 to V7 of
// docs/internals/protocol.md, the documents those of package rollup.
//
// What a Writer does is done in rounds, one for a key and day. A round reads the manifest, then chunks, writes rollups
// under new names, and replaces the manifest under its ETag: until then nothing of it counts, and
// whatever goes wrong before has done nothing. Two writers do no harm; the lease saves what the second one would
// spend.
//
// It knows neither Cosmos DB nor PromQL.
package rollups

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"binnacle/binning/rollup"
	"binnacle/internal/retry"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
)

// Pauses between attempts to write a document, and how many there are at most.
var retryPolicy = retry.Policy{First: 200 * time.Millisecond, Max: 5 * time.Second}

const maxAttempts = 5

// Writer makes rollups and keeps them right. Run and the others must not be called together.
type Writer struct {
	cfg      Config
	families rollup.Families // nil: by grid and devices
	pacer    retry.RUPacer
	metrics  *metrics

	// Owned by Run. next is when a key and day is checked again.
	next     map[targetID]time.Time
	failures map[targetID]int // how often in a row its rounds have failed
	// uncorrectable holds the hours of devices that have too many rows for a correction.
	uncorrectable map[targetID]map[string]rollup.Hours
	// lag is the lag after the last pass.
	lag time.Duration
}

type targetID struct {
	chunks, shard string
	day           telemetry.Day
}

func (t Target) id() targetID { return targetID{t.Chunks, t.TenantShard, t.Day} }

// New makes a Writer. It fails when the settings have faults.
func New(cfg Config) (*Writer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Chunks == nil || cfg.Rollups == nil || cfg.Tenants == nil {
		return nil, errors.New("rollups: chunks, rollups and tenants must be set")
	}
	cfg.defaults()
	var families rollup.Families
	if cfg.Families != "" { // else familiesOn decides
		families, _ = rollup.ParseFamilies(cfg.Families) // which Validate has checked
	}
	return &Writer{cfg: cfg, families: families, metrics: newMetrics(cfg.Metrics), next: make(map[targetID]time.Time),
		uncorrectable: make(map[targetID]map[string]rollup.Hours), failures: make(map[targetID]int),
		pacer: retry.RUPacer{Rate: cfg.RUs, Now: cfg.Now, Sleep: cfg.Sleep}}, nil
}

// Run does rounds until ctx ends, and returns nil then. What goes wrong is logged and tried again.
func (w *Writer) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		w.Once(ctx)
		if w.cfg.Sleep(ctx, w.cfg.Every) != nil {
			break
		}
	}
	return nil
}

// Once does a round for each key and day that it is time to look at.
func (w *Writer) Once(ctx context.Context) {
	targets := w.Targets(w.cfg.Now(), w.cfg.Days)
	w.dropState(targets)
	lag := time.Duration(0)
	for _, t := range targets {
		now := w.cfg.Now()
		at := t.id()
		if now.Before(w.next[at]) {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		report, err := w.Round(ctx, t)
		w.metrics.round(report, err)
		switch {
		case errors.Is(err, store.ErrNoContainer): // a month without readings, or not made yet
		case err != nil && ctx.Err() == nil:
			w.cfg.Logger.Warn("rollups not made", "error", err)
		case report.Built != 0:
			level := slog.LevelInfo
			if report.Documents == 0 { // only the manifest: there are no readings
				level = slog.LevelDebug
			}
			w.cfg.Logger.Log(ctx, level, "rollups made", "shard", t.TenantShard, "day", t.Day, "hours", report.Built.Count(),
				"documents", report.Documents, "read_rus", int(report.ReadRUs), "write_rus", int(report.WriteRUs))
		}
		pause := w.pause(t, report, err)
		if err == nil || errors.Is(err, store.ErrNoContainer) {
			pause = retry.Paced(ctx, pause)
		}
		w.next[at] = now.Add(pause)
		if report.Due != 0 {
			// However well it went, they have waited until now. A pass may take hours, and is not waited for.
			lag = max(lag, w.lagOf(t, report.Due, w.cfg.Now()))
			w.metrics.lag.Set(max(lag, w.lag).Seconds())
		}
	}
	w.lag = lag
	w.metrics.lag.Set(lag.Seconds())
}

// pause returns how long a key and day is left alone: after failures the longer the more there were, since each may
// have cost as much as a success, but not so long that the alert, which looks back ten minutes, sees none.
func (w *Writer) pause(t Target, r Report, err error) time.Duration {
	if err != nil && !errors.Is(err, store.ErrNoContainer) {
		w.failures[t.id()]++
		return max(w.cfg.Every, min(w.cfg.Every<<min(w.failures[t.id()]-1, 10), w.cfg.LateEvery/2))
	}
	delete(w.failures, t.id())
	now := w.cfg.Now().UnixMilli()
	days := time.Duration(telemetry.DayOf(now) - t.Day)
	switch {
	case err != nil && days > 0: // a container of the past, which late readings alone would make
		return w.cfg.LateEvery * days
	case err != nil || r.Lost || r.Open != 0 || r.Raw > 0:
		return w.cfg.Every
	}
	if now < t.Day.End()+w.cfg.Hold.Milliseconds()+2*w.cfg.Margin.Milliseconds() {
		return w.cfg.Every // more of its hours come due
	}
	return w.cfg.LateEvery * max(days, 1)
}

// lagOf returns for how long the first of some hours could have been built.
func (w *Writer) lagOf(t Target, open rollup.Hours, now time.Time) time.Duration {
	from, _ := open.Bounds()
	end := time.UnixMilli(t.Day.Start()).Add(time.Duration(from+hoursPerBlock(w.cfg.Hold))*time.Hour + w.cfg.Hold +
		w.cfg.Margin)
	return now.Sub(end)
}

// dropState lets go of what is no target any more.
func (w *Writer) dropState(targets []Target) {
	known := make(map[targetID]bool, len(targets))
	for _, t := range targets {
		known[t.id()] = true
	}
	gone := func(at targetID, _ time.Time) bool { return !known[at] }
	maps.DeleteFunc(w.next, gone)
	maps.DeleteFunc(w.failures, func(at targetID, _ int) bool { return !known[at] })
	maps.DeleteFunc(w.uncorrectable, func(at targetID, _ map[string]rollup.Hours) bool { return !known[at] })
}

// Targets returns every key and day for a number of days back from a moment, the newest last: the oldest work first.
func (w *Writer) Targets(now time.Time, days int) (out []Target) {
	today := telemetry.DayOf(now.UnixMilli())
	for day := today - telemetry.Day(days); day <= today; day++ {
		out = append(out, w.TargetsOf(day)...)
	}
	return out
}

// TargetsOf returns every key of a day, of the tenants that have rollups.
func (w *Writer) TargetsOf(day telemetry.Day) (out []Target) {
	for _, t := range w.cfg.Tenants() {
		if slices.Contains(w.cfg.Without, t.Name) || t.Expired(day, w.cfg.Now().UnixMilli()) {
			continue
		}
		out = append(out, targetsOf(t, day)...)
	}
	return out
}

func targetsOf(t tenant.Tenant, day telemetry.Day) (out []Target) {
	for _, v := range t.Placement.Visits(nil, telemetry.Range{From: day.Start(), To: day.End()}) {
		out = append(out, Target{t, v.Container, v.TenantShard, day})
	}
	return out
}
