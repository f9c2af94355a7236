// Package store is the contract between the services and what keeps chunks: how a chunk is written,
// how chunks are read, what the errors mean, and what the head of an ingester answers.
//
// It has no implementation. Package storetest has the conformance suite that every implementation runs. It knows
// neither Cosmos DB nor Kafka.
package store

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// Receipt is what one operation cost.
type Receipt struct {
	RUs       float64 // request units charged, all attempts together
	Throttled int     // answers 429 on the way
}

// Chain names a sequence of chunks: the chunks of one device and day that came from one partition of one stream. The
// device is part of the Key that goes with it.
type Chain struct {
	Day       telemetry.Day
	Stream    uint32
	Partition int32
}

// Tail is the last chunk of a chain: its number, the offset of the last record in it, and its first and last instant,
// both inclusive, ms since 1970 UTC.
type Tail struct {
	Number   uint32
	Through  int64
	From, To int64
	// Erased chunks have no rows, and From and To mean nothing.
	Erased bool
}

// Writer keeps chunks. It is safe for any number of callers. An operation that is throttled is tried again inside for a
// moment, and then fails with a *BusyError; what other errors mean is said in errors.go.
type Writer interface {
	// Create stores a document that must not exist. It is durable when Create returns nil. It is idempotent by key and
	// id: a second Create fails with an *ExistsError whatever the document. It fails with ErrNoContainer when the key's
	// container is missing, ErrKeyFull when the key takes no more, ErrTooLarge or ErrRejected when the document is
	// never taken, or an error of unknown outcome.
	Create(ctx context.Context, key sharding.Key, id string, doc []byte) (Receipt, error)

	// Read returns the document as it was created; the store may add properties. With the Session of an ExistsError it
	// does not answer ErrNotFound for that document, except for a while on a lagging replica: the caller asks again.
	Read(ctx context.Context, key sharding.Key, id string, session string) ([]byte, Receipt, error)

	// Last returns the chunk of the chain with the highest number under this key. Any consistency will do: the answer
	// may lag. It fails with ErrNotFound when the chain has no chunk, ErrNoContainer when there is no container.
	Last(ctx context.Context, key sharding.Key, chain Chain) (Tail, Receipt, error)
}

// Deleter deletes chunks: only the sweep of hidden days does (rule X3). It is safe for any number of callers.
type Deleter interface {
	// DeleteChunk removes a document. No error if it, or its container, is gone.
	DeleteChunk(ctx context.Context, key sharding.Key, id string) (Receipt, error)
}

// Chunks is where chunks are read, created and replaced.
type Chunks interface {
	Reader
	Writer
	Replacer
}

// Replacer replaces chunks: only the sweep of an order of erasure does (rule E-R7), and a copy at its target (rules T3
// and T4). It is safe for any number of callers.
type Replacer interface {
	// ReplaceChunk stores a document in place of this version, and fails with ErrChanged when there is another one or
	// none.
	ReplaceChunk(ctx context.Context, old Version, doc []byte) (Receipt, error)
}

// Version is a chunk as it was read.
type Version struct {
	Key      sharding.Key
	ID, ETag string
}

// Scan asks for the chunks of one key with rows that may lie in Range, that is from < Range.To and to >= Range.From.
// With an empty Key.Device it asks for Devices under the first-level key, or for all there if Devices is nil.
type Scan struct {
	Key     sharding.Key
	Devices []string // only without Key.Device, at most MaxScanDevices
	Range   telemetry.Range
	// Descending orders by from, the newest first, instead of the oldest. Without Key.Device there is no order.
	Descending bool

	// Since leaves out documents that were stored before a second since 1970 UTC, by the store's clock; 0 leaves out
	// nothing.
	Since int64
	// Before leaves out documents that were stored at that second or later; 0 leaves out nothing.
	Before int64

	// Windows take the place of Range and Since where there are any, at most MaxScanWindows: asked for is what one of
	// them asks for, once.
	Windows []Window

	// Charge gets the cost of each request before its documents are yielded; by default it is not called. An error of
	// Charge ends the scan and is returned as it is.
	Charge func(rus float64) error
}

// Window is a range of a Scan, for documents that were stored since a time.
type Window struct {
	telemetry.Range
	Since int64
}

// AllWindows returns the windows of a scan, also when it has but a Range.
func (s Scan) AllWindows() []Window {
	if len(s.Windows) > 0 {
		return s.Windows
	}
	return []Window{{s.Range, s.Since}}
}

// What one scan may name, devices and windows: a query's text is bounded.
const (
	MaxScanDevices = 256
	MaxScanWindows = 64
)

// Usage is what a scan cost so far.
type Usage struct {
	Receipt
	Documents int
	// Date is the service's clock when it answered the scan's first request, to a second; zero if it has answered none. A
	// document that the scan could not see has no lower _ts, but for what clocks of the service differ and replicas lag.
	Date time.Time
}

// Reader reads chunks. It is safe for any number of callers.
type Reader interface {
	// Scan calls yield with each document in turn; the bytes are yield's until it returns. An error of yield ends the
	// scan and is returned as it is. It fails with ErrNoContainer when the container is missing: at once, or, when it
	// is dropped during the scan, after some documents were yielded; a scan that returns nil has yielded all there
	// were. The Usage is right also when an error is returned.
	Scan(ctx context.Context, s Scan, yield func(doc []byte) error) (Usage, error)
}

// HeaderScan asks for the headers of all chunks of a container, under whatever keys: by their ids they are of a day, or
// they have rows on it. A scan by keys would find only what lies where it belongs.
type HeaderScan struct {
	Container string
	Day       telemetry.Day
	Tenant    string // "" is all
	Device    string // "" is all
	Whole     bool   // documents as they are stored, instead of their headers

	// Charge gets the cost of each request before its headers are yielded; by default it is not called. An error of
	// Charge ends the scan and is returned as it is.
	Charge func(rus float64) error
}

// HeaderReader reads chunks without their columns. It is safe for any number of callers.
type HeaderReader interface {
	// Headers calls yield with each header in turn, in no order: a JSON object of those HeaderProperties that the
	// document has, as it has them. Nothing of it is checked, and its bytes are yield's until it returns. Errors are
	// the errors of Reader.Scan.
	Headers(ctx context.Context, s HeaderScan, yield func(header []byte) error) (Usage, error)
}

// HeaderProperties returns the properties of a chunk document that make its header.
func HeaderProperties() []string {
	return []string{"id", "v", "type", "tenantShard", "device", "from", "to", "rows", "readings", "first", "through",
		"after"}
}

// StoredChunk is what a chunk says of itself, as a Reader returns it, without its rows.
type StoredChunk struct {
	chunk.Header
	Key    sharding.Key // without the container
	ETag   string
	Stored int64 // s since 1970 UTC, by the service's clock
	Erased []chunk.Erased
}

// ParseStoredChunk reads a document of a scan. The result does not refer to it.
func ParseStoredChunk(doc []byte) (s StoredChunk, err error) {
	c, err := chunk.Parse(doc)
	if err != nil {
		return s, err
	}
	var extra struct {
		ETag   string  `json:"_etag"`
		Stored float64 `json:"_ts"` // the service prints numbers as floats
		Erased []struct {
			Order, Digest string
			Rows          float64
		} `json:"erased"`
	}
	if err := json.Unmarshal(doc, &extra); err != nil {
		return s, err
	}
	s = StoredChunk{Header: c.Header, ETag: extra.ETag, Stored: int64(extra.Stored)}
	for _, e := range extra.Erased {
		s.Erased = append(s.Erased, chunk.Erased{Order: e.Order, Rows: int(e.Rows), Digest: e.Digest})
	}
	s.TenantShard, s.Device = strings.Clone(s.TenantShard), strings.Clone(s.Device)
	s.Key = sharding.Key{TenantShard: s.TenantShard, Device: s.Device}
	return s, nil
}

// IsFence reports whether the chunk only closes its chain (rule E-R8).
func (s *StoredChunk) IsFence() bool { return s.IsErased() && len(s.Erased) == 0 }
