package merge

import (
	"slices"

	"binnacle/internal/telemetry"
	"binnacle/query/read/piece"
)

// How says in which way a value has changed.
type How string

// The ways.
const (
	Corrected How = "corrected" // it had another value
	Late      How = "late"      // it was not known, though a later reading of its device was
	New       How = "new"       // neither it nor a later reading of its device was known
)

// Hows is all of them.
var Hows = []How{Corrected, Late, New}

// Change is a value that is known at the later of two moments, and at the earlier one was not, or had another value.
type Change struct {
	How    How
	Device string
	Labels telemetry.Labels
	Metric string
	Time   int64           // ms since 1970 UTC
	Was    telemetry.Value // none unless How is Corrected
	Value  telemetry.Value
}

// Changes finds the values that were stored between two moments. It decodes the pieces that were stored then, and
// pieces of the same device that overlap these. It is owned by one goroutine.
type Changes struct {
	collected
	cfg   Config
	since int64
}

// NewChanges collects pieces of the later moment, encoded, until Each is called.
func NewChanges(cfg Config, since int64) *Changes { return &Changes{cfg: cfg, since: since} }

// Each calls yield with every change, in the order of device, labels, metric and time. An error of yield ends it and is
// returned as it is. It is called once, when all pieces are there.
func (c *Changes) Each(yield func(Change) error) error {
	return c.each(func(device string, pieces []*piece.Piece) error { return c.device(device, pieces, yield) })
}

func (c *Changes) device(device string, pieces []*piece.Piece, yield func(Change) error) error {
	defer piece.ReleaseAll(pieces)
	var before, after []*piece.Piece // pieces that may overlap new ones
	var came telemetry.Range         // its first instant, and behind its last one
	newest := int64(-1)              // instant that was known
	for _, p := range pieces {
		if p.CutBy(c.since) {
			newest = max(newest, p.To)
			continue
		}
		if after == nil {
			came = telemetry.Range{From: p.From, To: p.To + 1}
		}
		came.From, came.To = min(came.From, p.From), max(came.To, p.To+1)
		after = append(after, p)
	}
	if after == nil {
		return nil
	}
	for _, p := range pieces {
		if p.CutBy(c.since) && p.From < came.To && p.To >= came.From {
			before, after = append(before, p), append(after, p)
		}
	}
	was, wasBytes, err := c.cfg.curves(device, before)
	if err != nil {
		return err
	}
	is, isBytes, err := c.cfg.curves(device, after)
	if err != nil {
		return err
	}
	defer c.cfg.Memory.Give(wasBytes + isBytes)
	for i := range is {
		k, known := slices.BinarySearchFunc(was, is[i], Curve.compare)
		var old *Curve
		if known {
			old = &was[k]
		}
		if err := is[i].compared(old, newest, yield); err != nil {
			return err
		}
	}
	return nil
}

// compared yields the values of a series that are new or differ; was is nil for a series that was not known.
func (is *Curve) compared(was *Curve, newest int64, yield func(Change) error) error {
	old := walk{curve: was}
	for i := range is.Stretches {
		s := &is.Stretches[i]
		for k, t := range s.Times {
			change := Change{Device: is.Device, Labels: is.Labels, Metric: is.Metric, Time: t, Value: s.Value(k), How: New}
			switch before, there := old.at(t); {
			case there && before == change.Value:
				continue
			case there:
				change.How, change.Was = Corrected, before
			case t <= newest:
				change.How = Late
			}
			if err := yield(change); err != nil {
				return err
			}
		}
	}
	return nil
}

// walk looks up ascending instants in a series.
type walk struct {
	curve      *Curve // nil has no values
	stretch, i int
}

// at returns the value of an instant, which must lie behind the one before.
func (w *walk) at(t int64) (telemetry.Value, bool) {
	if w.curve == nil {
		return telemetry.Value{}, false
	}
	for ; w.stretch < len(w.curve.Stretches); w.stretch, w.i = w.stretch+1, 0 {
		s := &w.curve.Stretches[w.stretch]
		for ; w.i < len(s.Times) && s.Times[w.i] <= t; w.i++ {
			if s.Times[w.i] == t {
				return s.Value(w.i), true
			}
		}
		if w.i < len(s.Times) {
			break
		}
	}
	return telemetry.Value{}, false
}
