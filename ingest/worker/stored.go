package worker

// storedCounts counts what becomes known to be stored, for heads (rule R8).
type storedCounts struct {
	count uint64 // of what became known
	exact uint64 // the count from which on the tails of chains explain all of it
}

// created counts a chunk that was created here: it has the rows that the head has shown.
func (s *storedCounts) created(c *chain) {
	s.count++
	c.stored = s.count
}

// unexplained counts what was stored elsewhere, which the head may not have shown, or that rows left it otherwise than
// by a chunk that was created here.
func (s *storedCounts) unexplained() {
	s.count++
	s.exact = s.count
}

// read counts what was read of a chain in the store, unless it was known and has taken no rows along.
func (s *storedCounts) read(c *chain, before chainState) {
	if before == c.state() {
		return
	}
	s.unexplained()
	c.stored = s.count
}

// forgotten counts that a chain is forgotten: its tail does not show any more.
func (s *storedCounts) forgotten(c *chain) { s.exact = max(s.exact, c.stored) }

// chainState is what reads of the store change of a chain.
type chainState struct {
	number    uint32
	lingering int
}

func (c *chain) state() chainState { return chainState{c.number, len(c.linger)} }
