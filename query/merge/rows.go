package merge

import (
	"cmp"
	"container/heap"
	"strings"

	"binnacle/binning/chunk"
	"binnacle/ingest/queue"
	"binnacle/internal/telemetry"
	"binnacle/query/read/piece"
)

// Row is the values of one device, label set and instant. Rows come in the order of Time, then Device, then Labels.
type Row struct {
	Device string
	Time   int64 // ms since 1970 UTC
	Labels telemetry.Labels
	Values []telemetry.Field // sorted by metric, each once; not valid after emit returns
}

// Rows makes rows, in the order of time, of the pieces of an ordered request. Chunks stay encoded until the answer
// comes to them. It is owned by one goroutine.
type Rows struct {
	RowsConfig
	emit   func(Row) error
	wanted func(string) bool

	waiting queue.Heap[*pendingPiece] // by where their rows may begin
	open    cursorHeap                // cursors by their row
	cells   []cell
	values  []telemetry.Field

	count     int
	last      int64 // time of the last row
	truncated bool
}

// RowsConfig says which rows are made.
type RowsConfig struct {
	Config
	Order piece.Order
	Limit int  // the first ones in the order; 0: all
	After *Row // rows up to and including this one are left out; nil: none
}

// NewRows makes rows and calls emit with each. An error of emit is returned as it is.
func NewRows(cfg RowsConfig, emit func(Row) error) *Rows {
	return &Rows{RowsConfig: cfg, emit: emit, wanted: chunk.Wanted(cfg.Metrics), waiting: queue.NewHeap(
		func(p *pendingPiece) *int32 { return &p.place }, func(p *pendingPiece) int64 { return p.pos })}
}

// behind reports whether a row comes behind the one that the answer begins after.
func (m *Rows) behind(row *Row) bool {
	if m.After == nil {
		return true
	}
	order := cmp.Or(cmp.Compare(row.Time, m.After.Time), strings.Compare(row.Device, m.After.Device),
		row.Labels.Compare(m.After.Labels))
	return order*int(m.Order) > 0
}

// Count returns how many rows were emitted.
func (m *Rows) Count() int { return m.count }

// Truncated reports whether there are more rows than the limit.
func (m *Rows) Truncated() bool { return m.truncated }

// pendingPiece is a piece that is not decoded yet.
type pendingPiece struct {
	pos int64 // no row of it comes before
	*piece.Piece
	place int32 // in waiting
}

// Add implements piece.Sink.
func (m *Rows) Add(p *piece.Piece) error {
	pos := m.Order.At(p.From)
	if m.Order == piece.Descending {
		pos = m.Order.At(p.To)
	}
	m.waiting.Put(&pendingPiece{pos: pos, Piece: p})
	return nil
}

// Passed implements piece.Sink: it emits all rows before a position.
func (m *Rows) Passed(bound int64) error {
	for {
		next := bound
		if len(m.open) > 0 {
			next = min(next, m.open[0].pos())
		}
		if m.waiting.Len() > 0 && m.waiting.First().pos <= next && m.waiting.First().pos < bound {
			first := m.waiting.First()
			m.waiting.Remove(first)
			if err := m.decode(first.Piece); err != nil {
				return err
			}
			continue
		}
		if next >= bound {
			return nil
		}
		if err := m.next(); err != nil {
			return err
		}
	}
}

func (m *Rows) decode(p *piece.Piece) error {
	f, _, err := m.Config.decode(p)
	if err != nil {
		return err
	}
	for i := range f.Groups {
		g := &f.Groups[i]
		c := m.newCursor(p, g, i)
		if c == nil {
			m.Memory.Give(piece.GroupBytes(g))
			continue
		}
		c.bytes = piece.GroupBytes(g)
		heap.Push(&m.open, c)
	}
	return nil
}

// next emits the first row of the open cursors, with the values that all of them have for it.
func (m *Rows) next() error {
	first := m.open[0]
	row := Row{Device: first.device, Time: first.time(), Labels: first.group.Labels}
	wanted := m.behind(&row)
	if wanted && m.Limit > 0 && m.count == m.Limit {
		m.truncated = true
		return &piece.Stop{At: m.last}
	}
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
		m.Memory.Give(c.bytes)
	}
	if !wanted {
		return nil
	}
	if sources > 1 {
		m.cells = newest(m.cells)
	}
	m.values = m.values[:0]
	for i := range m.cells {
		m.values = append(m.values, m.cells[i].Field)
	}
	row.Values = m.values
	m.count, m.last = m.count+1, row.Time
	return m.emit(row)
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
