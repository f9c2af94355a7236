package merge

import (
	"container/heap"
	"slices"
	"sync/atomic"

	"binnacle/binning/rollup"
	"binnacle/internal/telemetry"
	"binnacle/query/read/rollups"

	"golang.org/x/sync/errgroup"
)

// RollupRow is some hours of a family of buckets of one series: a row of a table. It is shared: it must not be changed.
type RollupRow struct {
	Day   telemetry.Day
	Grid  rollup.Grid
	Hours rollup.Hours // hours to use
	*rollups.Document
	Table *rollup.Table // the document's
	Row   int           // index of the row in the table
}

type labelledRow struct {
	labels telemetry.Labels
	RollupRow
}

// AddRollups implements rollups.Sink.
func (s *Series) AddRollups(l *rollups.Rollups) error {
	for i := range l.Parts {
		if p := (&partReader{Part: &l.Parts[i], of: l}); len(p.Series) > 0 {
			s.parts = append(s.parts, p)
		}
	}
	return nil
}

// partReader goes through the devices of a part of rollups. Its documents are decoded for the first device that needs
// them, and released behind the last one.
type partReader struct {
	*rollups.Part
	of     *rollups.Rollups
	place  int             // the first series of the next device
	tables []*rollup.Table // by document, nil for those before the range; nil before they are decoded
	bytes  atomic.Int64    // of tables
}

func (p *partReader) device() string { return p.Series[p.place].Device }

// partHeap is a heap by the next device.
type partHeap []*partReader

func (h partHeap) Len() int           { return len(h) }
func (h partHeap) Less(i, j int) bool { return h[i].device() < h[j].device() }
func (h partHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *partHeap) Push(p any)        { *h = append(*h, p.(*partReader)) }

func (h *partHeap) Pop() any {
	*h = (*h)[:len(*h)-1]
	return nil // nobody asks
}

// decode decodes the documents of a part that may have something that is not before the range.
func (s *Series) decode(p *partReader) error {
	var all errgroup.Group
	p.tables = make([]*rollup.Table, len(p.Documents))
	for i, d := range p.Documents {
		if rollup.Range(p.of.Day, d.From, d.To).To < s.cfg.Range.From {
			continue
		}
		all.Go(func() error {
			t, bytes, err := d.Decode(p.of.Columns, s.cfg.Memory)
			p.tables[i] = t
			p.bytes.Add(bytes)
			return err
		})
	}
	return all.Wait()
}

// take appends the rows of the first part's next device, and goes on to the one after it.
func (s *Series) take(rows []labelledRow) ([]labelledRow, error) {
	p := s.parts[0]
	device := p.device()
	hours := p.Counts(device)
	skipped := hours == 0 || p.of.Raw[device] || !s.wanted(device)
	if !skipped && p.tables == nil {
		if err := s.decode(p); err != nil {
			return rows, err
		}
	}
	for ; p.place < len(p.Series) && p.device() == device; p.place++ {
		if skipped {
			continue
		}
		for i, d := range p.Documents {
			of := hours & rollup.Span(d.From, d.To)
			if of != 0 && p.tables[i] != nil && p.place < len(d.Rows) && d.Rows[p.place] >= 0 {
				rows = append(rows, labelledRow{p.Series[p.place].Labels,
					RollupRow{p.of.Day, p.of.Grid, of, d, p.tables[i], int(d.Rows[p.place])}})
			}
		}
	}
	if p.place < len(p.Series) {
		heap.Fix(&s.parts, 0)
	} else {
		heap.Pop(&s.parts)
		s.cfg.Memory.Give(p.bytes.Load())
	}
	return rows, nil
}

// join returns the curves of a device with their rollups, and with curves that have nothing else.
func join(curves []Curve, device string, rows []labelledRow) []Curve {
	values, at := len(curves), 0 // the curve of the row before: rows come series by series, part after part
	for _, c := range rows {
		is := func(of Curve) bool { return of.Metric == c.Metric && of.Labels.Compare(c.labels) == 0 }
		if n := slices.IndexFunc(curves[at:], is); n >= 0 {
			at += n
		} else if at = slices.IndexFunc(curves, is); at < 0 {
			at = len(curves)
			curves = append(curves, Curve{Device: device, Labels: c.labels, Metric: c.Metric})
		}
		curves[at].Rollups = append(curves[at].Rollups, c.RollupRow)
	}
	if len(curves) > values {
		slices.SortFunc(curves, Curve.compare)
	}
	return curves
}
