// Package catalog is what is known of a tenant's devices, for listing and matching: the form of the pages in which it
// is stored, how what several pages say of a device is put together, and an index of it in memory, over which
// matchers, counts and lists run.
//
// A page is written once and never changed, and says something of some devices. What a catalog holds is what all of its
// pages say, in whatever order they are read, and however often: sets are united, of times the outermost count, of a
// tag the value that was told last. That is why pages can be written by many at a time, and merged by anyone.
//
// It knows nothing of stores, clocks or tenants. docs/format/catalog.md specifies the pages.
package catalog
