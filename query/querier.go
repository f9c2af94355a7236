// Package query answers queries about a tenant's readings. Package read below it finds and reads everything that an
// answer is made of, package merge makes the answer, each series and instant once.
//
// This package has admission and quotas, the requests and answers, and the lists of devices and metrics. Package
// httpapi has their form on the wire. It must not know Cosmos DB, Kafka or HTTP.
package query

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"binnacle/internal/catalog/catalogcache"
	"binnacle/internal/settings"
	"binnacle/internal/store"
	"binnacle/internal/stream/topics"
	"binnacle/internal/tenant"
	"binnacle/query/read"
	"binnacle/query/read/kept"
	"binnacle/query/read/piece"
	"binnacle/query/read/plan"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

// Config is what a Querier needs. Reader, Heads, Directory and Catalog have no default. Its tags are package
// settings's.
type Config struct {
	Reader store.Reader `kong:"-"`
	Heads  store.Heads  `kong:"-"`
	Log    store.Log    `kong:"-"` // which partitions there are and how far they reach; nil: not known
	// Topics are the topics that are read, with their tenants; none: no topic is bound to a tenant.
	Topics    topics.Set     `kong:"-"`
	Directory plan.Directory `kong:"-"`
	// Rollups is read by panels over many devices; nil: they read chunks.
	Rollups store.RollupReader `kong:"-"`
	Catalog store.Catalog      `kong:"-"`

	Fanout           int     `name:"query-fanout" help:"Most scans that a query runs at the same time." default:"16"`
	MemoryBytes      int64   `name:"query-memory-mb" help:"Most memory of a query, in MiB." type:"mib" default:"256"`
	TotalMemoryBytes int64   `name:"queries-memory-mb" help:"Most memory of all queries together, in MiB." type:"mib" default:"1024"`
	CacheBytes       int64   `name:"query-cache-mb" help:"Memory of the chunk cache, in MiB. Negative disables it." type:"mib" default:"256"`
	MaxRUs           float64 `name:"query-max-rus" help:"Most request units that a query may cost." default:"50000"`

	// TagsAge is for what ingesters have reported that went away since; changes that they have now are seen at once.
	TagsAge   time.Duration `name:"tags-age" help:"Age up to which a tenant's cached catalog is used, unless an ingester has added to it." default:"1m"`
	TagsBytes int64         `name:"tags-memory-mb" help:"Memory of cached catalogs, in MiB. The catalog used last is always kept. A million devices with eight tags take about 140 MiB." type:"mib" default:"256"`

	// CacheAge bounds how long a query may show chunks that a person has deleted from the store. Binnacle itself
	// deletes nothing before its time to live is over.
	CacheAge time.Duration `name:"query-cache-age" help:"Age after which a cached key is read again in full." default:"1h"`

	// MaxQueries is also what bounds one tenant: to half of it, rounded up.
	MaxQueries   int           `help:"Most queries that run at the same time. A tenant gets half of them." default:"32"`
	MaxQueued    int           `help:"Most queries of a tenant in the queue." default:"64"`
	QueueTimeout time.Duration `help:"Longest time of a query in the queue." default:"30s"`

	// Timeout begins when it is the query's turn. A streamed answer may take longer while the client takes more.
	Timeout time.Duration `name:"query-timeout" help:"Longest time that a query may run. A request can set a shorter time (timeout)." default:"30s"`

	// Limits are of tenants for which nothing else is set. Each of several queriers grants a part of them.
	Limits   tenant.QueryLimits `kong:"embed,prefix='tenant-'"`
	Queriers int                `help:"Number of query processes. Each grants a tenant its share of the tenant's limits." default:"1"`

	Now        func() time.Time      `kong:"-"` // time.Now
	Registerer prometheus.Registerer `kong:"-"` // none
	Logger     *slog.Logger          `kong:"-"` // none
}

func (c Config) withDefaults() Config {
	total := c.TotalMemoryBytes
	settings.Defaults(&c)
	if total == 0 {
		c.TotalMemoryBytes = max(c.TotalMemoryBytes, c.MemoryBytes)
	}
	return c
}

// Validate reports every setting that is out of bounds, by the name of its flag.
func (c Config) Validate() error {
	var faults settings.Faults
	check := faults.Check
	check(c.Fanout > 0, "--query-fanout %d is not above 0", c.Fanout)
	check(c.MemoryBytes > 0, "--query-memory-mb %d is not above 0", c.MemoryBytes>>20)
	check(c.TotalMemoryBytes >= c.MemoryBytes, "--queries-memory-mb %d: one query alone may hold %d",
		c.TotalMemoryBytes>>20, c.MemoryBytes>>20)
	check(c.CacheAge > 0, "--query-cache-age %s is not above 0", c.CacheAge)
	check(c.TagsAge > 0, "--tags-age %s is not above 0", c.TagsAge)
	check(c.TagsBytes > 0, "--tags-memory-mb %d is not above 0", c.TagsBytes>>20)
	check(c.MaxRUs > 0, "--query-max-rus %v is not above 0", c.MaxRUs)
	check(c.MaxQueries > 0, "--max-queries %d is not above 0", c.MaxQueries)
	check(c.MaxQueued > 0, "--max-queued %d is not above 0", c.MaxQueued)
	check(c.Queriers > 0, "--queriers %d is not above 0", c.Queriers)
	check(c.Timeout > 0, "--query-timeout %s is not above 0", c.Timeout)
	check(c.QueueTimeout > 0, "--queue-timeout %s is not above 0", c.QueueTimeout)
	return faults.Err()
}

// missing reports every dependency that is not set.
func (c Config) missing() error {
	var faults settings.Faults
	for name, is := range map[string]bool{"Reader": c.Reader != nil, "Heads": c.Heads != nil,
		"Directory": c.Directory != nil, "Catalog": c.Catalog != nil} {
		faults.Check(is, "query: %s is missing", name)
	}
	return faults.Err()
}

// Querier answers queries. It is safe for any number of callers and starts nothing that outlives a call.
type Querier struct {
	cfg       Config
	reader    *read.Reader
	admission *admission
	quotas    *quotas
	kept      *Kept
	metrics   *metrics
	devices   *catalogcache.Cache
	versions  sync.Map       // heads' versions when the catalogs were read, by tenant
	silent    rate.Sometimes // limits the log: every query finds out
}

// New makes a Querier. Its error names every fault of the configuration.
func New(cfg Config) (*Querier, error) {
	cfg = cfg.withDefaults()
	if err := errors.Join(cfg.missing(), cfg.Validate()); err != nil {
		return nil, err
	}
	room := kept.New(cfg.CacheBytes, cfg.Now, cfg.Registerer)
	reader := read.New(read.Config{
		Chunks: cfg.Reader, Heads: cfg.Heads, Log: cfg.Log, Directory: cfg.Directory,
		Rollups: cfg.Rollups, Topics: cfg.Topics,
		Fanout: cfg.Fanout, Bytes: cfg.MemoryBytes, TotalBytes: cfg.TotalMemoryBytes, MaxRUs: cfg.MaxRUs,
		Room: room, RoomAge: cfg.CacheAge, Registerer: cfg.Registerer,
		Now: cfg.Now, Logger: cfg.Logger,
	})
	q := &Querier{
		cfg: cfg, reader: reader, metrics: newMetrics(cfg.Registerer), silent: rate.Sometimes{Interval: silentEvery},
		devices: catalogcache.New(catalogcache.Config{
			Catalog: cfg.Catalog, Bytes: cfg.TagsBytes, Now: cfg.Now,
		}),
	}
	q.kept = &Kept{room, cfg.CacheAge, q.metrics.kept}
	q.quotas = &quotas{limits: q.Limits, share: 1 / float64(cfg.Queriers), now: cfg.Now,
		tenants: make(map[string]*quota), dropAt: minDropAt}
	q.admission = newAdmission(cfg, q.places)
	return q, nil
}

// Timeout returns how long one query may take.
func (q *Querier) Timeout() time.Duration { return q.cfg.Timeout }

// Limits returns what a tenant's queries may take, of all queriers together.
func (q *Querier) Limits(tenant string) tenant.QueryLimits {
	known, _ := q.Tenant(tenant)
	return known.Queries.Or(q.cfg.Limits)
}

// Used returns how much of its limits of queries a tenant has used up of what this process grants, as parts of one, by
// the names of their flags: of rates in the seconds that they are averaged over, of request units a day on this day.
func (q *Querier) Used(tenant string) map[string]float64 { return q.quotas.used(tenant) }

// places returns how many queries of a tenant may run at the same time by its limits, at least one; 0 for no bound.
func (q *Querier) places(tenant string) int {
	n, bounded := q.Limits(tenant).Concurrency.Of()
	if !bounded {
		return 0
	}
	return int(max(1, math.Ceil(min(n, math.MaxInt32)/float64(q.cfg.Queriers))))
}

// Tenant returns a tenant's document, as of the last refresh of the directory, and whether the tenant is known.
func (q *Querier) Tenant(name string) (tenant.Tenant, bool) {
	return q.cfg.Directory.Snapshot().Tenant(name)
}

// admitAndObserve runs a query of a kind when its turn has come, and counts it, with what run reads with its context.
func (q *Querier) admitAndObserve(ctx context.Context, kind, tenant string,
	run func(context.Context, *store.Meter) error) (err error) {
	started := q.cfg.Now()
	defer func() { q.metrics.observe(kind, q.cfg.Now().Sub(started), err) }()
	meter := &store.Meter{}
	if isAdmitted(ctx, tenant) {
		return run(store.WithMeter(ctx, meter), meter)
	}
	return q.admit(ctx, tenant, func(ctx context.Context, d *deadline) error {
		return run(context.WithValue(store.WithMeter(ctx, meter), deadlineKey{}, d), meter)
	})
}

// admittedTenant is the key of the tenant that a context was admitted for.
type admittedTenant struct{}

func isAdmitted(ctx context.Context, tenant string) bool {
	return ctx.Value(admittedTenant{}) == tenant
}

// Admit runs a query of a tenant when its turn has come. What run asks of the Querier for that tenant, with its
// context, is part of the one query: it waits for no turn, and its cost is the tenant's. Errors are ErrBusy, a
// *QuotaError, a *TimeoutError, the context's error and errors of run.
func (q *Querier) Admit(ctx context.Context, tenant string, run func(context.Context) error) error {
	if isAdmitted(ctx, tenant) {
		return run(ctx)
	}
	return q.admit(ctx, tenant, func(ctx context.Context, _ *deadline) error { return run(ctx) })
}

func (q *Querier) admit(ctx context.Context, tenant string, run func(context.Context, *deadline) error) error {
	if err := q.cfg.Directory.Snapshot().Damaged(tenant); err != nil {
		return q.countRefused(tenant, err)
	}
	if err := q.countRefused(tenant, q.quotas.admit(tenant)); err != nil {
		return err
	}
	leave, err := q.admission.acquire(ctx, tenant)
	if err != nil {
		return q.countRefused(tenant, err)
	}
	defer leave()
	ctx, d := q.begin(ctx)
	defer d.stop()
	ctx = store.WithMeter(ctx, &store.Meter{Charged: func(rus float64) {
		q.quotas.spend(tenant, rus)
		q.metrics.charged(tenant, rus)
	}})
	return q.countRefused(tenant, q.timedOut(ctx, run(context.WithValue(ctx, admittedTenant{}, tenant), d)))
}

// SourceHeader is the header, or the trailer, that says where an answer came from.
const SourceHeader = "X-Binnacle-Source"

// Source returns the value of SourceHeader: rollup documents, chunks, and rows of heads, also rows read before.
func Source(s Stats) string {
	return fmt.Sprintf("rollups=%d, chunks=%d, heads=%d", s.Rollups+s.RollupsCached, s.Documents+s.Cached, s.HeadRows)
}

// SpentHeader is the header, or the trailer, with the RU that an answer has cost.
const SpentHeader = "Binnacle-Request-Units"

// Spent returns the value of SpentHeader for the requests that a meter has counted.
func Spent(m *store.Meter) string { return strconv.FormatFloat(rounded(m.Read().RUs), 'f', -1, 64) }

// rounded rounds a sum of charges, which are hundredths, to get rid of what a float adds.
func rounded(rus float64) float64 { return math.Round(rus*1e4) / 1e4 }

func (q *Querier) countRefused(tenant string, err error) error {
	if over := (*QuotaError)(nil); errors.As(err, &over) {
		q.metrics.forTenant(tenant, func(tenant string) { q.metrics.refused.WithLabelValues(tenant).Inc() })
	}
	return err
}

func (q *Querier) newQuery(r read.Request) *read.Query {
	if n, bounded := q.Limits(r.Tenant).Samples.Of(); bounded {
		r.Samples = int64(n)
	}
	r.Continue = func() error { return q.quotas.mayContinue(r.Tenant) }
	return q.reader.Query(r)
}

// Kept keeps parts of answers in the memory of the cache (Config.CacheBytes), for its age.
type Kept struct {
	room    *kept.Room
	age     time.Duration
	answers *prometheus.CounterVec
}

// Get returns what Put has kept under a key, nil for nothing.
func (k *Kept) Get(key any) any {
	value, _ := k.room.Get(key, k.age)
	return value
}

// Put keeps a value. Nobody may change it afterwards.
func (k *Kept) Put(key, value any, bytes int64) { k.room.Put(key, value, bytes) }

// Count counts an answer that used a kept part (hit), or could have.
func (k *Kept) Count(hit bool) {
	result := "miss"
	if hit {
		result = "hit"
	}
	k.answers.WithLabelValues(result).Inc()
}

// Kept returns what keeps parts of answers.
func (q *Querier) Kept() *Kept { return q.kept }

// Memory returns a counter of what an answer holds back, up to a limit, as a part of what all queries may hold
// together. It must be closed.
func (q *Querier) Memory(limit int64) *Memory { return q.reader.Memory(limit) }

// deadline ends a query that takes too long. A query that streams its answer may continue while the caller takes more
// of it: then the time counts from there.
type deadline struct {
	after time.Duration
	end   context.CancelCauseFunc

	taken  atomic.Int64 // elements of the answer
	taking atomic.Bool  // the caller has one, and has not returned

	mu    sync.Mutex // guards below
	timer *time.Timer
	seen  int64 // taken when the timer went off last
}

// begin returns a context that ends when the query's time is over. The caller stops the deadline.
func (q *Querier) begin(ctx context.Context) (context.Context, *deadline) {
	d := &deadline{after: q.cfg.Timeout}
	if asked := piece.TimeoutOf(ctx); asked > 0 {
		d.after = min(d.after, asked)
	}
	// While the store fails its requests are sent again, until the query has to end.
	ctx, d.end = context.WithCancelCause(store.WithPersistence(piece.WithTimeout(ctx, d.after), d.after))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timer = time.AfterFunc(d.after, d.check)
	return ctx, d
}

// check ends the query unless its caller has taken something since the last check, or is at it.
func (d *deadline) check() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if taken := d.taken.Load(); d.taking.Load() || taken > d.seen {
		d.seen = taken
		d.timer.Reset(d.after)
		return
	}
	d.end(&TimeoutError{After: d.after})
}

func (d *deadline) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timer.Stop()
	d.end(context.Canceled)
}

// timedOut returns the error of a query that has ended with err: a *TimeoutError if it has taken too long.
func (q *Querier) timedOut(ctx context.Context, err error) error {
	var late, while *TimeoutError
	var notYet *NotYetError
	if err == nil || errors.As(err, &notYet) || !errors.As(context.Cause(ctx), &late) {
		return err
	}
	if !errors.As(err, &while) {
		q.metrics.timeouts.WithLabelValues("other").Inc()
		return late
	}
	q.metrics.timeouts.WithLabelValues("store").Inc()
	q.silent.Do(func() {
		q.cfg.Logger.Warn("the store does not answer", "read", while.Read, "after", while.After, "error", while)
	})
	return while
}

// silentEvery is how often the log says that the store, or a head, does not answer: every query finds out.
const silentEvery = 10 * time.Second

// deadlineKey is the key of the deadline of a query that streams its answer, in a context.
type deadlineKey struct{}

// streamed returns emit as a query of the context calls it: never after its end, and known to its deadline.
func streamed[T any](ctx context.Context, emit func(T) error) func(T) error {
	d, ok := ctx.Value(deadlineKey{}).(*deadline)
	if !ok {
		return emit
	}
	return func(x T) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		d.taking.Store(true)
		err := emit(x)
		d.taking.Store(false)
		d.taken.Add(1)
		return err
	}
}
