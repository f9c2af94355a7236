// Package control is what all roles agree on: tenants with their epochs, streams, months and the
// catalog of devices. Documents is the contract that a store implements; Directory is a copy of the
// snapshot of the tenants that is kept fresh; Streams numbers the incarnations of a topic.
package control

import (
	"context"
	"encoding/json"
	"errors"
)

// Facts that callers branch on.
var (
	ErrExists  = errors.New("a control document with this id exists")
	ErrChanged = errors.New("the document was changed by someone else")
	// ErrMonthLimit: the tenant's readings have asked for as many months as they may by themselves.
	ErrMonthLimit = errors.New("the tenant's readings need too many months")
)

// The kinds of control documents.
const (
	KindTenant = "tenant"
	KindEpoch  = "epoch"
	KindStream = "stream"
	KindMark   = "mark"
	KindMonth  = "month"

	KindBackfill = "backfill"
	KindErasure  = "erasure"
)

// Document is one control document. Body is a JSON object without id and kind: the store adds both.
type Document struct {
	Kind string
	ID   string
	// ETag is the version that was last read or written, chosen by the store.
	ETag string
	Body json.RawMessage
}

// Documents keeps control documents. It is safe for any number of callers. What it answers is as of
// the call: it holds no cache. An error that is neither ErrExists nor ErrChanged leaves the outcome unknown.
type Documents interface {
	// Create stores a document. It fails with ErrExists if there is one with the kind and id.
	Create(ctx context.Context, d Document) (etag string, err error)
	// Replace stores d over the document with d.ETag, else ErrChanged.
	Replace(ctx context.Context, d Document) (etag string, err error)
	// Read returns a document; found reports whether it exists.
	Read(ctx context.Context, kind, id string) (d Document, found bool, err error)
	// List returns all documents of a kind, in the order of their ids.
	List(ctx context.Context, kind string) ([]Document, error)
}
