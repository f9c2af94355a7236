package query

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"binnacle/internal/telemetry"
)

// errEnough ends the merge when the limit is passed.
var errEnough = errors.New("the limit is reached")

// answer is one query under way. It is owned by the goroutine that runs it; only scan is called by others.
type answer struct {
	q      *Querier
	r      Request
	dir    direction
	merger *merger
	budget *budget
	tally  tally
	emit   func(Row) error

	rows      int
	truncated bool
	missing   []string // why the answer is not complete
	days      int      // of the next window
	tight     bool     // windows of more than a day have turned out too large
	expired   func(telemetry.Day) bool
}

// Readings calls emit with each row of the answer, in order. An error of emit ends the query and is returned as it is.
// Errors: a *MemoryError when the answer can't be put together within the query's memory; ErrUnavailable when the
// store could not be read; chunk.ErrCorrupt; the context's. Rows may have been emitted before an error. The Result's
// Stats are right also with an error.
func (q *Querier) Readings(ctx context.Context, r Request, emit func(Row) error) (Result, error) {
	started := q.cfg.Now()
	a := q.newAnswer(r, emit)
	err := a.run(ctx)
	if errors.Is(err, errOverBudget) {
		err = q.memoryError(a.r)
	}
	res := Result{Truncated: a.truncated, Complete: err == nil && len(a.missing) == 0, Incomplete: a.missing, Stats: a.tally.stats()}
	q.metrics.observe("readings", q.cfg.Now().Sub(started), err)
	q.metrics.answered(res, a.rows, a.budget.peak)
	return res, err
}

func (q *Querier) newAnswer(r Request, emit func(Row) error) *answer {
	r.Range = telemetry.Range{From: max(r.Range.From, 0), To: min(r.Range.To, telemetry.MaxMillis)}
	r.Devices, r.Metrics = distinct(r.Devices), distinct(r.Metrics)
	a := &answer{q: q, r: r, dir: ascending, emit: emit, budget: &budget{limit: q.cfg.MemoryBytes}, days: daysOfMonth}
	if r.Descending {
		a.dir = descending
	}
	if r.Limit > 0 {
		a.days = 1
	}
	a.merger = &merger{
		dir: a.dir, within: r.Range, metrics: r.Metrics, wanted: newMetricSet(r.Metrics), budget: a.budget, emit: a.emitRow,
	}
	return a
}

// distinct is the names in order, each once. It keeps nil, which means all.
func distinct(names []string) []string {
	if names == nil {
		return nil
	}
	out := append(make([]string, 0, len(names)), names...)
	slices.Sort(out)
	return slices.Compact(out)
}

// run takes the heads first, then the map, then the store (rule R1).
func (a *answer) run(ctx context.Context) error {
	if a.r.Range.Empty() {
		return nil
	}
	s, missing, err := a.q.heads(ctx, a.r)
	if err != nil {
		return fmt.Errorf("read heads: %w", err)
	}
	a.missing = missing
	a.tally.headRows = s.countRows()
	p, err := a.q.plan(ctx, a.r, s.taken)
	if err != nil {
		return err
	}
	soon := a.q.cfg.Now().Add(time.Minute).UnixMilli()
	a.expired = func(day telemetry.Day) bool { return p.tenant.Expired(day, soon) }
	for _, h := range s.rows {
		a.merger.addFrame(h.Device, h.Source, h.Frame)
	}
	err = a.runParts(ctx, p.parts)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

func (a *answer) runParts(ctx context.Context, parts []part) error {
	for _, p := range parts {
		if err := a.merger.drain(a.dir.begin(p.Range)); err != nil {
			return err
		}
		read := a.runWindows
		if a.r.Devices != nil && len(p.visits) <= a.q.cfg.Fanout {
			read = a.stream
		}
		if err := read(ctx, p); err != nil {
			return err
		}
	}
	return a.merger.drain(endPos)
}

// emitRow is where the limit cuts. One row beyond it is looked for, to tell whether the answer is truncated.
func (a *answer) emitRow(row Row) error {
	if a.r.Limit > 0 && a.rows == a.r.Limit {
		a.truncated = true
		return errEnough
	}
	a.rows++
	return a.emit(row)
}

// begin is the position that no row of r comes before, end the one that all of them come before.
func (d direction) begin(r telemetry.Range) int64 {
	if d == descending {
		return d.at(r.To - 1)
	}
	return d.at(r.From)
}

func (d direction) end(r telemetry.Range) int64 {
	if d == descending {
		return d.at(r.From - 1)
	}
	return d.at(r.To)
}
