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

// itemBytes is the memory of an item without its value.
const itemBytes = 512

// Room keeps values by key, of types of their own, within a limit of bytes: the one that was used least recently goes
// first. It is safe for any number of callers. A nil Room keeps nothing.
type Room struct {
	limit int64
	now   func() time.Time
	bytes prometheus.Gauge

	mu     sync.Mutex // guards below
	items  map[any]*list.Element
	recent *list.List // *item values, the last used one in front
	used   int64      // bytes of all of them
}

// item is a value in a room.
type item struct {
	key, value any
	put        time.Time
	bytes      int64
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
	if e == nil || r.now().Sub(e.Value.(*item).put) >= age {
		return nil, false
	}
	r.recent.MoveToFront(e)
	return e.Value.(*item).value, true
}

// Put sets the value of a key. A value that takes more than half of the room is not kept.
func (r *Room) Put(key, value any, bytes int64) {
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.put(key, value, bytes)
	}
}

// GetOrPut returns the value of a key, however old it is, and makes it the last used one. It makes one of so many bytes
// where there is none.
func (r *Room) GetOrPut(key any, bytes int64, make func() any) any {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.items[key]; e != nil {
		r.recent.MoveToFront(e)
		return e.Value.(*item).value
	}
	value := make()
	r.put(key, value, bytes)
	return value
}

// put does what Put says. The caller holds mu.
func (r *Room) put(key, value any, bytes int64) {
	r.remove(r.items[key])
	if bytes += itemBytes; bytes <= r.limit/2 {
		r.items[key] = r.recent.PushFront(&item{key, value, r.now(), bytes})
		r.used += bytes
	}
	for r.used > r.limit {
		r.remove(r.recent.Back())
	}
	r.bytes.Set(float64(r.used))
}

// GrowIfFree adds to what the value of a key takes, unless the value is gone or something would have to go for that.
func (r *Room) GrowIfFree(key any, bytes int64) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.items[key]
	if e == nil || e.Value.(*item).bytes+bytes > r.limit/2 || r.used+bytes > r.limit {
		return false
	}
	e.Value.(*item).bytes += bytes
	r.used += bytes
	r.bytes.Set(float64(r.used))
	return true
}

// remove removes an item; nil is none. The caller holds mu.
func (r *Room) remove(e *list.Element) {
	if e != nil {
		i := r.recent.Remove(e).(*item)
		delete(r.items, i.key)
		r.used -= i.bytes
	}
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

// Bytes returns about how much memory c takes.
func (c Changes) Bytes() int64 { return 16 * int64(len(c)) }
