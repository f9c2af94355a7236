// Package catalog has the catalog of a tenant's devices, for listing and matching: the form of the pages in which it is
// stored, how the pages of a device are merged, and an index of it in memory, over which matchers, counts and lists
// run.
//
// A page is written once and never changed, and has something of some devices. A catalog is the union of its pages, in
// whatever order they are read, and however often: sets are united, of times the least and the greatest count, of a tag
// the value that was set last. That is why many can write pages at a time, and anyone can merge them.
//
// It knows nothing of stores, clocks or tenants. docs/internals/format/catalog.md specifies the pages.
package catalog
