package cosmosemu

import (
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"binnacle/internal/cosmosemu/schema"
)

// container is a container and its physical partitions.
type container struct {
	number   uint32
	rid      []byte
	ridText  string
	docs     string // the link of its items, which their own begin with
	database *database
	layout   atomic.Pointer[[]*partition] // in the order of their ranges; replaced under catalog.mu

	record  containerRecord // catalog.mu guards
	current atomic.Pointer[revision]
	deleted atomic.Bool  // set under the locks of all partitions
	retired []*partition // those that were split since the Server was opened; catalog.mu guards

	// earliest is a second before which no item expires; it spares the sweep of containers in which
	// nothing can have. 0: unknown.
	earliest atomic.Int64
}

// revision is a definition with the number it has among those of its container.
type revision struct {
	*schema.Definition
	generation uint32
}

// expires tells that an item expires at this second.
func (c *container) expires(second int64) {
	for {
		now := c.earliest.Load()
		if second >= now || c.earliest.CompareAndSwap(now, second) {
			return
		}
	}
}

// lockAll keeps all writers out. catalog.mu is held.
func (c *container) lockAll() (unlock func()) {
	parts := c.parts()
	for _, p := range parts {
		p.mu.Lock()
	}
	return func() {
		for _, p := range parts {
			p.mu.Unlock()
		}
	}
}

// gigabytes is what the container stores.
func (c *container) gigabytes() float64 {
	total := int64(0)
	for _, p := range c.parts() {
		p.mu.Lock()
		total += p.count.bytes
		p.mu.Unlock()
	}
	return float64(total) / (1 << 30)
}

// erase adds the removal of all that the container stores to a batch.
func (c *container) erase(b *pebble.Batch) error {
	for _, space := range []byte{spaceHeader, spaceBody, spaceCounter, spaceLog, spaceWeight, spaceUnique} {
		prefix := appendPrefix(nil, space, c.number)
		if err := b.DeleteRange(prefix, after(prefix), nil); err != nil {
			return fmt.Errorf("erase container %s: %w", c.record.Definition.ID, err)
		}
	}
	return nil
}

// at gives the partition of an effective partition key.
func (c *container) at(key []byte) *partition { return partitionAt(c.parts(), key) }

// parts gives the physical partitions in the order of their ranges. A split replaces the list.
func (c *container) parts() []*partition { return *c.layout.Load() }

// lock gives the partition of an effective partition key, locked: one that has not been split.
func (c *container) lock(key []byte) *partition {
	for {
		p := c.at(key)
		p.mu.Lock()
		if !p.gone {
			return p
		}
		p.mu.Unlock()
	}
}
