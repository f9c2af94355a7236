package worker_test

import (
	"context"

	"binnacle/internal/charges/ru"
	"binnacle/internal/store"
	"binnacle/sharding"
)

// discard is a store.Writer that keeps nothing but counts.
type discard struct {
	Chunks, Bytes, Lookups int
	RUs                    float64 // modelled
}

// Create implements store.Writer.
func (d *discard) Create(_ context.Context, _ sharding.Key, _ string, doc []byte) (store.Receipt, error) {
	d.Chunks++
	d.Bytes += len(doc)
	d.RUs += ru.Stepped.Write(len(doc), 5*ru.Scalar) // as containers of chunks are indexed
	return store.Receipt{}, nil
}

// Read implements store.Writer.
func (d *discard) Read(context.Context, sharding.Key, string, string) ([]byte, store.Receipt, error) {
	return nil, store.Receipt{}, store.ErrNotFound
}

// Last implements store.Writer.
func (d *discard) Last(context.Context, sharding.Key, store.Chain) (store.Tail, store.Receipt, error) {
	d.Lookups++
	return store.Tail{}, store.Receipt{}, store.ErrNotFound
}

// noCatalog is a store.Catalog that takes everything and has nothing.
type noCatalog struct{ store.Catalog }

// Create implements store.Catalog.
func (noCatalog) Create(context.Context, string, string, []byte) error { return nil }

// Pages implements store.Catalog.
func (noCatalog) Pages(context.Context, string, int64) ([]store.PageInfo, error) { return nil, nil }
