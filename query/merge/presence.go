package merge

import (
	"slices"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/query/read/piece"
)

// Presence collects the instants of readings. Of a chunk it decodes nothing else. It is owned by one goroutine.
type Presence struct {
	unordered
	cfg Config
	all []Present
}

// Present is one piece, without its values.
type Present struct {
	Device string
	Source store.Source
	Times  []int64       // instants of the rows, strictly ascending
	Header *chunk.Header // nil for what a head holds
}

// NewPresence collects until All is called.
func NewPresence(cfg Config) *Presence { return &Presence{cfg: cfg} }

// Add implements piece.Sink.
func (s *Presence) Add(p *piece.Piece) error {
	defer p.Release()
	out := Present{Device: p.Device, Source: p.Source}
	if p.Chunk == nil {
		out.Times = p.Frame.Times()
	} else {
		var err error
		if out.Times, err = p.Chunk.Times(); err != nil {
			return err
		}
		h := p.Chunk.Header
		out.Header = &h
	}
	s.all = append(s.all, out)
	return s.cfg.Memory.Take(int64(len(out.Times)) * 8)
}

// All returns what was collected, the older source first.
func (s *Presence) All() []Present {
	slices.SortStableFunc(s.all, func(a, b Present) int { return a.Source.Compare(b.Source) })
	return s.all
}
