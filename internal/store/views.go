package store

import (
	"context"
	"errors"
	"time"

	"binnacle/internal/telemetry"
)

// ErrChanged says that a document is not as it was read: nothing happened.
var ErrChanged = errors.New("the document has changed")

// ViewKey is where a document of lanes lives.
type ViewKey struct {
	Container   string
	TenantShard string // first level, that of the chunks
	Lane        string // second level: a lane, or one of the keys of package lane
}

// View is a document of lanes as it is stored, with the properties that the store adds.
type View struct {
	Doc  []byte
	ETag string
}

// LaneScan asks for the documents under one key that have an instant in Range, as Scan does for chunks.
type LaneScan struct {
	Key   ViewKey
	Range telemetry.Range
	// Batches are the names that count, as documents say them; nil for all.
	Batches []string
	// Charge is as in Scan.
	Charge func(rus float64) error
}

// ViewReader reads lanes and ledgers. It is safe for any number of callers.
type ViewReader interface {
	// ReadView reads one document. It fails with ErrNotFound or ErrNoContainer; a replica that lags may not have it
	// yet, or have an older state of it. Now is the service's clock at about that time, also with ErrNotFound: no
	// write that was acknowledged before has a higher _ts, but for what clocks of the service differ.
	ReadView(ctx context.Context, key ViewKey, id string) (v View, now time.Time, r Receipt, err error)

	// ScanLanes calls yield with each document in turn, in no order; its bytes are yield's until it returns. Errors are
	// those of Reader.Scan. Whoever knows which documents there must be checks that all of them came.
	ScanLanes(ctx context.Context, s LaneScan, yield func(doc []byte) error) (Usage, error)
}

// ViewWriter keeps lanes and ledgers. It is safe for any number of callers. Throttling is waited out inside. Errors
// that errors.go does not name have an unknown outcome.
type ViewWriter interface {
	ViewReader

	// CreateView stores a document that must not exist, as Writer.Create does.
	CreateView(ctx context.Context, key ViewKey, id string, doc []byte) (Receipt, error)

	// ReplaceView stores a document in place of the one with this ETag, and fails with ErrChanged when it has another or
	// is gone. It is durable when it returns nil.
	ReplaceView(ctx context.Context, key ViewKey, id, etag string, doc []byte) (Receipt, error)

	// DeleteView removes a document; one that is gone is no error.
	DeleteView(ctx context.Context, key ViewKey, id string) (Receipt, error)
}
