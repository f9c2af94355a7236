package erase

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/catalog/catalogcache"
	"binnacle/internal/erasure"
	"binnacle/internal/store"
)

// forgottenPerPage is how many devices a page forgets at most: 400 KB.
const forgottenPerPage = 10_000

// unknownFor is how long after an order is announced an ingester may still write what it erases to the catalog.
const unknownFor = time.Minute

// Forget makes the catalog forget the devices of an order about all days, as they were known when it was announced,
// and entries from ingesters that do not know the order yet. It comes before the order is acknowledged: from then on
// ingesters write the entries of the devices again, with a time behind that of the page that forgets. It comes again
// after the sweep, for devices of a tenant that the catalog did not have. The role provision merges the pages that
// have them, without them.
func Forget(ctx context.Context, pages store.Catalog, o *erasure.Order) error {
	devices := []string{o.Device}
	if o.Device == "" {
		copied, err := catalogcache.New(catalogcache.Config{Catalog: pages}).Get(ctx, o.Tenant, time.Time{})
		if err != nil {
			return err
		}
		copied.Use(func(x *catalog.Index) { devices = append(devices, x.Devices()...) }) // no device has an empty id
	}
	until := o.At.Add(unknownFor).UnixMilli()
	for some := range slices.Chunk(devices, forgottenPerPage) {
		page := catalog.Page{Updated: until}
		for _, device := range some {
			page.Forget = append(page.Forget, catalog.Forgotten{Device: catalog.Digest(device), Until: until})
		}
		id, doc, err := catalog.Encode(page)
		if err != nil {
			return err
		}
		if err := pages.Create(ctx, o.Tenant, id, doc); err != nil && !errors.Is(err, store.ErrExists) {
			return fmt.Errorf("have the catalog of %s forget: %w", o.Tenant, err)
		}
	}
	return nil
}
