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

	mu     sync.Mutex // guards below
	lots   map[lotKey]*list.Element
	things map[any]*list.Element
	recent *list.List // of *lot and *thing, the one that was used last in front
	used   int64      // bytes of all of them
}

// thing is something that was read whole and is not added to: a ledger, a roster, a lane.
type thing struct {
	key   any
	value any
	bytes int64
	read  time.Time
}

// thing is what was put under a key, not longer than an age ago, and the one that was used last from now on.
func (c *cache) thing(key any, now time.Time, age time.Duration) (value any, ok bool) {
	if c == nil {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.things[key]
	if e == nil || now.Sub(e.Value.(*thing).read) >= age {
		return nil, false
	}
	c.recent.MoveToFront(e)
	return e.Value.(*thing).value, true
}

// put keeps something that nobody changes any more, in place of what is under its key.
func (c *cache) put(key, value any, bytes int64, now time.Time) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.things[key]; e != nil {
		c.used -= c.recent.Remove(e).(*thing).bytes
		delete(c.things, key)
	}
	if bytes += lotBytes; bytes <= c.limit/2 {
		c.things[key] = c.recent.PushFront(&thing{key, value, bytes, now})
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

// lotKey names a lot.
type lotKey struct {
	sharding.Key        // without a device: of all under the first level
	metrics      string // as nameOf has them
}

// nameOf is another one for other metrics, whatever they are called: those of a query may have any name.
func nameOf(metrics []string) string {
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

// heads counts the rows of a bin, of which some were told just now.
func (m *cacheMetrics) heads(b *keptBin, told *store.HeadRows) {
	all, now := 0, told.Frame.Rows()
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
		limit: limit, age: age, lots: make(map[lotKey]*list.Element), things: make(map[any]*list.Element),
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

// lot is that of a key, and the one that was used last from now on.
func (c *cache) lot(key lotKey) *lot {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.lots[key]; e != nil {
		c.recent.MoveToFront(e)
		return e.Value.(*lot)
	}
	l := &lot{cache: c, key: key, loading: make(chan struct{}, 1), stored: make(map[storedID]*stored)}
	c.lots[key] = c.recent.PushFront(l)
	c.add(l, lotBytes+int64(len(key.metrics)))
	return l
}

// asked is what a lot would be asked for to know all of r. A lot that is being read is as it was before.
func (c *cache) asked(key lotKey, r telemetry.Range, now time.Time) []span {
	c.mu.Lock()
	e := c.lots[key]
	c.mu.Unlock()
	if e == nil {
		return []span{{Range: r}}
	}
	l := e.Value.(*lot)
	select {
	case l.loading <- struct{}{}:
		defer func() { <-l.loading }()
		return l.errands(r, now)
	default:
		return []span{{Range: r, asOf: 1}}
	}
}

// count changes what a lot takes, and makes room. One that would leave no room for others goes itself.
func (c *cache) count(l *lot, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !l.forgotten {
		if c.add(l, bytes); l.bytes > c.limit/2 {
			c.forget(c.lots[l.key])
		}
	}
	c.trim()
}

// add is called by who holds mu.
func (c *cache) add(l *lot, bytes int64) {
	l.bytes += bytes
	c.used += bytes
}

// drop forgets a lot; who reads it goes on with what it has.
func (c *cache) drop(l *lot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.lots[l.key]; e != nil && e.Value == l {
		c.forget(e)
	}
	c.metrics.bytes.Set(float64(c.used))
}

// forget is called by who holds mu.
func (c *cache) forget(e *list.Element) {
	switch x := c.recent.Remove(e).(type) {
	case *thing:
		delete(c.things, x.key)
		c.used -= x.bytes
	case *lot:
		delete(c.lots, x.key)
		c.used -= x.bytes
		x.bytes, x.forgotten = 0, true
	}
	c.metrics.evictions.Inc()
}

// stored is a chunk that was read. All but the frame stays as it is.
type stored struct {
	chunk   *chunk.Chunk
	expires int64 // ms since 1970 UTC: from then on the service may have removed it
	bytes   int64 // without the frame
	lot     *lot
	load    int // of the lot, that has brought it

	mu      sync.Mutex // guards below
	frame   *chunk.Frame
	removed bool // from the lot
}

// decode decodes the metrics of the lot, once while there is room for what is decoded. Nobody may change the frame.
func (s *stored) decode() (chunk.Frame, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frame != nil {
		return *s.frame, nil
	}
	f, err := s.chunk.Frame(nil)
	if err != nil {
		return f, err
	}
	if n := frameBytes(f); !s.removed && s.lot.cache.mayDecode(s.lot, n) {
		s.frame = &f
	}
	return f, nil
}

// mayDecode takes room for a frame as long as its lot takes no more than half of the cache, and nothing is forgotten
// for it: it is cheaper to decode a chunk again than to read it again.
func (c *cache) mayDecode(l *lot, bytes int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.forgotten || l.bytes+bytes > c.limit/2 || c.used+bytes > c.limit {
		return false
	}
	c.add(l, bytes)
	c.metrics.bytes.Set(float64(c.used))
	return true
}
