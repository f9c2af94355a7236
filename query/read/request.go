package read

import (
	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// Request asks for the pieces that may hold rows of one tenant.
type Request struct {
	Tenant  string
	Devices []string // in order, each once; nil: all
	Metrics []string // in order, each once; nil: all
	Range   telemetry.Range
	Order   Order
	Early   bool  // the sink may stop early: little is read at first. For ordered requests.
	Strict  bool  // wait for the log end at the query's start
	Samples int64 // values that may be decoded; 0: no bound

	// Continue is called after each request to the store, by any goroutine; an error of it ends the query and is returned
	// as it is. Nil for none.
	Continue func() error

	// AsOf asks for what was stored by a moment, ms since 1970 UTC: the chunks that were cut by then, and no heads. 0
	// asks for the present.
	AsOf int64

	// Since is an earlier moment that the answer is about, too: Incomplete names days that may have expired since. 0 for
	// none.
	Since int64

	// Clips says that the sink leaves out rows of heads outside the range, as it does for those of chunks.
	Clips bool

	// Narrow is called once, with what is read, and returns the first instant that is needed: what is before may be left
	// out. It gets nil if what is read is not known. Nil for the whole range.
	Narrow func(*Basis) int64
	// Kept is what an earlier answer to the same question was made of. Where the store has nothing new since, Narrow is
	// called before the store is read.
	Kept *Basis

	// Rollups is what rollups may answer; nil for nothing. It is for unordered requests into a RollupSink.
	Rollups *RollupsRequest
}

// Order is the order of time in which a sink gets pieces. It turns event times into positions, which ascend in that
// order.
type Order int64

// The orders. Without one the pieces come as they are read, all before Run returns, and Passed is not called.
const (
	Unordered  Order = 0
	Ascending  Order = 1
	Descending Order = -1
)

// At returns the position of an instant. Earlier in the order is lower.
func (o Order) At(time int64) int64 { return time * int64(o) }

// EndPosition is behind every row, in both orders.
const EndPosition = telemetry.MaxMillis + 1

// begin returns the lowest position of a row of r, end the first position behind all of them.
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
// it, and calls Release when it no longer holds it.
type Piece struct {
	Device string
	Source store.Source
	// From and To are the first and last instant of its rows, both inclusive. A chunk may have rows outside the request's
	// range, and metrics that were not asked for; a head's rows have neither.
	From, To int64
	Chunk    *chunk.Chunk // nil for a head
	Frame    chunk.Frame  // of a head; it must not be changed

	// Except is the instants that rollups cover of the device: rows in it do not count.
	Except telemetry.Range

	query  *Query
	memory *Memory
	bytes  int64
	cached *cachedChunk // a chunk that other queries may see too; nil for one that only this query has read
}

// Rows returns the piece's rows, of a chunk those of the metrics that were asked for, decoded. They must not be
// changed. It fails also when the query has decoded as many values as it may.
func (p *Piece) Rows() (f chunk.Frame, err error) {
	switch {
	case p.Chunk == nil:
		f = p.Frame
	case p.cached != nil:
		f, err = p.cached.decode()
	default:
		f, err = p.Chunk.Frame(nil)
	}
	most := p.query.req.Samples
	if err == nil && most > 0 && p.query.samples.Add(int64(f.Values())) > most {
		err = errSamples
	}
	return f, err
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
	// Passed means that every row before a position is in a piece that was added.
	Passed(position int64) error
}

// Stop is the error of a sink that has enough. It ends the read, and is no error of the query: what was read is held
// against rule R4 up to At, the time of the last row that counts.
type Stop struct{ At int64 }

// Error returns that the sink has enough.
func (*Stop) Error() string { return "the answer has all that was asked for" }

// Stats is what was read, and what it cost.
type Stats struct {
	RequestUnits  float64 // charged for scans, all attempts together
	Documents     int     // chunks read
	Cached        int     // chunks that were read before, or by another query at the same time
	Rollups       int     // rollup documents and manifests read
	RollupsCached int     // rollup documents that were read before
	RollupsSaved  float64 // request units that chunks in their place would have cost, by earlier reads
	Keys          int     // partition keys and prefixes of them that were scanned
	Containers    int     // that these keys lie in
	HeadRows      int     // rows that came from memory, before merging
	Reread        int     // devices and days that were read again because chunks were missing (rule R4)
}

// Plus returns what two reads have cost. Containers are those of the read that had more: both may have asked the same.
func (s Stats) Plus(t Stats) Stats {
	return Stats{
		RequestUnits: s.RequestUnits + t.RequestUnits, Documents: s.Documents + t.Documents, Cached: s.Cached + t.Cached,
		Rollups: s.Rollups + t.Rollups, RollupsCached: s.RollupsCached + t.RollupsCached,
		RollupsSaved: s.RollupsSaved + t.RollupsSaved, Keys: s.Keys + t.Keys,
		Containers: max(s.Containers, t.Containers), HeadRows: s.HeadRows + t.HeadRows, Reread: s.Reread + t.Reread,
	}
}
