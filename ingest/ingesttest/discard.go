package ingesttest

import (
	"context"

	"binnacle/internal/control"
	"binnacle/internal/store"
	"binnacle/sharding"
)

// Discard is a store.Writer that keeps nothing but counts.
type Discard struct{ Chunks, Bytes, Lookups int }

// Create implements store.Writer.
func (d *Discard) Create(_ context.Context, _ sharding.Key, _ string, doc []byte) (store.Receipt, error) {
	d.Chunks++
	d.Bytes += len(doc)
	return store.Receipt{}, nil
}

// Read implements store.Writer.
func (d *Discard) Read(context.Context, sharding.Key, string, string) ([]byte, store.Receipt, error) {
	return nil, store.Receipt{}, store.ErrNotFound
}

// Last implements store.Writer.
func (d *Discard) Last(context.Context, sharding.Key, store.Chain) (store.Tail, store.Receipt, error) {
	d.Lookups++
	return store.Tail{}, store.Receipt{}, store.ErrNotFound
}

// NoCatalog is a control.Catalog that takes everything and has nothing.
type NoCatalog struct{ control.Catalog }

// Create implements control.Catalog.
func (NoCatalog) Create(context.Context, string, string, []byte) error { return nil }

// Pages implements control.Catalog.
func (NoCatalog) Pages(context.Context, string, int64) ([]control.PageInfo, error) { return nil, nil }
