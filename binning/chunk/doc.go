// Package chunk is the stored form of readings: it turns a Frame, rows of one device and day in columns, into the JSON
// document that Cosmos DB keeps, and back.
//
// Every float64 bit pattern, int64, bool and text survives. Encode is deterministic and safe for concurrent use; Parse
// and Chunk.Frame take any bytes and return ErrCorrupt rather than panic, loop or grow beyond the limits below.
//
// The document and the byte layout are specified in docs/internals/format/chunk.md. Every later version reads
// documents of a released version, so the bytes may only change together with the version number.
//
// The package is pure: no I/O, no clock, no log, no goroutine. It must not know how bins are cut, what a partition key
// is, or where a document goes.
package chunk

import "errors"

// Version is the layout that Encode writes, and the newest that Parse reads.
const Version = 1

// Limits of one chunk. They bound the memory that a hostile document can make a reader allocate. Encode refuses more
// with ErrTooLarge, so code that fills a Frame must stop before.
const (
	// MaxRows is the most rows of a chunk: a day at a row a second, with room.
	MaxRows = 1 << 17
	// MaxValues is the most values of a chunk.
	MaxValues = 1 << 20
	// MaxColumns is the most columns of a chunk.
	MaxColumns = 1 << 16
	// MaxCells is the most rows times columns, summed over the groups: a bit each in the presence bitmaps.
	MaxCells = 1 << 24
	// MaxDocument is the largest document in bytes: the service's own limit for an item.
	MaxDocument = 2 << 20
	// MaxString is the most characters of one string in the document; longer ones the service keeps in a costlier form
	// (JsonBinaryEncoding of azure-cosmos-dotnet-v3: strings up to 65,535 bytes are packed).
	MaxString = 65535

	// maxPack is the most columns of a pack.
	maxPack = 1 << 10
	// maxUnpacked bounds the bytes that all zstd frames of a chunk unpack to.
	maxUnpacked = 32 << 20
	// maxExact is the largest integer up to which float64 holds every one; the service stores JSON numbers as float64.
	maxExact = 1 << 53
)

// ErrCorrupt is what Parse and Chunk.Frame wrap when bytes are not a chunk of a version that this release knows.
var ErrCorrupt = errors.New("corrupt chunk")

// ErrTooLarge is what Encode wraps when a frame doesn't fit the limits of one chunk.
var ErrTooLarge = errors.New("too large for one chunk")
