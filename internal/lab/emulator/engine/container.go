package engine

import (
	"slices"
	"sync/atomic"

	"binnacle/internal/lab/emulator/kv"

	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/schema"
	"binnacle/internal/lab/emulator/sql"
)

// Container is a container and its physical partitions.
type Container struct {
	number   uint32
	rid      []byte
	ridText  string
	docs     string // the link of its items, which their own begin with
	account  *Account
	database *database
	// layout lists the partitions in the order of their ranges; it is replaced under account.mu.
	layout atomic.Pointer[[]*partition]

	record  containerRecord // account.mu guards
	current atomic.Pointer[revision]
	deleted atomic.Bool // set under the locks of all partitions
	// retired lists the partitions that were split since the Server was opened; account.mu guards.
	retired []*partition

	// earliest is a second before which no item expires; it spares the sweep of containers in which
	// nothing can have. 0: unknown.
	earliest atomic.Int64
}

func (c *Container) id() string { return c.current.Load().JSON.ID }

// RID returns the resource id of the container.
func (c *Container) RID() string { return c.ridText }

// Names returns the names of the container and of its database.
func (c *Container) Names() (database, container string) { return c.database.id, c.id() }

// Queries returns the parsed queries of a container with computed properties; nil for any other.
func (c *Container) Queries() *sql.Cache { return c.current.Load().Queries }

// Definition returns the container's document.
func (c *Container) Definition() schema.JSON { return c.current.Load().JSON }

// expires reports that an item expires at this second.
func (c *Container) expires(second int64) {
	for {
		now := c.earliest.Load()
		if second >= now || c.earliest.CompareAndSwap(now, second) {
			return
		}
	}
}

// lockAll keeps all writers out. account.mu is held.
func (c *Container) lockAll() (unlock func()) {
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

func (c *Container) gigabytes() float64 {
	total := int64(0)
	for _, p := range c.parts() {
		p.mu.Lock()
		total += p.count.bytes
		p.mu.Unlock()
	}
	return float64(total) / (1 << 30)
}

func (c *Container) erase(b *kv.Batch) {
	for _, space := range []byte{spaceItem, spaceCounter, spaceLog, spaceWeight, spaceUnique} {
		prefix := appendPrefix(nil, space, c.number)
		b.DeleteRange(prefix, after(prefix))
	}
}

func (c *Container) at(key []byte) *partition { return partitionAt(c.parts(), key) }

// parts returns the physical partitions in the order of their ranges. A split replaces the list.
func (c *Container) parts() []*partition { return *c.layout.Load() }

// lock returns the partition of an effective partition key, locked: one that has not been split.
func (c *Container) lock(key []byte) *partition {
	for {
		p := c.at(key)
		p.mu.Lock()
		if !p.gone {
			return p
		}
		p.mu.Unlock()
	}
}

// admit lets writes of a call run on a locked partition, unless the container is no more.
func (c *Container) admit(p *partition, call Call) error {
	if c.deleted.Load() {
		return refusal.NotFound("the container was deleted")
	}
	return p.admit(call)
}

// past returns the physical partitions that have been split since the account was opened.
func (c *Container) past() []*partition {
	c.account.mu.RLock()
	defer c.account.mu.RUnlock()
	return slices.Clone(c.retired)
}
