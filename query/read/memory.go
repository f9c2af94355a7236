package read

import (
	"sync"

	"binnacle/binning/chunk"
)

// pool counts what all queries of a process hold. It is safe for any number of callers.
type pool struct {
	limit int64

	mu   sync.Mutex // guards below
	used int64
}

func (p *pool) take(n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used+n > p.limit {
		return false
	}
	p.used += n
	return true
}

func (p *pool) give(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used -= n
}

// Memory counts the bytes that one query holds, of its own and of what all queries may hold together: pieces, and
// decoded columns that are being merged. It is safe for any number of callers.
type Memory struct {
	limit int64
	pool  *pool

	mu   sync.Mutex // guards below
	used int64
	peak int64
}

// Memory returns a counter of what a caller holds beside its queries, with a limit of its own. It must be closed.
func (r *Reader) Memory(limit int64) *Memory { return &Memory{limit: limit, pool: r.pool} }

// Take adds n bytes, or returns an error and adds none. A sink passes that error on.
func (m *Memory) Take(n int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used+n > m.limit {
		return ErrMemory
	}
	if !m.pool.take(n) {
		return ErrBusy
	}
	m.used += n
	m.peak = max(m.peak, m.used)
	return nil
}

// Give takes n bytes back.
func (m *Memory) Give(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= n
	m.pool.give(n)
}

// Peak returns the most bytes that were held.
func (m *Memory) Peak() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.peak
}

// Close gives back what is still held.
func (m *Memory) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pool.give(m.used)
	m.used = 0
}

// What things take beside their contents, in bytes, rounded up: slices and strings.
const (
	pieceBytes  = 256 // of a piece, in the lists and heaps that it is in
	headerBytes = 128 // of a group or a decoded column
	columnBytes = 256 // of a column that is not decoded: its statistics
	tailBytes   = 160 // of a chain's tail, in the map that it is in
)

// GroupBytes returns about how much memory a decoded group takes.
func GroupBytes(g *chunk.Group) int64 {
	n := int64(headerBytes + 8*len(g.Times))
	for i := range g.Columns {
		col := &g.Columns[i]
		n += headerBytes + 8*int64(len(col.Present)+len(col.Bits)) + 16*int64(len(col.Texts))
		for _, s := range col.Texts {
			n += int64(len(s))
		}
	}
	return n
}

func frameBytes(f chunk.Frame) int64 {
	n := int64(pieceBytes)
	for i := range f.Groups {
		n += GroupBytes(&f.Groups[i])
	}
	return n
}
