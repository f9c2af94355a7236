package read

import (
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// DefaultTimeout is how long a strict query waits for the heads to reach the log's end.
const DefaultTimeout = 10 * time.Second

// Request asks for the pieces that may hold rows of one tenant.
type Request struct {
	Tenant  string
	Devices []string // in order, each once; nil: all
	Metrics []string // in order, each once; nil: all
	Range   telemetry.Range
	Order   Order
	Early   bool          // the sink may stop early: little is read at first. For ordered requests.
	Strict  bool          // wait for the log end at the query's start
	Timeout time.Duration // of that wait, 0: DefaultTimeout
}

// Order is in which order of time a sink is told of pieces. It turns event times into positions, which ascend in that
// order.
type Order int64

// The orders. Without one the pieces come as they are read, all before Run returns, and Passed is not called.
const (
	Unordered  Order = 0
	Ascending  Order = 1
	Descending Order = -1
)

// At is the position of an instant. Whatever comes earlier in the order has a lower one.
func (o Order) At(time int64) int64 { return time * int64(o) }

// EndPosition is behind every row, in both orders.
const EndPosition = telemetry.MaxMillis + 1

// begin is the position that no row of r comes before, end the one that all of them come before.
func (o Order) begin(r telemetry.Range) int64 {
	if o == Descending {
		return o.At(r.To - 1)
	}
	return o.At(r.From)
}

func (o Order) end(r telemetry.Range) int64 {
	if o == Descending {
		return o.At(r.From - 1)
	}
	return o.At(r.To)
}

// Piece is some rows of one device and day: a stored chunk, parsed and not decoded, or rows of a head. The sink owns
// it, and must call Release when it does not hold it any more.
type Piece struct {
	Device string
	Source store.Source
	// From and To are the first and last instant of its rows, both inclusive. A chunk may have rows outside the
	// request's range, and metrics that were not asked for; a head's rows have neither.
	From, To int64
	Chunk    *chunk.Chunk // nil for a head
	Frame    chunk.Frame  // of a head; it must not be changed

	memory *Memory
	bytes  int64
}

// Release gives the piece's memory back to the query.
func (p *Piece) Release() {
	p.memory.Give(p.bytes)
	p.bytes = 0
}

// Sink takes the pieces of a query, one call at a time.
type Sink interface {
	// Add takes a piece. Pieces of heads come first.
	Add(p *Piece) error
	// Passed says that every row before a position is in a piece that was added.
	Passed(position int64) error
}

// Stop is what a sink returns when it has enough. It ends the read, and is no error of the query: what was read is held
// against rule R4 up to At, the time of the last row that counts.
type Stop struct{ At int64 }

// Error says that it is none.
func (*Stop) Error() string { return "the answer has all that was asked for" }

// Stats is what was read, and what it cost.
type Stats struct {
	RequestUnits float64 // charged for scans of chunks, all attempts together
	Documents    int     // chunks read
	Keys         int     // partition keys and prefixes of them that were scanned
	Containers   int     // that these keys lie in
	HeadRows     int     // rows that came from memory, before merging
	Reread       int     // devices and days that were read again because chunks were missing (rule R4)
}
