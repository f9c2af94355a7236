package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"binnacle/internal/catalog"
)

// Document is one control document. Body is a JSON object without id and kind: the store adds both.
type Document struct {
	Kind string
	ID   string
	// ETag is the version that was last read or written, chosen by the store.
	ETag string
	// Modified is when the store took that version, by its clock, to the second; of a document that was read.
	Modified time.Time
	Body     json.RawMessage
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

// Facts that callers branch on.
var (
	ErrExists      = errors.New("a document with this id exists")
	ErrNotFound    = errors.New("no such document")
	ErrNoContainer = errors.New("no such container")
	ErrTooLarge    = errors.New("the document is larger than the store takes")
)

// The adapter alone decides what a response means. ErrTooLarge and these are the final errors; after any other error
// the outcome is unknown: the write may have happened, and the caller repeats the request (rule W6).
var (
	// ErrBusy: nothing happened, and it may be asked again later; a *BusyError says when.
	ErrBusy = errors.New("the store is busy")
	// ErrKeyFull: nothing happened, and nothing will until the partition key holds less.
	ErrKeyFull = errors.New("the partition key holds as much as the store allows")
	// ErrRejected: nothing happened, and never will: the store takes no such request. The caller has a bug.
	ErrRejected = errors.New("the store rejects the request")
	// ErrDenied: nothing happened, and won't before this process gets the right credentials or rights.
	ErrDenied = errors.New("the store denies access")
)

// BusyError is ErrBusy with the time that the store asks to be left alone for.
type BusyError struct{ RetryAfter time.Duration }

// Error implements error.
func (e *BusyError) Error() string { return fmt.Sprintf("%v: again in %s", ErrBusy, e.RetryAfter) }

// Is makes errors.Is(err, ErrBusy) true.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// ExistsError is ErrExists with what is needed to read the stored document on any replica.
type ExistsError struct{ Session string }

// Error implements error.
func (e *ExistsError) Error() string { return ErrExists.Error() }

// Is makes errors.Is(err, ErrExists) true.
func (e *ExistsError) Is(target error) bool { return target == ErrExists }

// FailingError says that the store has failed at each attempt, until the request could not be sent again. The outcome
// is unknown.
type FailingError struct {
	Attempts int
	// Status is that of the last answer, such as 503 or 410/1007; "" without one.
	Status string
	// Last is the error of the last attempt.
	Last error
}

// Error says how the last attempt failed, and how many there were.
func (e *FailingError) Error() string { return fmt.Sprintf("%v (attempt %d)", e.Last, e.Attempts) }

// Unwrap returns the error of the last attempt.
func (e *FailingError) Unwrap() error { return e.Last }

// Answer returns the last answer of the store, in words for users.
func (e *FailingError) Answer() string {
	if e.Status == "" {
		return "the connection is lost"
	}
	return "the store answers " + e.Status
}

// DamagedError says that a control document can't be understood.
type DamagedError struct {
	Kind, ID string
	// Tenant is left out of snapshots because of the document; "" for none.
	Tenant string
	Cause  error
}

// Error names the document, and its fault.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("a control document is damaged: %v", e.Cause)
}

// Unwrap returns what is wrong with the document.
func (e *DamagedError) Unwrap() error { return e.Cause }

// Damage is the documents that can't be understood, while others are read.
type Damage []*DamagedError

// Add notes a document that costs some tenants; without a tenant it costs none.
func (l *Damage) Add(d Document, cause error, tenants ...string) {
	if len(tenants) == 0 {
		tenants = []string{""}
	}
	for _, t := range slices.Compact(tenants) {
		*l = append(*l, &DamagedError{d.Kind, d.ID, t, cause})
	}
}

// Of reports whether a document costs a tenant.
func (l Damage) Of(tenant string) bool {
	return slices.ContainsFunc(l, func(d *DamagedError) bool { return d.Tenant == tenant })
}

// First returns the first one as an error, nil for none: for callers that need all.
func (l Damage) First() error {
	if len(l) == 0 {
		return nil
	}
	return l[0].Cause
}

// Catalog keeps the pages of tenants' catalogs: documents that are created once and never changed. It is safe for any
// number of callers. What it answers is as of the call, or a few seconds before it.
type Catalog interface {
	// Create stores a page under its id. It is durable when Create returns nil, or ErrExists: an id has one content.
	// With any other error it may be stored all the same.
	Create(ctx context.Context, tenant, id string, doc []byte) error
	// Pages lists the pages that were stored since a second of the store's clock, in no order; since 0 all there are.
	Pages(ctx context.Context, tenant string, since int64) ([]PageInfo, error)
	// Read calls yield with the pages that exist, in no order. The bytes are yield's until it returns. An error of
	// yield ends it and is returned as it is.
	Read(ctx context.Context, tenant string, ids []string, yield func(id string, doc []byte) error) error
	// Delete takes a page away, if it is there.
	Delete(ctx context.Context, tenant, id string) error
}

// TenantPages are the pages of a tenant's catalog.
type TenantPages struct {
	Catalog Catalog
	Tenant  string
}

// Read calls use with the pages that exist, in no order. An error of use ends it.
func (p TenantPages) Read(ctx context.Context, ids []string, use func(catalog.Page) error) error {
	for some := range slices.Chunk(ids, 100) {
		err := p.Catalog.Read(ctx, p.Tenant, some, func(id string, doc []byte) error {
			p, err := catalog.Decode(id, doc)
			if err != nil {
				return fmt.Errorf("page %s: %w", id, err)
			}
			return use(p)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// PageInfo is the description of a page, without its columns.
type PageInfo struct {
	ID      string
	Stored  int64 // second since 1970 UTC, by the store's clock
	Devices int
	// Bytes is the size of the columns when unpacked.
	Bytes        int
	Updated      int64
	Account      string // that of the page
	HasForgotten bool   // something
	// Applied reports whether the other pages no longer have the forgotten devices.
	Applied  bool
	Replaces []string
}
