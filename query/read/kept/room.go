// Package kept has the room in memory for what queries have read, and versions of what can change there.
//
// It must not know what is kept.
package kept

import (
	"container/list"
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// ItemBytes is the memory of an item without its value.
const ItemBytes = 512

// Room keeps values by key, of types of their own, within a limit of bytes: the one that was used least recently goes
// first. It is safe for any number of callers. A nil Room keeps nothing.
type Room struct {
	limit int64
	now   func() time.Time
	bytes prometheus.Gauge

	mu     sync.Mutex // guards below
	items  map[any]*list.Element
	recent *list.List // *Item values, the last used one in front
	used   int64      // bytes of all of them
}

// Item is a value in a room.
type Item struct {
	key, value any
	put        time.Time

	// Guarded by Room.mu.
	bytes int64
	gone  bool
}

// New returns a room of so many bytes, nil unless they are above 0.
func New(limit int64, now func() time.Time, r prometheus.Registerer) *Room {
	if limit <= 0 {
		return nil
	}
	return &Room{
		limit: limit, now: now, items: make(map[any]*list.Element), recent: list.New(),
		bytes: promauto.With(r).NewGauge(prometheus.GaugeOpts{
			Name: "binnacle_query_cache_bytes", Help: "Memory of the chunk cache."}),
	}
}

// Get returns the value of a key unless it was put longer ago than age, and makes it the last used one.
func (r *Room) Get(key any, age time.Duration) (value any, ok bool) {
	if r == nil {
		return nil, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.items[key]
	if e == nil || r.now().Sub(e.Value.(*Item).put) >= age {
		return nil, false
	}
	r.recent.MoveToFront(e)
	return e.Value.(*Item).value, true
}

// Put sets the value of a key, which is immutable from then on. One that takes more than half of the room is not
// kept.
func (r *Room) Put(key, value any, bytes int64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.items[key]; e != nil {
		r.remove(e)
	}
	if bytes += ItemBytes; bytes <= r.limit/2 {
		r.add(&Item{key: key, value: value, bytes: bytes, put: r.now()})
	}
	r.trim()
}

// GetOrMake returns the value of a key, however old it is, and makes it where there is none. Such a value may change,
// and reports by Grow how its size changes.
func (r *Room) GetOrMake(key any, bytes int64, made func(*Item) any) any {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.items[key]; e != nil {
		r.recent.MoveToFront(e)
		return e.Value.(*Item).value
	}
	i := &Item{key: key, put: r.now(), bytes: bytes + ItemBytes}
	i.value = made(i)
	r.add(i)
	return i.value
}

// Grow adds to what an item takes, and evicts: the item itself where it takes more than half of the room.
func (r *Room) Grow(i *Item, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !i.gone {
		if r.resize(i, bytes); i.bytes > r.limit/2 {
			r.remove(r.items[i.key])
		}
	}
	r.trim()
}

// GrowIfFree adds to what an item takes, unless something would have to be evicted for that.
func (r *Room) GrowIfFree(i *Item, bytes int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i.gone || i.bytes+bytes > r.limit/2 || r.used+bytes > r.limit {
		return false
	}
	r.resize(i, bytes)
	r.bytes.Set(float64(r.used))
	return true
}

// add puts an item in front. The caller holds mu.
func (r *Room) add(i *Item) {
	r.items[i.key] = r.recent.PushFront(i)
	r.used += i.bytes
}

// resize changes what an item takes. The caller holds mu.
func (r *Room) resize(i *Item, bytes int64) {
	i.bytes += bytes
	r.used += bytes
}

// trim evicts until the room is within its limit. The caller holds mu.
func (r *Room) trim() {
	for r.used > r.limit && r.recent.Len() > 0 {
		r.remove(r.recent.Back())
	}
	r.bytes.Set(float64(r.used))
}

// remove removes an item. The caller holds mu.
func (r *Room) remove(e *list.Element) {
	i := r.recent.Remove(e).(*Item)
	delete(r.items, i.key)
	r.used -= i.bytes
	i.bytes, i.gone = 0, true
}

// Names returns a text that differs for other names, whatever they are. It is empty for nil.
func Names(names []string) string {
	if names == nil {
		return ""
	}
	out := []byte("=")
	for _, n := range names {
		out = append(binary.AppendUvarint(out, uint64(len(n))), n...)
	}
	return string(out)
}

// Never is an instant behind all readings: from there on nothing differs. Always is before all.
const (
	Never  = math.MaxInt64
	Always = math.MinInt64
)

// versions counts versions, of everything in this process, so that no two are the same.
var versions atomic.Uint64

// change is a version of something that was read, and the first instant at which it may differ from the version before.
type change struct {
	version uint64
	from    int64
}

// Changes is the last versions of something, the oldest first.
type Changes []change

// maxChanges is how many versions are remembered. From an earlier one everything may differ.
const maxChanges = 256

// With returns the changes with one more, from an instant on, unless that is Never. It does not change c.
func (c Changes) With(from int64) Changes {
	if len(c) == 0 {
		from = Always
	}
	if from == Never {
		return c
	}
	if len(c) >= maxChanges {
		c = c[len(c)-maxChanges/2:]
	}
	return append(slices.Clip(slices.Clone(c)), change{versions.Add(1), from})
}

// Since returns the first instant at which the last version may differ from that of an earlier c.
func (c Changes) Since(earlier Changes) int64 {
	if len(earlier) == 0 {
		return Always
	}
	seen, from := earlier[len(earlier)-1].version, int64(Never)
	for i := len(c) - 1; i >= 0; i-- {
		if c[i].version == seen {
			return from
		}
		from = min(from, c[i].from)
	}
	return Always
}

// Last returns the last version alone.
func (c Changes) Last() Changes { return slices.Clone(c[max(0, len(c)-1):]) }

// Bytes returns about how much memory c takes.
func (c Changes) Bytes() int64 { return 16 * int64(len(c)) }
