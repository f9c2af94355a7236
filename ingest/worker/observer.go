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
	Forgot()                              // what was known of an idle chain has made room
	KeyFull(key sharding.Key)             // a partition key takes no more: what is to go there waits
}

// silent is an Observer that counts nothing.
type silent struct{}

// The methods are those of Observer.

func (silent) Taken(int)               {}
func (silent) Replayed()               {}
func (silent) Refused(decode.Reason)   {}
func (silent) Stored(Reason, int, int) {}
func (silent) LookedUp()               {}
func (silent) Conflict()               {}
func (silent) Forgot()                 {}
func (silent) KeyFull(sharding.Key)    {}
