package store

import (
	"context"
	"time"
)

// HeatDocument is a document of the container heat: docs/internals/format/heat.md. Body is a JSON object with the
// property from, ms since 1970; the store adds the others.
type HeatDocument struct {
	Key  string // layer of a frame, or what else it is
	ID   string
	TTL  time.Duration
	Body []byte
}

// HeatQuery asks for the documents under a key with a from in [From, To), both ms since 1970.
type HeatQuery struct {
	Key      string
	From, To int64
}

// HeatReader reads documents of the load. It is safe for any number of callers.
type HeatReader interface {
	// ReadHeat calls yield with each document, in the order of from; its bytes are yield's until it returns. An error of
	// yield ends it and is returned as it is. It fails with ErrNoContainer when there is no container heat.
	ReadHeat(ctx context.Context, q HeatQuery, yield func(doc []byte) error) (Usage, error)
}

// HeatWriter keeps documents of the load. It is safe for any number of callers.
type HeatWriter interface {
	HeatReader
	// CreateHeat stores a document that must not exist. It is durable when it returns nil; it fails with ErrExists when
	// there is one with this key and id, ErrBusy when the store is busy, or ErrNoContainer. It never waits long: a lost
	// document does no harm.
	CreateHeat(ctx context.Context, d HeatDocument) (Receipt, error)
	// PutHeat stores a document in place of the one with its key and id, if there is one. It is durable when it returns
	// nil; it fails with ErrBusy or ErrNoContainer, and never waits long.
	PutHeat(ctx context.Context, d HeatDocument) (Receipt, error)
}
