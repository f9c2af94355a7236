package bins

// storedCounts counts what becomes known to be stored, for heads (rule R8).
type storedCounts struct {
	Count uint64 // events by which something became known to be stored
	exact uint64 // the count from which on the tails of chains explain all of it
}

// Created counts a chunk that was created here: it has the rows that the head has shown.
func (s *storedCounts) Created(c *Chain) {
	s.Count++
	c.Stored = s.Count
}

// Unexplained counts an event that the tails of chains do not explain: a chunk was stored elsewhere, which the head
// may not have shown, or rows left the head otherwise than by a chunk that was created here.
func (s *storedCounts) Unexplained() {
	s.Count++
	s.exact = s.Count
}

// Read counts a chain's tail that was read in the store, unless it was known and has taken no rows along.
func (s *storedCounts) Read(c *Chain, before chainState) {
	if before == c.State() {
		return
	}
	s.Unexplained()
	c.Stored = s.Count
}

// forgotten counts that a chain is forgotten: its tail does not show any more.
func (s *storedCounts) forgotten(c *Chain) { s.exact = max(s.exact, c.Stored) }

// chainState is what reads of the store change of a chain.
type chainState struct {
	number    uint32
	lingering int
}

// State returns what reads of the store change of the chain.
func (c *Chain) State() chainState { return chainState{c.Number, len(c.Linger)} }
