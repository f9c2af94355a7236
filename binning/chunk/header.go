package chunk

import "fmt"

// Header is the part of a chunk that is not its columns.
type Header struct {
	ID          ID
	TenantShard string // level 1 of the partition key
	Device      string // level 2

	From, To int64 // first and last instant, both inclusive, in milliseconds since 1970 UTC; within the day of ID
	Rows     int
	Readings int // how many, before readings with the same instant and labels were merged into one row

	First   int64 // offset of the first record in it
	Through int64 // offset of the last record in it
	After   int64 // Through of the chunk before in the chain, -1 for none
	// Cut is when the writer cut the chunk, in milliseconds since 1970 UTC by its own clock: what was known when.
	Cut int64

	Unique bool // no two rows have the same instant
	TTL    int  // seconds from the write until the service removes it, 0 for never
}

// check returns an error that names the part of h that can't be stored.
func (h Header) check() error {
	for _, n := range []struct {
		name  string
		value int64
		least int64
	}{
		{"readings", int64(h.Readings), 0}, {"first", h.First, 0}, {"through", h.Through, h.First},
		{"after", h.After, -1}, {"cut", h.Cut, 0}, {"ttl", int64(h.TTL), 0}, {"partition", int64(h.ID.Partition), 0},
		{"day", int64(h.ID.Day), 0},
	} {
		if n.value < n.least || n.value > maxExact {
			return fmt.Errorf("%s %d is not in %d to 2^53", n.name, n.value, n.least)
		}
	}
	if h.TenantShard == "" || h.Device == "" {
		return fmt.Errorf("tenant shard %q and device %q must both be there", h.TenantShard, h.Device)
	}
	return nil
}
