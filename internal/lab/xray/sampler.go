package xray

import (
	"context"
	"errors"
	"fmt"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/cosmos"

	"github.com/valyala/fastjson"
)

// sampler reads a sample of a container within its budget.
type sampler struct {
	cfg    Config
	source *cosmos.Foreign
	about  cosmos.Description
	ranges []cosmos.PhysicalRange

	parser  fastjson.Parser
	windows []window
	// cells lists the cells by range, then by window.
	cells []cell
	// docs lists the documents of the sample.
	docs   []document
	counts []float64 // documents of each range
	perRow float64   // RU that a document of the sample is expected to be charged
}

// window is a half-open span of seconds in which documents were written last.
type window struct{ from, to int64 }

// cell is a window of a physical partition.
type cell struct {
	of, in int // range, window
	count  float64
	read   int
}

// Expected charges, in RU: the figures of package ru with some room.
const (
	edgeRUs     = 2.9
	countRUs    = 3.1
	pageRUs     = 3.1
	firstRowRUs = 0.05
)

// learnRows is from how many documents the sample learns what one is charged.
const learnRows = 20

// mostWindows bounds how many times the sample looks at.
const mostWindows = 8

func (s *sampler) left() float64 { return s.cfg.MaxRUs - s.source.Charged() }

func (s *sampler) read(ctx context.Context) error {
	var err error
	if s.about, err = s.source.Describe(ctx); err != nil {
		return err
	}
	if s.ranges, err = s.source.Ranges(ctx); err != nil {
		return err
	}
	n := float64(len(s.ranges))
	// Each range is asked for its oldest and its newest document, for one count and for one page.
	least := s.source.Charged() + n*(2*edgeRUs+countRUs+pageRUs) + pageRUs
	if least > s.cfg.MaxRUs {
		return fmt.Errorf("container %s has %d physical partitions: to see each takes %.0f RU, and --max-rus allows %.0f",
			s.cfg.Container, len(s.ranges), least, s.cfg.MaxRUs)
	}
	s.say("binnacle xray: %d physical partitions. The sample is charged at most %.0f RU, and has spent %.1f; "+
		"nothing is written.\n", len(s.ranges), s.cfg.MaxRUs, s.source.Charged())
	if err := s.edges(ctx); err != nil {
		return err
	}
	if err := s.count(ctx); err != nil {
		return err
	}
	return s.fill(ctx)
}

func (s *sampler) say(format string, args ...any) {
	if s.cfg.Progress != nil {
		fmt.Fprintf(s.cfg.Progress, format, args...)
	}
}

// edges finds when documents were written, and cuts that time into as many windows as the budget allows.
func (s *sampler) edges(ctx context.Context) error {
	oldest, newest := int64(0), int64(0)
	for _, r := range s.ranges {
		for _, order := range []string{"", " ORDER BY c._ts DESC"} {
			q := cosmos.ForeignQuery{SQL: "SELECT TOP 1 c._ts FROM c" + order}
			err := s.ask(ctx, r, q, func(v *fastjson.Value) error {
				at := v.GetInt64("_ts")
				if oldest == 0 || at < oldest {
					oldest = at
				}
				newest = max(newest, at)
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	if newest == 0 {
		return fmt.Errorf("container %s of database %s has no documents", s.cfg.Container, s.cfg.Database)
	}
	// Half of the remaining budget is for windows, half for documents.
	n := int(s.left() / 2 / ((countRUs + pageRUs) * float64(len(s.ranges))))
	n = int(min(int64(max(1, min(n, mostWindows))), newest-oldest+1))
	for i := range n {
		span := newest - oldest + 1
		s.windows = append(s.windows, window{oldest + span*int64(i)/int64(n), oldest + span*int64(i+1)/int64(n)})
	}
	return nil
}

// count counts every cell's documents: from the index, which costs the same for few and for many.
func (s *sampler) count(ctx context.Context) error {
	s.counts = make([]float64, len(s.ranges))
	for i, r := range s.ranges {
		for j, w := range s.windows {
			q := cosmos.ForeignQuery{SQL: "SELECT VALUE COUNT(1) FROM c"}
			if len(s.windows) > 1 {
				q.SQL, q.Values = q.SQL+windowSQL, []any{w.from, w.to}
			}
			c := cell{of: i, in: j}
			err := s.ask(ctx, r, q, func(v *fastjson.Value) error { c.count = v.GetFloat64(); return nil })
			if err != nil {
				return err
			}
			s.counts[i] += c.count
			s.cells = append(s.cells, c)
		}
	}
	return nil
}

const windowSQL = " WHERE c._ts >= @p0 AND c._ts < @p1"

// fill reads documents of all cells in proportion to their counts, as many as the rest of the budget allows.
func (s *sampler) fill(ctx context.Context) error {
	s.perRow = firstRowRUs
	total, pages := 0.0, 0.0
	for _, c := range s.cells {
		total += c.count
		if c.count > 0 {
			pages++
		}
	}
	for i := range s.cells {
		c := &s.cells[i]
		if c.count == 0 {
			continue
		}
		if len(s.docs) == 0 { // learn what a document is charged: from few, which don't count
			if err := s.page(ctx, c, int(min(c.count, learnRows))); err != nil {
				return err
			}
			s.docs = nil
		}
		rus := max(0, s.left()-pages*pageRUs)
		pages--
		rows := int(min(c.count, max(1, rus*c.count/total/s.perRow)))
		total -= c.count
		if s.left() < pageRUs+s.perRow {
			continue // the count of the cell is known all the same
		}
		if err := s.page(ctx, c, rows); err != nil {
			return err
		}
	}
	if len(s.docs) == 0 {
		return errors.New("the budget allows no document: raise --max-rus")
	}
	return nil
}

func (s *sampler) page(ctx context.Context, c *cell, rows int) error {
	w, r := s.windows[c.in], s.ranges[c.of]
	began := s.source.Charged()
	from := len(s.docs)
	q := cosmos.ForeignQuery{SQL: fmt.Sprintf("SELECT TOP %d * FROM c", rows) + windowSQL, Values: []any{w.from, w.to}}
	err := s.ask(ctx, r, q, func(v *fastjson.Value) error {
		d := s.document(v)
		d.of, d.in = c.of, c.in
		s.docs = append(s.docs, d)
		return nil
	})
	c.read = len(s.docs) - from
	for i := from; i < len(s.docs); i++ {
		s.docs[i].weight = c.count / float64(c.read)
	}
	if err != nil {
		return err
	}
	if c.read > 0 {
		work := ru.QueryWork{Seeks: 2}
		rus := s.source.Charged() - began - s.cfg.Model.Query(work)
		s.perRow = max(0.9*s.perRow, rus/float64(c.read), 0.001)
		if from == 0 {
			s.perRow = max(rus/float64(c.read), 0.001)
		}
	}
	return nil
}

func (s *sampler) ask(ctx context.Context, r cosmos.PhysicalRange, q cosmos.ForeignQuery,
	yield func(v *fastjson.Value) error) error {
	if s.left() <= 0 {
		return fmt.Errorf("the account has charged %.0f RU of the %.0f that --max-rus allows before all was seen: raise it",
			s.source.Charged(), s.cfg.MaxRUs)
	}
	q.MaxRUs = s.left() - pageRUs
	return s.source.Query(ctx, r.ID, q, func(item []byte) error {
		v, err := s.parser.ParseBytes(item)
		if err != nil {
			return fmt.Errorf("a document of physical partition %s: %w", r.ID, err)
		}
		return yield(v)
	})
}

// span returns when the oldest and the newest document were written.
func (s *sampler) span() (from, to time.Time) {
	return time.Unix(s.windows[0].from, 0).UTC(), time.Unix(s.windows[len(s.windows)-1].to-1, 0).UTC()
}
