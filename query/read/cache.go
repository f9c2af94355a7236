package read

import (
	"container/list"
	"encoding/binary"
	"sync"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// cache keeps chunks that were read, parsed and once they were needed decoded, for later queries: chunks never change,
// so of what was read before only what was stored since has to be asked for. It is safe for any number of callers.
type cache struct {
	limit   int64
	age     time.Duration
	metrics cacheMetrics

	mu      sync.Mutex // guards below
	keys    map[cacheKey]*list.Element
	entries map[any]*list.Element
	recent  *list.List // of *lot and *thing, the one that was used last in front
	used    int64      // bytes of all of them
}

// cacheEntry is something that was read whole and is not added to: a ledger, a roster, a lane.
type cacheEntry struct {
	key   any
	value any
	bytes int64
	read  time.Time
}

// get is what was put under a key, not longer than an age ago, and the one that was used last from now on.
func (c *cache) get(key any, now time.Time, age time.Duration) (value any, ok bool) {
	if c == nil {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[key]
	if e == nil || now.Sub(e.Value.(*cacheEntry).read) >= age {
		return nil, false
	}
	c.recent.MoveToFront(e)
	return e.Value.(*cacheEntry).value, true
}

// put keeps something that nobody changes any more, in place of what is under its key.
func (c *cache) put(key, value any, bytes int64, now time.Time) {
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
		c.entries[key] = c.recent.PushFront(&cacheEntry{key, value, bytes, now})
		c.used += bytes
	}
	c.trim()
}

// trim makes room. It is called by who holds mu.
func (c *cache) trim() {
	for c.used > c.limit && c.recent.Len() > 0 {
		c.forget(c.recent.Back())
	}
	c.metrics.bytes.Set(float64(c.used))
}

// cacheKey names a lot.
type cacheKey struct {
	sharding.Key        // without a device: of all under the first level
	metrics      string // as metricsKey has them
}

// metricsKey is another one for other metrics, whatever they are called: those of a query may have any name.
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

// addHeadRows counts the rows of a bin, of which some were told just now.
func (m *cacheMetrics) addHeadRows(b *cachedBin, rows *store.HeadRows) {
	all, now := 0, rows.Frame.Rows()
	for i := range b.parts {
		all += b.parts[i].frame.Rows()
	}
	m.headRows.WithLabelValues("hit").Add(float64(all - now))
	m.headRows.WithLabelValues("miss").Add(float64(now))
}

// newCache is nil without a limit above 0.
func newCache(limit int64, age time.Duration, r prometheus.Registerer) *cache {
	if limit <= 0 {
		return nil
	}
	f := promauto.With(r)
	return &cache{
		limit: limit, age: age, keys: make(map[cacheKey]*list.Element), entries: make(map[any]*list.Element),
		recent: list.New(),
		metrics: cacheMetrics{
			documents: f.NewCounterVec(prometheus.CounterOpts{
				Name: "binnacle_query_cache_documents_total",
				Help: "Chunks of answers, by whether they were read before (hit) or for this answer (miss)."},
				[]string{"result"}),
			evictions: f.NewCounter(prometheus.CounterOpts{
				Name: "binnacle_query_cache_evictions_total",
				Help: "Keys whose chunks were forgotten, and documents of lanes: there was no room."}),
			shared: f.NewCounter(prometheus.CounterOpts{
				Name: "binnacle_query_cache_shared_total", Help: "Reads of a key that another query's read has answered too."}),
			headRows: f.NewCounterVec(prometheus.CounterOpts{
				Name: "binnacle_query_cache_head_rows_total",
				Help: "Rows of bins of heads, by whether they were read before (hit) or for this answer (miss)."},
				[]string{"result"}),
			bytes: f.NewGauge(prometheus.GaugeOpts{
				Name: "binnacle_query_cache_bytes", Help: "What chunks that were read before take, parsed and decoded."}),
		},
	}
}

// key is that of a key, and the one that was used last from now on.
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

// fetchesFor is what a lot would be asked for to know all of r. A lot that is being read is as it was before.
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

// resize changes what a lot takes, and makes room. One that would leave no room for others goes itself.
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

// add is called by who holds mu.
func (c *cache) add(l *keyCache, bytes int64) {
	l.bytes += bytes
	c.used += bytes
}

// drop forgets a lot; who reads it goes on with what it has.
func (c *cache) drop(l *keyCache) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.keys[l.key]; e != nil && e.Value == l {
		c.forget(e)
	}
	c.metrics.bytes.Set(float64(c.used))
}

// forget is called by who holds mu.
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

// cachedChunk is a chunk that was read. All but the frame stays as it is.
type cachedChunk struct {
	chunk    *chunk.Chunk
	expires  int64 // ms since 1970 UTC: from then on the service may have removed it
	bytes    int64 // without the frame
	keyCache *keyCache
	load     int // of the lot, that has brought it

	mu      sync.Mutex // guards below
	frame   *chunk.Frame
	removed bool // from the lot
}

// decode decodes the metrics of the lot, once while there is room for what is decoded. Nobody may change the frame.
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

// mayDecode takes room for a frame as long as its lot takes no more than half of the cache, and nothing is forgotten
// for it: it is cheaper to decode a chunk again than to read it again.
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
