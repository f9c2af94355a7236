package views

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"binnacle/binning/lane"
	"binnacle/internal/control"
	"binnacle/internal/retry"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// Pauses between attempts to write a document, and how many there are at most.
var patience = retry.Policy{First: 200 * time.Millisecond, Max: 5 * time.Second}

const attempts = 5

// Writer makes lanes and keeps them right. Run and the others must not be called together.
type Writer struct {
	cfg      Config
	families lane.Families
	pace     *pace
	metrics  *metrics

	// Owned by Run.
	next   map[place]time.Time // when a key and day is looked at again
	chosen map[place]time.Time // when one was sealed anew because other metrics are asked for
	failed map[place]int       // how often in a row its rounds have failed
	uses   map[string]knownUses
	// unfolded is the hours of devices of which is known that their rows are too many for a fold.
	unfolded map[place]map[string]lane.Hours
	lag      time.Duration // of the last pass
}

// place names a Target.
type place struct {
	chunks, shard string
	day           telemetry.Day
}

func (t Target) place() place { return place{t.Chunks, t.TenantShard, t.Day} }

// New makes a Writer. It fails when the settings have faults.
func New(cfg Config) (*Writer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Chunks == nil || cfg.Views == nil || cfg.Tenants == nil {
		return nil, errors.New("views: chunks, views and tenants must be set")
	}
	cfg.defaults()
	families, err := lane.ParseFamilies(cfg.Families)
	if err != nil {
		return nil, err
	}
	return &Writer{cfg: cfg, families: families, metrics: newMetrics(cfg.Metrics), next: make(map[place]time.Time),
		chosen: make(map[place]time.Time), uses: make(map[string]knownUses),
		unfolded: make(map[place]map[string]lane.Hours), failed: make(map[place]int),
		pace: &pace{rate: cfg.RUs, now: cfg.Now, sleep: cfg.Sleep}}, nil
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
	w.forget(targets)
	lag := time.Duration(0)
	for _, t := range targets {
		now := w.cfg.Now()
		at := t.place()
		if now.Before(w.next[at]) {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		report, err := w.Round(ctx, t)
		w.metrics.round(t, report, err)
		switch {
		case errors.Is(err, store.ErrNoContainer): // of a month that nobody has had readings in, or not made yet
		case err != nil && ctx.Err() == nil:
			w.cfg.Logger.Warn("lanes not made", "error", err)
		case report.Sealed != 0:
			w.cfg.Logger.Info("lanes made", "shard", t.TenantShard, "day", t.Day, "hours", report.Sealed.Count(),
				"documents", report.Documents, "read_rus", int(report.ReadRUs), "write_rus", int(report.WriteRUs))
		}
		w.next[at] = now.Add(w.pause(t, report, err))
		if report.Due != 0 {
			// However well it went, they have waited until now. A pass may take hours, and is not waited for.
			lag = max(lag, w.behind(t, report.Due, w.cfg.Now()))
			w.metrics.lag.Set(max(lag, w.lag).Seconds())
		}
	}
	w.lag = lag
	w.metrics.lag.Set(lag.Seconds())
}

// pause is how long a key and day is left alone: after failures the longer the more there were, since each may have
// cost as much as a success, but not so long that the alert, which looks back ten minutes, sees none.
func (w *Writer) pause(t Target, r Report, err error) time.Duration {
	if err != nil && !errors.Is(err, store.ErrNoContainer) {
		w.failed[t.place()]++
		return max(w.cfg.Every, min(w.cfg.Every<<min(w.failed[t.place()]-1, 10), w.cfg.Late/2))
	}
	delete(w.failed, t.place())
	if err != nil || r.Lost || r.Open != 0 || r.Raw > 0 {
		return w.cfg.Every
	}
	now := w.cfg.Now().UnixMilli()
	days := time.Duration(telemetry.DayOf(now) - t.Day)
	if now < t.Day.End()+w.cfg.Hold.Milliseconds()+2*w.cfg.Margin.Milliseconds() {
		return w.cfg.Every // more of its hours come due
	}
	return w.cfg.Late * max(days, 1)
}

// behind is for how long the first of some hours could have been sealed.
func (w *Writer) behind(t Target, open lane.Hours, now time.Time) time.Duration {
	from, _ := open.Bounds()
	end := time.UnixMilli(t.Day.Start()).Add(time.Duration(from+blockHours(w.cfg.Hold))*time.Hour + w.cfg.Hold +
		w.cfg.Margin)
	return now.Sub(end)
}

// forget lets go of what is no target any more.
func (w *Writer) forget(targets []Target) {
	known := make(map[place]bool, len(targets))
	for _, t := range targets {
		known[t.place()] = true
	}
	gone := func(at place, _ time.Time) bool { return !known[at] }
	maps.DeleteFunc(w.next, gone)
	maps.DeleteFunc(w.chosen, gone)
	maps.DeleteFunc(w.failed, func(at place, _ int) bool { return !known[at] })
	maps.DeleteFunc(w.unfolded, func(at place, _ map[string]lane.Hours) bool { return !known[at] })
}

// Targets is every key and day of so many days back from a moment, the newest last, so that what is behind comes first.
func (w *Writer) Targets(now time.Time, days int) (out []Target) {
	today := telemetry.DayOf(now.UnixMilli())
	for day := today - telemetry.Day(days); day <= today; day++ {
		out = append(out, w.TargetsOf(day)...)
	}
	return out
}

// TargetsOf is every key of a day, of the tenants that have lanes.
func (w *Writer) TargetsOf(day telemetry.Day) (out []Target) {
	for _, t := range w.cfg.Tenants() {
		if slices.Contains(w.cfg.Without, t.Name) || t.Expired(day, w.cfg.Now().UnixMilli()) {
			continue
		}
		out = append(out, targetsOf(t, day)...)
	}
	return out
}

func targetsOf(t control.Tenant, day telemetry.Day) (out []Target) {
	for _, v := range t.Placement.Visits(nil, telemetry.Range{From: day.Start(), To: day.End()}) {
		out = append(out, Target{t, v.Container, v.TenantShard, day})
	}
	return out
}
