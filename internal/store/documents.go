package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Document is one control document. Body is a JSON object without id and kind: the store adds both.
type Document struct {
	Kind string
	ID   string
	// ETag is the version that was last read or written, chosen by the store.
	ETag string
	Body json.RawMessage
}

// NewDocument makes a document of a body that always encodes.
func NewDocument(kind, id string, body any) Document {
	b, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Sprintf("%s document %q does not encode: %v", kind, id, err))
	}
	return Document{Kind: kind, ID: id, Body: b}
}

// Decode reads the body.
func (d Document) Decode(body any) error {
	if err := json.Unmarshal(d.Body, body); err != nil {
		return fmt.Errorf("%s document %q: %w", d.Kind, d.ID, err)
	}
	return nil
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

// Feed lists which control documents were created or replaced. It is safe for any number of callers.
type Feed interface {
	// Changes returns the documents that have changed since a mark, each as it is now, and the mark to go on from. With
	// an empty mark it returns the documents that have changed since an instant of the store's clock. One document may
	// come more than once, also one that has not changed; none is left out. After an error nothing is known.
	Changes(ctx context.Context, mark string, since time.Time) (changed []Document, next string, err error)
}

// Millis returns a time as documents have it: in ms since 1970 UTC, 0 for none.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// TimeOf returns the time that Millis wrote.
func TimeOf(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis).UTC()
}
