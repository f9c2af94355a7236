package write

import (
	"binnacle/ingest/bins"
	"binnacle/ingest/decode"
	"binnacle/sharding"
)

// Observer counts what Workers do. Its methods return at once: some are called while a head read waits. It is safe for
// any number of callers.
type Observer interface {
	Taken(readings int)                        // a record was taken, with that number of readings not refused
	Replayed(readings int)                     // readings were dropped because their chunks are stored already
	Refused(why decode.Reason, n int)          // a record, or n elements of one, are refused
	Stored(why bins.Reason, bytes, values int) // a chunk is stored
	LookedUp()                                 // the tail of a chain was read from the store
	Conflict()                                 // a create met a stored chunk, and its tail was adopted
	ChainForgotten()                           // an idle chain was forgotten to make room
	KeyFull(key sharding.Key)                  // a partition key takes no more: chunks with that key wait
	ShelfFailed(err error)                     // blocks stay in memory: the shelf did not take them
	Deferred(readings int)                     // readings are over a rate: they stay in the log
	Resumed(readings int)                      // deferred readings were taken
	JournalLost()                              // the journal has lost its end: the rows there are appended again
}
