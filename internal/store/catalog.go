package store

import "context"

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

// PageInfo is the description of a page, without its columns.
type PageInfo struct {
	ID      string
	Stored  int64 // second since 1970 UTC, by the store's clock
	Devices int
	// Bytes is the size of the columns when unpacked.
	Bytes        int
	Updated      int64
	HasForgotten bool // something
	// Applied reports whether the other pages no longer have the forgotten devices.
	Applied  bool
	Replaces []string
}
