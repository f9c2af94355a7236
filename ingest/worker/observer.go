package worker

import (
	"binnacle/ingest/decode"
	"binnacle/sharding"
)

// Observer is told what Workers do, to count it. Its methods return at once: some are called while a head waits. It is
// safe for any number of callers.
type Observer interface {
	Taken(readings int)                   // a record was taken, with so many readings that were not refused
	Replayed()                            // a reading was dropped because its chunk is stored already
	Refused(why decode.Reason)            // a record, or an element of one, is a dead letter
	Stored(why Reason, bytes, values int) // a chunk is stored
	LookedUp()                            // the tail of a chain was read from the store
	Conflict()                            // a create met a stored chunk, whose tail was adopted
	ChainForgotten()                      // what was known of an idle chain has made room
	KeyFull(key sharding.Key)             // a partition key takes no more: what is to go there waits
	Journaled(blocks, bytes int)          // blocks are in the journal
	ShelfFailed(err error)                // blocks stay in memory: the shelf did not take them
	Deferred()                            // a reading is over a rate: it waits in the log
	Resumed(readings int)                 // readings that had waited were taken
	JournalLost()                         // the journal has lost its end: what was there goes there again
}

// silent is an Observer that counts nothing.
type silent struct{}

// Taken is Observer.
func (silent) Taken(int) {}

// Replayed is Observer.
func (silent) Replayed() {}

// Refused is Observer.
func (silent) Refused(decode.Reason) {}

// Stored is Observer.
func (silent) Stored(Reason, int, int) {}

// LookedUp is Observer.
func (silent) LookedUp() {}

// Conflict is Observer.
func (silent) Conflict() {}

// ChainForgotten is Observer.
func (silent) ChainForgotten() {}

// KeyFull is Observer.
func (silent) KeyFull(sharding.Key) {}

// Journaled is Observer.
func (silent) Journaled(int, int) {}

// ShelfFailed is Observer.
func (silent) ShelfFailed(error) {}

// Deferred is Observer.
func (silent) Deferred() {}

// Resumed is Observer.
func (silent) Resumed(int) {}

// JournalLost is Observer.
func (silent) JournalLost() {}
