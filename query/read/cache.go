package read

import (
	"container/list"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// cache keeps chunks that queries have read, parsed and, where they were needed, decoded. Chunks never change: of a
// range that was read before, the next query asks only for what was stored since. It is safe for any number of callers.
type cache struct {
	limit   int64
	version atomic.Uint64 // the last one of what can change
	age     time.Duration
	now     func() time.Time
	metrics cacheMetrics

	mu      sync.Mutex // guards below
	keys    map[cacheKey]*list.Element
	entries map[any]*list.Element
	recent  *list.List // of *keyCache and *cacheEntry, the last used one in front
	used    int64      // bytes of all of them
}

// cacheEntry is something that was read whole and is never added to: a manifest, a series index, a rollup document,
// bins.
type cacheEntry struct {
	key   any
	value any
	bytes int64
	read  time.Time
}

// get returns the value of a key unless it is older than age, and makes it the last used one.
func (c *cache) get(key any, age time.Duration) (value any, ok bool) {
	if c == nil {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[key]
	if e == nil || c.now().Sub(e.Value.(*cacheEntry).read) >= age {
		return nil, false
	}
	c.recent.MoveToFront(e)
	return e.Value.(*cacheEntry).value, true
}

// put sets the value of a key. Nobody may change it afterwards.
func (c *cache) put(key, value any, bytes int64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key]; e != nil {
		c.used -= c.recent.Remove(e).(*cacheEntry).bytes
		delete(c.entries, key)
	}
	if bytes += keyCacheBytes; bytes <= c.limit/2 {
		c.entries[key] = c.recent.PushFront(&cacheEntry{key, value, bytes, c.now()})
		c.used += bytes
	}
	c.trim()
}

// nextVersion returns a version that no other has.
func (c *cache) nextVersion() uint64 { return c.version.Add(1) }

// Kept returns what Keep has kept under a key of a type of its own, nil for nothing, unless it is older than the cache
// allows.
func (r *Reader) Kept(key any) any {
	if r.cache == nil {
		return nil
	}
	value, _ := r.cache.get(key, r.cache.age)
	return value
}

// Keep keeps a value in the room of the cache. Nobody may change it afterwards.
func (r *Reader) Keep(key, value any, bytes int64) { r.cache.put(key, value, bytes) }

// trim evicts until the cache is within its limit. The caller holds mu.
func (c *cache) trim() {
	for c.used > c.limit && c.recent.Len() > 0 {
		c.forget(c.recent.Back())
	}
	c.metrics.bytes.Set(float64(c.used))
}

// cacheKey names a keyCache.
type cacheKey struct {
	sharding.Key        // without a device for a first-level key
	metrics      string // their metricsKey
}

// metricsKey returns a text that differs for other metrics, whatever they are called.
func metricsKey(metrics []string) string {
	if metrics == nil {
		return ""
	}
	name := []byte("=")
	for _, m := range metrics {
		name = append(binary.AppendUvarint(name, uint64(len(m))), m...)
	}
	return string(name)
}

type cacheMetrics struct {
	documents *prometheus.CounterVec
	evictions prometheus.Counter
	shared    prometheus.Counter
	headRows  *prometheus.CounterVec
	bytes     prometheus.Gauge
}

// addHeadRows counts the rows of a bin. Some were read just now.
func (m *cacheMetrics) addHeadRows(b *cachedBin, rows *store.HeadRows) {
	all, now := 0, rows.Frame.Rows()
	for i := range b.parts {
		all += b.parts[i].frame.Rows()
	}
	m.headRows.WithLabelValues("hit").Add(float64(all - now))
	m.headRows.WithLabelValues("miss").Add(float64(now))
}

// newCache returns nil unless the limit is above 0.
func newCache(cfg Config) *cache {
	if cfg.CacheBytes <= 0 {
		return nil
	}
	f := promauto.With(cfg.Registerer)
	return &cache{
		limit: cfg.CacheBytes, age: cfg.CacheAge, now: cfg.Now, recent: list.New(),
		keys: make(map[cacheKey]*list.Element), entries: make(map[any]*list.Element),
		metrics: cacheMetrics{
			documents: f.NewCounterVec(prometheus.CounterOpts{
				Name: "binnacle_query_cache_documents_total",
				Help: "Chunks of answers, by whether they were read before (hit) or for this answer (miss)."},
				[]string{"result"}),
			evictions: f.NewCounter(prometheus.CounterOpts{
				Name: "binnacle_query_cache_evictions_total",
				Help: "Keys, and other documents, that were evicted from the chunk cache to make room."}),
			shared: f.NewCounter(prometheus.CounterOpts{
				Name: "binnacle_query_cache_shared_total", Help: "Reads of a key that were shared with another query."}),
			headRows: f.NewCounterVec(prometheus.CounterOpts{
				Name: "binnacle_query_cache_head_rows_total",
				Help: "Rows of bins of heads, by whether they were read before (hit) or for this answer (miss)."},
				[]string{"result"}),
			bytes: f.NewGauge(prometheus.GaugeOpts{
				Name: "binnacle_query_cache_bytes", Help: "Memory of the chunk cache."}),
		},
	}
}

// key returns the keyCache of a key, and makes it the last used one.
func (c *cache) key(key cacheKey) *keyCache {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.keys[key]; e != nil {
		c.recent.MoveToFront(e)
		return e.Value.(*keyCache)
	}
	l := &keyCache{cache: c, key: key, loading: make(chan struct{}, 1), stored: make(map[chunkRef]*cachedChunk)}
	c.keys[key] = c.recent.PushFront(l)
	c.add(l, keyCacheBytes+int64(len(key.metrics)))
	return l
}

// fetchesFor returns the scans that a keyCache would need to know all of r. One that is being read counts as known.
func (c *cache) fetchesFor(key cacheKey, r telemetry.Range, now time.Time) []span {
	c.mu.Lock()
	e := c.keys[key]
	c.mu.Unlock()
	if e == nil {
		return []span{{Range: r}}
	}
	l := e.Value.(*keyCache)
	select {
	case l.loading <- struct{}{}:
		defer func() { <-l.loading }()
		return l.fetches(r, now)
	default:
		return []span{{Range: r, asOf: 1}}
	}
}

// resize adds to what a keyCache takes and evicts. One that takes more than half of the cache is evicted itself.
func (c *cache) resize(l *keyCache, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !l.dropped {
		if c.add(l, bytes); l.bytes > c.limit/2 {
			c.forget(c.keys[l.key])
		}
	}
	c.trim()
}

// add changes what a keyCache takes. The caller holds mu.
func (c *cache) add(l *keyCache, bytes int64) {
	l.bytes += bytes
	c.used += bytes
}

// drop evicts a keyCache. A query that is reading it goes on with what it has.
func (c *cache) drop(l *keyCache) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.keys[l.key]; e != nil && e.Value == l {
		c.forget(e)
	}
	c.metrics.bytes.Set(float64(c.used))
}

// forget evicts an element. The caller holds mu.
func (c *cache) forget(e *list.Element) {
	switch x := c.recent.Remove(e).(type) {
	case *cacheEntry:
		delete(c.entries, x.key)
		c.used -= x.bytes
	case *keyCache:
		delete(c.keys, x.key)
		c.used -= x.bytes
		x.bytes, x.dropped = 0, true
	}
	c.metrics.evictions.Inc()
}

// cachedChunk is a chunk that was read. Only its frame changes.
type cachedChunk struct {
	chunk    *chunk.Chunk
	expires  int64 // ms since 1970 UTC: from then on the service may have removed it
	bytes    int64 // without the frame
	keyCache *keyCache
	load     int // number of the load that read it

	mu      sync.Mutex // guards below
	frame   *chunk.Frame
	removed bool // from its keyCache
}

// decode returns the chunk's rows, and keeps them while there is room. Nobody may change the frame.
func (s *cachedChunk) decode() (chunk.Frame, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frame != nil {
		return *s.frame, nil
	}
	f, err := s.chunk.Frame(nil)
	if err != nil {
		return f, err
	}
	if n := frameBytes(f); !s.removed && s.keyCache.cache.mayDecode(s.keyCache, n) {
		s.frame = &f
	}
	return f, nil
}

// mayDecode takes room for a frame, unless its keyCache would take more than half of the cache or something would have
// to be evicted: decoding a chunk again is cheaper than reading it again.
func (c *cache) mayDecode(l *keyCache, bytes int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.dropped || l.bytes+bytes > c.limit/2 || c.used+bytes > c.limit {
		return false
	}
	c.add(l, bytes)
	c.metrics.bytes.Set(float64(c.used))
	return true
}
