package store

import (
	"context"
	"errors"
	"time"

	"binnacle/internal/telemetry"
)

// ErrChanged says that a document is not as it was read: nothing happened.
var ErrChanged = errors.New("the document has changed")

// RollupKey is where a document of rollups lives.
type RollupKey struct {
	Container string
	// TenantShard is the first level, the same as that of the chunks.
	TenantShard string
	Name        string // second level: a rollup, or one of the keys of package rollup
}

// Rollup is a document of rollups as it is stored, with the properties that the store adds.
type Rollup struct {
	Doc  []byte
	ETag string
}

// RollupScan asks for the documents under one key that have an instant in Range, as Scan does for chunks; without a
// Name for those under some keys of a first level.
type RollupScan struct {
	Key RollupKey
	// Names are second-level keys, for a Key without a Name; nil for all but that of manifests.
	Names []string
	Range telemetry.Range
	// Batches are the names that count, as documents say them; nil for all.
	Batches []string
	// Charge is as in Scan.
	Charge func(rus float64) error
}

// RollupReader reads rollups and manifests. It is safe for any number of callers.
type RollupReader interface {
	// ReadRollup reads one document. It fails with ErrNotFound or ErrNoContainer; a replica that lags may not have it
	// yet, or have an older state of it. Now is the service's clock at about that time, also with ErrNotFound: no
	// write that was acknowledged before has a higher _ts, but for what clocks of the service differ.
	ReadRollup(ctx context.Context, key RollupKey, id string) (v Rollup, now time.Time, r Receipt, err error)

	// ScanRollups calls yield with each document in turn, in no order; its bytes are yield's until it returns. Errors
	// are the errors of Reader.Scan. A caller that knows which documents exist checks that all of them came.
	ScanRollups(ctx context.Context, s RollupScan, yield func(doc []byte) error) (Usage, error)
}

// RollupWriter keeps rollups and manifests. It is safe for any number of callers. Throttling is waited out inside.
// Errors that errors.go does not name have an unknown outcome.
type RollupWriter interface {
	RollupReader

	// CreateRollup stores a document that must not exist, as Writer.Create does.
	CreateRollup(ctx context.Context, key RollupKey, id string, doc []byte) (Receipt, error)

	// ReplaceRollup stores a document in place of the one with this ETag, and fails with ErrChanged when it has another or
	// is gone. It is durable when it returns nil.
	ReplaceRollup(ctx context.Context, key RollupKey, id, etag string, doc []byte) (Receipt, error)

	// DeleteRollup removes a document; one that is gone is no error.
	DeleteRollup(ctx context.Context, key RollupKey, id string) (Receipt, error)
}
