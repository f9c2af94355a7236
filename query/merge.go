package query

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// merger turns rows of many chunks and heads into the rows of the answer. Chunks wait undecoded until the answer comes to
// them. It is owned by one goroutine.
type merger struct {
	dir     direction
	within  telemetry.Range
	metrics []string
	wanted  metricSet
	budget  *budget
	emit    func(Row) error

	waiting waitingHeap // chunks by where their rows may begin
	open    cursorHeap  // cursors by their row
	cells   []cell
	values  []telemetry.Field
}

// waiting is a chunk that is not decoded yet. Either it is parsed already, or its document is kept, which takes less.
type waiting struct {
	pos    int64 // no row of it comes before
	device string
	id     chunk.ID
	source store.Source
	parsed *chunk.Chunk
	doc    []byte
	bytes  int64 // of the budget
}

// endPos is behind every row, in both directions.
const endPos = telemetry.MaxMillis + 1

// addChunk takes a chunk whose bytes the budget counts already. No row before it may have been emitted.
func (m *merger) addChunk(w waiting) { heap.Push(&m.waiting, w) }

// addFrame takes decoded rows that the budget does not count.
func (m *merger) addFrame(device string, source store.Source, f chunk.Frame) {
	for i := range f.Groups {
		if c := newCursor(device, source, &f.Groups[i], m.within, m.dir, m.wanted); c != nil {
			heap.Push(&m.open, c)
		}
	}
}

// drain emits all rows whose position is below bound. All chunks that may hold such rows must have been added.
func (m *merger) drain(bound int64) error {
	for {
		next := bound
		if len(m.open) > 0 {
			next = min(next, m.open[0].pos())
		}
		if len(m.waiting) > 0 && m.waiting[0].pos <= next && m.waiting[0].pos < bound {
			if err := m.decode(heap.Pop(&m.waiting).(waiting)); err != nil {
				return err
			}
			continue
		}
		if next >= bound {
			return nil
		}
		if err := m.emitRow(); err != nil {
			return err
		}
	}
}

// decode opens a chunk.
func (m *merger) decode(w waiting) error {
	defer m.budget.give(w.bytes)
	c := w.parsed
	if c == nil {
		var err error
		if c, err = chunk.Parse(w.doc); err != nil {
			return err
		}
	}
	f, err := c.Frame(m.metrics)
	if err != nil {
		return err
	}
	for i := range f.Groups {
		g := &f.Groups[i]
		c := newCursor(w.device, w.source, g, m.within, m.dir, m.wanted)
		if c == nil {
			continue
		}
		c.bytes = sizeOf(g)
		if err := m.budget.take(c.bytes); err != nil {
			return err
		}
		heap.Push(&m.open, c)
	}
	return nil
}

// emitRow emits the first row of the open cursors, with the values that all of them have for it.
func (m *merger) emitRow() error {
	first := m.open[0]
	row := Row{Device: first.device, Time: first.time(), Labels: first.group.Labels}
	m.cells = m.cells[:0]
	sources := 0
	for len(m.open) > 0 {
		c := m.open[0]
		if c.time() != row.Time || c.device != row.Device || c.group.Labels.Compare(row.Labels) != 0 {
			break
		}
		sources++
		m.cells = c.appendCells(m.cells)
		if c.advance() {
			heap.Fix(&m.open, 0)
			continue
		}
		heap.Pop(&m.open)
		m.budget.give(c.bytes)
	}
	if sources > 1 {
		m.cells = newest(m.cells)
	}
	m.values = m.values[:0]
	for i := range m.cells {
		m.values = append(m.values, m.cells[i].Field)
	}
	row.Values = m.values
	return m.emit(row)
}

// newest keeps of each metric the value of the highest source (rule R5), and sorts by metric.
func newest(cells []cell) []cell {
	slices.SortFunc(cells, func(a, b cell) int {
		return cmp.Or(strings.Compare(a.Metric, b.Metric), b.source.Compare(a.source))
	})
	return slices.CompactFunc(cells, func(a, b cell) bool { return a.Metric == b.Metric })
}

// cursorHeap has the cursor with the answer's next row on top.
type cursorHeap []*cursor

func (h cursorHeap) Len() int { return len(h) }
func (h cursorHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	if p, q := a.pos(), b.pos(); p != q {
		return p < q
	}
	c := strings.Compare(a.device, b.device)
	if c == 0 {
		c = a.group.Labels.Compare(b.group.Labels)
	}
	return c*int(a.dir) < 0
}
func (h cursorHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *cursorHeap) Push(x any)   { *h = append(*h, x.(*cursor)) }
func (h *cursorHeap) Pop() any {
	old := *h
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return c
}

// waitingHeap has the chunk that is needed first on top.
type waitingHeap []waiting

func (h waitingHeap) Len() int           { return len(h) }
func (h waitingHeap) Less(i, j int) bool { return h[i].pos < h[j].pos }
func (h waitingHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *waitingHeap) Push(x any)        { *h = append(*h, x.(waiting)) }
func (h *waitingHeap) Pop() any {
	old := *h
	w := old[len(old)-1]
	old[len(old)-1] = waiting{}
	*h = old[:len(old)-1]
	return w
}
