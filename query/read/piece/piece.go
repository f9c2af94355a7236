// Package piece has what a query asks for, the pieces that it hands on, and the account of what it holds and costs.
//
// It must not know where pieces come from: packages heads, chunks and rollups read them.
package piece

import (
	"errors"
	"slices"

	"binnacle/binning/chunk"
	"binnacle/binning/rollup"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// Piece is some rows of one device and day: a stored chunk, parsed and not decoded, or rows of a head. The sink owns
// it, and calls Release when it no longer holds it.
type Piece struct {
	Device string
	Source store.Source
	// From and To are the first and last instant of its rows, both inclusive. A chunk may have rows outside the request's
	// range, and metrics that were not asked for; a head's rows have neither.
	From, To int64
	Chunk    *chunk.Chunk // nil for a head
	Frame    chunk.Frame  // a head's rows, which must not be changed

	// Except is the instants that rollups cover of the device: rows in it do not count.
	Except telemetry.Range

	account *Account
	bytes   int64
	shared  Decoder // nil for a chunk that only this query has read
}

// OfRows returns rows of a head as a piece that takes memory of the account.
func (a *Account) OfRows(p Piece) (*Piece, error) {
	p.account, p.bytes = a, FrameBytes(p.Frame)
	return &p, a.Memory.Take(p.bytes)
}

// Decoder decodes a chunk that several queries may have at the same time.
type Decoder interface {
	// Decode returns the chunk's rows, which must not be changed.
	Decode() (chunk.Frame, error)
}

// OfChunk returns a chunk as a piece that takes memory of the account. A decoder that is not nil decodes it.
func (a *Account) OfChunk(c *chunk.Chunk, shared Decoder) (*Piece, error) {
	h := &c.Header
	p := &Piece{
		Device: h.Device, Source: store.Source{Stream: h.ID.Stream, Partition: h.ID.Partition, Through: h.Through},
		From: h.From, To: h.To, Chunk: c, account: a, bytes: ChunkBytes(c), shared: shared,
	}
	return p, a.Memory.Take(p.bytes)
}

// Rows returns the piece's rows, decoded, without metrics that were not asked for. They must not be
// changed. It fails also when the query has decoded as many values as it may.
func (p *Piece) Rows() (f chunk.Frame, err error) {
	switch {
	case p.Chunk == nil:
		f = p.Frame
	case p.shared != nil:
		f, err = p.shared.Decode()
	default:
		f, err = p.Chunk.Frame(nil)
	}
	if err != nil {
		return f, err
	}
	return f, p.account.decoded(f.Values())
}

// Release gives the piece's memory back to the query.
func (p *Piece) Release() {
	p.account.Memory.Give(p.bytes)
	p.bytes = 0
}

// ReleaseAll gives the memory of pieces back.
func ReleaseAll(pieces []*Piece) {
	for _, p := range pieces {
		p.Release()
	}
}

// CutBy reports whether a piece is a chunk that was cut by a moment, in ms since 1970 UTC.
func (p *Piece) CutBy(at int64) bool { return p.Chunk != nil && p.Chunk.Header.Cut <= at }

// Sink takes the pieces of a query, one call at a time.
type Sink interface {
	// Add takes a piece. Pieces of heads come first.
	Add(p *Piece) error
	// Passed means that every row before a position is in a piece that was added.
	Passed(position int64) error
}

// Stop is the error of a sink that has enough. It ends the read, and is no error of the query: chunks are held
// against rule R4 up to At, the time of the last row that counts.
type Stop struct{ At int64 }

// Error returns that the sink has enough.
func (*Stop) Error() string { return "the answer has all that was asked for" }

// Ended returns the error of a read, nil for a *Stop.
func Ended(err error) error {
	if _, ok := errors.AsType[*Stop](err); ok {
		return nil
	}
	return err
}

// Request asks for the pieces that may hold rows of one tenant.
type Request struct {
	Tenant  string
	Devices []string // sorted, each once; nil: all
	Metrics []string // sorted, each once; nil: all
	Range   telemetry.Range
	Order   Order
	Early   bool  // the sink may stop early: little is read at first. For ordered requests.
	Strict  bool  // wait for the log end at the query's start
	Samples int64 // values that may be decoded; 0: no bound

	// Continue is called after each request to the store, by any goroutine; an error of it ends the query and is returned
	// as it is. Nil for none.
	Continue func() error

	// AsOf asks for the state of a moment, ms since 1970 UTC: the chunks that were cut by then, and no heads. 0
	// asks for the present.
	AsOf int64

	// Since is an earlier moment that the answer is about, too: the answer names days that may have expired since. 0 for
	// none.
	Since int64

	// Clips says that the sink leaves out rows of heads outside the range, as it does for rows of chunks.
	Clips bool

	// Rollups is what rollups may answer; nil for nothing. It is for unordered requests into a sink of rollups.
	Rollups *RollupsRequest
}

// RollupsRequest names what rollups may answer instead of samples: the metrics of the request, on a grid.
type RollupsRequest struct {
	Metrics []string
	Grid    rollup.Grid
	Columns rollup.Columns
}

// FewDevices is the most devices that are always read from their chunks: a day's rollups of one metric cost about as
// much as a day's chunks of sixteen devices.
const FewDevices = 16

// AsksManyDevices reports whether the request is about all devices, or more than a few.
func (r *Request) AsksManyDevices() bool { return r.Devices == nil || len(r.Devices) > FewDevices }

// Asks reports whether the request asks for a device.
func (r *Request) Asks(device string) bool {
	if r.Devices == nil {
		return true
	}
	_, found := slices.BinarySearch(r.Devices, device)
	return found
}

// Days returns the first and the last day of the request.
func (r *Request) Days() (first, last telemetry.Day) {
	return telemetry.DayOf(r.Range.From), telemetry.DayOf(r.Range.To - 1)
}

// Within returns the part of a range that lies in another one.
func Within(r, other telemetry.Range) telemetry.Range {
	return telemetry.Range{From: max(r.From, other.From), To: min(r.To, other.To)}
}

// Order is the order of time in which a sink gets pieces. It turns event times into positions, which ascend in that
// order.
type Order int64

// The orders. Without one the pieces come as they are read, all before a query ends, and Passed is not called.
const (
	Unordered  Order = 0
	Ascending  Order = 1
	Descending Order = -1
)

// EndPosition is behind every row, in both orders.
const EndPosition = telemetry.MaxMillis + 1

// At returns the position of an instant. Earlier in the order is lower.
func (o Order) At(time int64) int64 { return time * int64(o) }

// Begin returns the lowest position of a row of r.
func (o Order) Begin(r telemetry.Range) int64 {
	if o == Descending {
		return o.At(r.To - 1)
	}
	return o.At(r.From)
}

// End returns the first position behind all rows of r.
func (o Order) End(r telemetry.Range) int64 {
	if o == Descending {
		return o.At(r.From - 1)
	}
	return o.At(r.To)
}

// Until returns the part of r up to and including the rows of an instant.
func (o Order) Until(r telemetry.Range, at int64) telemetry.Range {
	if o == Descending {
		return telemetry.Range{From: max(r.From, at), To: r.To}
	}
	return telemetry.Range{From: r.From, To: min(r.To, at+1)}
}

// Cut returns the first days of r in the order, and the rest. It cuts at midnights: no chunk is in two parts.
func (o Order) Cut(r telemetry.Range, days int) (first, rest telemetry.Range) {
	if o == Descending {
		at := max(r.From, (telemetry.DayOf(r.To-1) + 1 - telemetry.Day(days)).Start())
		return telemetry.Range{From: at, To: r.To}, telemetry.Range{From: r.From, To: at}
	}
	at := min(r.To, (telemetry.DayOf(r.From) + telemetry.Day(days)).Start())
	return telemetry.Range{From: r.From, To: at}, telemetry.Range{From: at, To: r.To}
}
