package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"binnacle/binning/chunk"
	"binnacle/ingest/admit"
	"binnacle/ingest/bins"
	"binnacle/ingest/catalogupdates"
	"binnacle/ingest/decode"
	"binnacle/ingest/journal"
	"binnacle/ingest/write"
	"binnacle/internal/catalog"
	"binnacle/internal/catalog/catalogcache"
	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/retry"
	"binnacle/internal/store"
	"binnacle/sharding"

	"golang.org/x/time/rate"
)

// Directory has the stored facts about tenants; *control.Directory is one.
type Directory interface {
	Snapshot() *control.Snapshot
	Refresh(ctx context.Context) (*control.Snapshot, error)
	Register(ctx context.Context, tenant string) (*control.Snapshot, error)
	AskMonth(ctx context.Context, container, tenant string) error
}

type DeadLetterWriter interface {
	// Publish returns nil when the broker has acknowledged all of them. After an error some may have been published: they
	// are published again.
	Publish(ctx context.Context, deadLetters []write.DeadLetter) error
}

// Journal takes blocks.
type Journal interface {
	// Append appends records to a partition of a topic's journal in one request, and returns the offset of the first one
	// once all replicas in sync have them. After an error they may be there all the same, but for store.ErrTooLarge: the
	// broker does not take so much.
	Append(ctx context.Context, topic string, partition int32, values [][]byte) (base int64, err error)
}

// Schemas is a schema registry with the schemas that were fetched from it.
type Schemas interface {
	decode.Schemas
	// Fetch asks for a schema. It returns nil when the registry has answered, even without a schema.
	Fetch(ctx context.Context, id uint32) error
}

// Executor does the jobs of Workers. It is safe for any number of callers.
type Executor struct {
	stores   Stores
	patience time.Duration // timeout of one attempt
	access   *accessWatch
	complain *rate.Limiter // limits log lines about attempts that failed
	failing  sync.Map      // operations with a logged failure: the time of it
	pauses   retry.Policy
	register bool // unknown tenants
	now      func() time.Time
	metrics  *metrics
	devices  *catalogcache.Cache // entries of the catalog
	labels   labelCache
	log      *slog.Logger
}

func newExecutor(cfg Config, stores Stores, m *metrics) *Executor {
	return &Executor{
		stores: stores, patience: cfg.Patience, access: &accessWatch{now: cfg.Now, after: cfg.DeniedFor},
		complain: rate.NewLimiter(rate.Every(10*time.Second), 3),
		pauses:   pausesFrom(cfg.RetryBackoff), register: cfg.Register, now: cfg.Now, metrics: m, log: cfg.Logger,
		labels: labelCache{tenants: map[string]*cachedLabels{}},
		devices: catalogcache.New(catalogcache.Config{
			Catalog: stores.Catalog, Of: new(string), Bytes: cfg.CatalogBytes, Now: cfg.Now}),
	}
}

// Try makes one attempt at a job and records its result in the job: bad infrastructure slows, it loses nothing, and the
// Worker decides when to try again (rule W11). It returns an error only when the context has ended; the job may then
// have been done or not.
func (e *Executor) Try(ctx context.Context, job write.Job) error {
	attempt, cancel := context.WithTimeout(ctx, e.patience)
	defer cancel()
	what, err := e.do(attempt, job)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r := write.ResultOf(err)
	job.Failed(r)
	e.access.record(r.Fault, err)
	if err == nil {
		e.recovered(what)
	} else {
		e.metrics.retries.WithLabelValues(what).Inc()
		if e.complain.Allow() {
			e.failing.Store(what, e.now())
			e.log.Warn("attempt failed, will retry", "operation", what, "fault", string(r.Fault), "error", err)
		}
	}
	return nil
}

func (e *Executor) do(ctx context.Context, job write.Job) (what string, err error) {
	switch j := job.(type) {
	case *write.Lookup:
		return "lookup", e.lookup(ctx, j)
	case *write.Create:
		return "create", e.create(ctx, j)
	case *write.Publish:
		return "publish", e.stores.DeadLetters.Publish(ctx, j.DeadLetters)
	case *write.CatalogUpdate:
		return "update catalog", e.updateCatalog(ctx, j)
	case *write.LabelLookup:
		return "read labels", e.labelValues(ctx, j)
	case *write.Register:
		return "register", e.registerTenant(ctx, j.Tenant)
	case *write.Stamp:
		return "write mark", e.stores.Streams.Advance(ctx, j.Stream, j.Partition, j.Mark)
	case *write.Append:
		return "append", e.append(ctx, j)
	}
	panic(fmt.Sprintf("ingest: unknown job %T", job))
}

// append appends to the journal, and looks for an append before that may be gone (rule J6).
func (e *Executor) append(ctx context.Context, j *write.Append) (err error) {
	j.Base, err = e.stores.Journal.Append(ctx, j.Topic, j.Partition, j.Values)
	if err != nil || j.Unsure == (journal.Link{}) || e.stores.Blocks == nil {
		return err
	}
	blocks, at := e.stores.Blocks.Partition(j.Topic, j.Partition), j.Unsure.Offset
	first, end, err := blocks.Bounds(ctx)
	if j.IsGone = true; err != nil || at < first || at >= end {
		return err
	}
	return blocks.Each(ctx, at, at+1, func(_ int64, value []byte) error {
		r, err := journal.ParseRecord(value)
		j.IsGone = err != nil || r.Nonce != j.Unsure.Nonce
		return nil
	})
}

// Run repeats one job until it is done. It returns an error only when the context has ended.
func (e *Executor) Run(ctx context.Context, job write.Job) error {
	return e.persist(ctx, "job", func() error {
		if err := e.Try(ctx, job); err != nil {
			return err
		}
		if r := job.Outcome(); r.Fault != bins.None && r.Fault != bins.Rejected {
			return fmt.Errorf("the attempt failed: %s", r.Fault)
		}
		return nil
	})
}

// lookup reads the newest chunk under any of the chain's keys.
func (e *Executor) lookup(ctx context.Context, j *write.Lookup) error {
	j.Found = false
	for _, key := range j.Keys {
		tail, _, err := e.stores.Chunks.Last(ctx, key, j.Chain)
		switch {
		case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrNoContainer):
		case err != nil:
			return err
		case !j.Found || tail.Number > j.Tail.Number:
			j.Found, j.Tail = true, tail
		}
		if err == nil {
			if err := e.stores.Directory.AskMonth(ctx, key.Container, ""); err != nil { // create does the same
				return err
			}
		}
	}
	return nil
}

// create writes a document, or finds out which one has its id (rule W6). It stores no rows that are erased by now.
func (e *Executor) create(ctx context.Context, j *write.Create) error {
	// Nothing is stored in a container that this process's snapshot lacks: heads list all of them (rule R1). One that
	// is expired is about to be dropped, with all that is in it: provision must take that back, or make it again.
	if err := e.stores.Directory.AskMonth(ctx, j.Key.Container, ""); err != nil {
		return err
	}
	if e.stores.Directory.Snapshot().Expired(j.Key.Container) {
		return fmt.Errorf("container %s is expired: %w", j.Key.Container, store.ErrNoContainer)
	}
	age := control.SnapshotLife
	if id, _ := chunk.ParseID(j.ID); id.Number == 0 { // it meets no fence
		age = firstAge
	}
	orders, err := e.orders(ctx, j.Tenant(), age)
	if err != nil {
		return err
	}
	doc, fence, err := j.Under(orders, e.now())
	if err != nil {
		return err
	}
	if _, err = e.stores.Chunks.Create(ctx, j.Key, j.ID, doc); err == nil {
		j.Existing = fence
	}
	if exists, ok := errors.AsType[*store.ExistsError](err); ok {
		j.Existing, err = e.existing(ctx, j.Key, j.ID, exists.Session)
	}
	return err
}

// firstAge is the greatest age of orders of erasure under which the first chunk of a chain is stored. It meets no
// fence: it must be there, or not be sent, when the sweep reads again five minutes after its order (rule E-R7).
// entryAge is the same of entries of the catalog, which forgets them until a minute after an order (rule E-R10).
const firstAge, entryAge = time.Minute, 45 * time.Second

// orders returns a tenant's orders of erasure, no older than that. Of a tenant with a damaged document none are known.
func (e *Executor) orders(ctx context.Context, tenant string, most time.Duration) (erasure.List, error) {
	s := e.stores.Directory.Snapshot()
	if e.now().Sub(s.ReadAt) > most {
		var err error
		if s, err = e.stores.Directory.Refresh(ctx); err != nil {
			return nil, err
		}
	}
	return s.Erasures(tenant), s.Damaged(tenant)
}

// existing reads the tail of a stored chunk. Of a document of another version, older or newer, only what chunk.Tail
// holds is known to mean the same.
func (e *Executor) existing(ctx context.Context, key sharding.Key, id, session string) (*store.Tail, error) {
	doc, _, err := e.stores.Chunks.Read(ctx, key, id, session)
	if err != nil {
		return nil, fmt.Errorf("read the stored chunk: %w", err)
	}
	tail, err := chunk.ParseTail(doc)
	if err != nil {
		return nil, fmt.Errorf("read the stored chunk %s: %w", id, err)
	}
	return &store.Tail{Number: tail.ID.Number, Through: tail.Through, From: tail.From, To: tail.To,
		Erased: tail.IsErased}, nil
}

// resolve obtains what a Worker lacked when it was fed, in as many attempts as that takes: a schema, or a newer
// snapshot. The caller passes a returned snapshot to Worker.SnapshotRead. It fails only when the context ends.
func (e *Executor) resolve(ctx context.Context, missing error) (snapshot *control.Snapshot, err error) {
	what := "snapshot"
	var schema *decode.UnknownSchema
	if errors.As(missing, &schema) {
		what = "schema"
	}
	err = e.persist(ctx, what, func() error {
		return e.attempt(ctx, func(ctx context.Context) (err error) {
			if schema != nil {
				return e.stores.Schemas.Fetch(ctx, schema.ID)
			}
			snapshot, err = e.refreshFor(ctx, missing)
			return err
		})
	})
	return snapshot, err
}

// refreshFor registers an unknown tenant, asks for a missing month, or else reads a newer snapshot and returns it.
func (e *Executor) refreshFor(ctx context.Context, missing error) (*control.Snapshot, error) {
	if unknown, ok := errors.AsType[*admit.UnknownTenant](missing); ok && e.register {
		return nil, e.registerTenant(ctx, unknown.Tenant)
	}
	if month, ok := errors.AsType[*admit.MissingMonth](missing); ok {
		if err := e.stores.Directory.AskMonth(ctx, month.Container, month.Tenant); !errors.Is(err, control.ErrMonthLimit) {
			return nil, err
		}
	}
	if erasure, ok := errors.AsType[*admit.PendingErasure](missing); ok {
		if erasure.Announced {
			if err := retry.Pause(ctx, erasurePause); err != nil {
				return nil, err
			}
		}
		_, err := e.stores.Directory.Refresh(ctx)
		return nil, err // nothing was looked for that is not there
	}
	return e.stores.Directory.Refresh(ctx)
}

// registerTenant registers a tenant. One with a damaged document is registered already, and its readings are refused.
func (e *Executor) registerTenant(ctx context.Context, tenant string) error {
	_, err := e.stores.Directory.Register(ctx, tenant)
	if _, ok := errors.AsType[*store.DamagedError](err); ok {
		return nil
	}
	return err
}

// erasurePause is how long a record waits that an order may erase before the orders are read again: they come in two
// writes.
const erasurePause = 500 * time.Millisecond

// longestPause is the longest pause between attempts, in multiples of the first one.
const longestPause = 64

func pausesFrom(first time.Duration) retry.Policy {
	return retry.Policy{First: first, Max: longestPause * first}
}

// silentPauses is how many pauses pass before the failure is logged.
const silentPauses = 6

// attempt calls do with the timeout of one attempt: a store that does not answer must not hold up a partition.
func (e *Executor) attempt(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, e.patience)
	defer cancel()
	return do(ctx)
}

// recovered logs that an operation succeeds after a failure was logged.
func (e *Executor) recovered(what string) {
	if since, failed := e.failing.LoadAndDelete(what); failed {
		e.log.Info("succeeds again", "operation", what, "after", e.now().Sub(since.(time.Time)).Round(time.Millisecond))
	}
}

// persist calls do until it returns nil or the context ends.
func (e *Executor) persist(ctx context.Context, what string, do func() error) error {
	for pauses := e.pauses.Begin(); ; {
		err := do()
		if err == nil {
			e.recovered(what)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		e.metrics.retries.WithLabelValues(what).Inc()
		if pauses.Count() >= silentPauses {
			e.failing.LoadOrStore(what, e.now())
			e.log.Warn("still failing, will retry", "operation", what, "attempts", pauses.Count()+1, "error", err)
		}
		if err := pauses.Wait(ctx); err != nil {
			return err
		}
	}
}

// ErrDenied ends an Ingester: the store has denied access for so long that it is no passing trouble. The process needs
// other credentials, and ends so that its operator sees why.
var ErrDenied = errors.New("the store denies access")

// accessWatch ends the ingester when the store denies access for too long. It is safe for any number of callers.
type accessWatch struct {
	now   func() time.Time
	after time.Duration
	stop  func(error) // nil while nothing can be stopped

	mu    sync.Mutex // guards below
	since time.Time  // first denial since the store last allowed access
}

func (d *accessWatch) record(f bins.Fault, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case f == bins.None, f == bins.KeyFull:
		d.since = time.Time{}
	case f != bins.Denied:
	case d.since.IsZero():
		d.since = d.now()
	case d.stop != nil && d.now().Sub(d.since) >= d.after:
		d.stop(fmt.Errorf("%w for %s: %w", ErrDenied, d.now().Sub(d.since).Round(time.Second), err))
	}
}

// catalogCopyAge is the greatest age of the copy of a tenant's catalog that decides what is new: an older one is
// refreshed first, since others may have written the same.
const catalogCopyAge = time.Minute

// updateCatalog writes to the catalog what was seen and is missing there, in as few pages as possible. Other ingesters
// may write of the same devices at the same time: readers merge pages.
func (e *Executor) updateCatalog(ctx context.Context, j *write.CatalogUpdate) error {
	now := e.now()
	orders, err := e.orders(ctx, j.Tenant, entryAge)
	if err != nil {
		return err
	}
	erased := orders.CatalogSince() // with an older copy all is written again
	known, err := e.devices.Get(ctx, j.Tenant, slices.MaxFunc([]time.Time{erased, j.Since}, time.Time.Compare))
	if err != nil {
		return err
	}
	news, updated := missingEntries(known, j, now)
	if since := now.Add(-catalogCopyAge); len(news) > 0 && !known.ReadAt().After(since) {
		if known, err = e.devices.Get(ctx, j.Tenant, since); err != nil {
			return err
		}
		news, updated = missingEntries(known, j, now)
	}
	if err := cmp.Or(checkAwaited(orders, news), checkErased(known, news, j)); err != nil {
		return err
	}
	pages, err := catalog.Pages(news, updated, "")
	if err != nil {
		return err
	}
	for _, p := range pages {
		err := e.stores.Catalog.Create(ctx, j.Tenant, p.ID, p.Doc)
		if err != nil && !errors.Is(err, store.ErrExists) {
			return err
		}
		if err := known.Add(ctx, catalog.Page{ID: p.ID, Entries: p.Entries, Updated: updated}); err != nil {
			return err
		}
	}
	j.Visible = make([]catalogupdates.Times, len(j.Entries))
	known.Use(func(x *catalog.Index) {
		for i := range j.Entries {
			if e, ok := x.Entry(j.Entries[i].Device); ok {
				j.Visible[i] = catalogupdates.Times{First: e.First, Last: e.Last}
			}
		}
	})
	return nil
}

// checkAwaited fails while an order about all days of a device of news has no positions: what it erases is not known.
func checkAwaited(orders erasure.List, news []catalog.Entry) error {
	for i := range news {
		if orders.IsAwaited(news[i].Device) {
			return fmt.Errorf("an order of erasure about device %s is announced", news[i].Device)
		}
	}
	return nil
}

// checkErased fails while the catalog has forgotten a device of news by an order that the worker has not applied: what
// is erased would count again.
func checkErased(known *catalogcache.Copy, news []catalog.Entry, j *write.CatalogUpdate) (err error) {
	orders := j.Snapshot.Erasures(j.Tenant)
	known.Use(func(x *catalog.Index) {
		for i := range news {
			until, ok := x.ForgottenUntil(news[i].Device, "")
			if ok && orders.MayHave(news[i].Device, until, j.Snapshot.ReadAt) {
				err = fmt.Errorf("an order of erasure about device %s is not applied yet", news[i].Device)
				return
			}
		}
	})
	return err
}

// missingEntries returns what a copy of the catalog lacks of what was seen, and the time of the update, which is later
// than all that the copy has.
func missingEntries(
	known *catalogcache.Copy, j *write.CatalogUpdate, now time.Time,
) (news []catalog.Entry, updated int64) {
	known.Use(func(x *catalog.Index) {
		updated = max(now.UnixMilli(), x.Updated()+1)
		for i, seen := range j.Entries {
			if one, ok := x.Diff(seen, updated, j.Times[i]); ok {
				news = append(news, one)
			}
		}
	})
	return news, updated
}

// labelCopyAge is the greatest age of the copy of a tenant's catalog that a Worker gets label values from.
const labelCopyAge = 15 * time.Second

func (e *Executor) labelValues(ctx context.Context, j *write.LabelLookup) error {
	now := e.now()
	known, err := e.devices.Get(ctx, j.Tenant, now.Add(-labelCopyAge))
	if err != nil {
		return err
	}
	j.Values = e.labels.of(j.Tenant, known, now)
	return nil
}

// labelCache has the label values of tenants, each once for all partitions that a process reads.
type labelCache struct {
	mu      sync.Mutex // guards below
	tenants map[string]*cachedLabels
}

// cachedLabels are the label values of a tenant as of a copy of its catalog.
type cachedLabels struct {
	version uint64
	values  *catalog.LabelValues
	used    time.Time
}

// labelsKept is how long label values are kept after their last use.
const labelsKept = 10 * time.Minute

func (l *labelCache) of(tenant string, known *catalogcache.Copy, now time.Time) *catalog.LabelValues {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.tenants, func(_ string, x *cachedLabels) bool { return now.Sub(x.used) > labelsKept })
	version, x := known.Version(), l.tenants[tenant]
	if x == nil || x.version != version {
		x = &cachedLabels{version: version}
		known.Use(func(index *catalog.Index) { x.values = index.LabelValues() })
	}
	x.used, l.tenants[tenant] = now, x
	return x.values
}
