package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"binnacle/internal/lab/emulator/kv"
	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/schema"
	"binnacle/internal/lab/emulator/sql"

	"github.com/valyala/fastjson"
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

// Layout of the keys in the store. Numbers are big-endian, so that keys sort as they count.
//
//	m <kind> <name>                          metadata: see account.go
//	i <container:4> <epk:16 x levels> <id>   item. The value is its header, see header.go; the body its JSON, system
//	                                         properties included
//	p <container:4> <partition>              counters of a physical partition: see partition.go
//	w <container:4> <epk:16 x levels>        size of a logical partition: see weight.go
//	u <container:4> <epk:16 x levels> <n:1> <digest:32>
//	                                         item that has the values of a unique key: see claim.go
//	l <container:4> <partition:2> <lsn:8> …  log of a physical partition: see log.go
//
// The items of a container sort by effective partition key, so a physical partition, a key prefix and
// a logical partition are each one range of keys, and inside a logical partition items sort by id.
// A query passes over items, and time to live finds the expired ones, without reading bodies. Every effective
// partition key of a container has the same length, so the order of bytes is the length-aware order that epk.Compare
// defines.
const (
	spaceMeta    = 'm'
	spaceItem    = 'i'
	spaceCounter = 'p'
	spaceWeight  = 'w'
	spaceUnique  = 'u'
	spaceLog     = 'l'
)

// prefixLen is the length of the part before the effective partition key.
const prefixLen = 5

// levelLen is the length of one level of an effective partition key.
const levelLen = 16

func appendPrefix(dst []byte, space byte, container uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, space), container)
}

// after returns the smallest key that is greater than every key with this prefix; nil when no key is greater.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

func storedBody(from kv.Reader, name []byte) ([]byte, error) {
	e := from.Get(name)
	if e == nil {
		return nil, errors.New("read the body of an item: there is none")
	}
	return e.Body(nil)
}

func storedItem(from kv.Reader, name []byte) (*fastjson.Value, error) {
	body, err := storedBody(from, name)
	if err != nil {
		return nil, err
	}
	doc, err := fastjson.ParseBytes(body)
	if err != nil {
		return nil, fmt.Errorf("read the body of an item: %w", err)
	}
	return doc, nil
}

// bounds returns the first key of the items in a span, and the one after the last.
func (c *Container) bounds(s span) (low, high []byte) {
	prefix := appendPrefix(nil, spaceItem, c.number)
	low, high = append(prefix[:prefixLen:prefixLen], s.low...), after(prefix)
	if s.high != nil {
		high = append(prefix[:prefixLen:prefixLen], s.high...)
	}
	return low, high
}

// headers visits the headers of the items in a span, by their keys without prefix, until visit reports false.
func (c *Container) headers(s span, visit func(item []byte, h *header) (more bool, err error)) error {
	for e := range c.account.store.Ascend(c.bounds(s)) {
		var h header
		if err := h.decode(e.Value()); err != nil {
			return err
		}
		if more, err := visit(e.Key()[prefixLen:], &h); !more || err != nil {
			return err
		}
	}
	return nil
}

// revision is a definition with its number among the container's definitions.
type revision struct {
	*schema.Definition
	generation uint32
}

// fullKey reads the partition key of a request and refuses one that does not name a logical partition.
func (r *revision) fullKey(p *fastjson.Parser, text string) (schema.Key, error) {
	key, ok, err := r.prefixOf(p, text)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return make(schema.Key, r.Levels()), nil // the item has none of the key's properties
	case len(key) < r.Levels():
		return nil, refusal.KeyMismatch(mismatch+": it has %d of %d components", len(key), r.Levels())
	}
	return key, nil
}

// keyOf reads the partition key of a request that names an item by its id: it must be there.
func (r *revision) keyOf(p *fastjson.Parser, text string) (schema.Key, error) {
	if text == "" {
		return nil, refusal.KeyMismatch(mismatch+": it has 0 of %d components", r.Levels())
	}
	return r.fullKey(p, text)
}

// prefixOf reads a partition key, or a prefix of one. It refuses one with more levels than the container has. Without a
// key, ok is false.
func (r *revision) prefixOf(p *fastjson.Parser, text string) (key schema.Key, ok bool, err error) {
	if key, ok, err = schema.ParseKey(p, text); err == nil && len(key) > r.Levels() {
		err = refusal.BadRequest("the partition key has %d components, the container has %d", len(key), r.Levels())
	}
	return key, ok, err
}

// mismatch is what the service says of a partition key that cannot be that of an item.
const mismatch = "Partition key provided either doesn't correspond to definition in the collection or doesn't match " +
	"partition key field values specified in the document"
