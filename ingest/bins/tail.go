package bins

import "binnacle/internal/store"

// tail is the chunks of a chain that are known to be stored.
type tail struct {
	Number uint32 // the next chunk's
	every  int32  // ms between two readings of the last chunk that was stored; 0 where that is not known
	Tail   int64  // through of the last one, -1 none
	span   Span   // event times of the last chunk
	Stored uint64 // the worker's count when the last one became known
}

// Span is the first and last instant of a chunk, both inclusive.
type Span struct{ From, To int64 }

// adopt adopts a tail read from the store, unless a later one is known: a lookup may miss the newest chunks.
func (t *tail) adopt(stored store.Tail) {
	if stored.Number >= t.Number {
		t.Number, t.Tail, t.span = stored.Number+1, stored.Through, Span{stored.From, stored.To}
	}
}

// last returns the last chunk; there must be one.
func (t *tail) last() store.Tail {
	return store.Tail{Number: t.Number - 1, Through: t.Tail, From: t.span.From, To: t.span.To}
}
