package cosmosemu

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"binnacle/internal/cosmosemu/budget"
	"binnacle/internal/cosmosemu/refusal"
	"binnacle/internal/cosmosemu/schema"
)

// catalog holds the databases and containers, in memory and in the store. In the store it is one JSON
// document each:
//
//	m s                      the number of the next container
//	m d <database>           databaseRecord
//	m c <database> 0 <name>  containerRecord
type catalog struct {
	cfg   Config
	store *store

	// splitting is held while partitions are split, before mu: finding where to takes long.
	splitting sync.Mutex
	due       atomic.Int64 // when the next split is to be done: nanoseconds since 1970

	mu        sync.RWMutex
	databases map[string]*database // mu guards all below
	next      uint32               // number of the next container; never used twice
}

type database struct {
	id         string
	rid        []byte
	budgets    []*budget.Budget      // of the shared throughput, one a physical partition; nil without
	record     databaseRecord        // catalog.mu guards
	containers map[string]*container // catalog.mu guards
}

type databaseRecord struct {
	ID   string `json:"id"`
	RID  string `json:"_rid"`
	ETag string `json:"_etag"`
	TS   int64  `json:"_ts"`
	// Offer is the throughput that containers without their own share, and Partitions the number of
	// physical partitions that it is divided over.
	Offer      *offer `json:"offer,omitempty"`
	Partitions int    `json:"partitions,omitempty"`
}

type containerRecord struct {
	Number     uint32        `json:"number"`
	Generation uint32        `json:"generation"`
	Definition schema.JSON   `json:"definition"`
	Offer      *offer        `json:"offer,omitempty"` // nil: the database's
	Partitions []rangeRecord `json:"partitions"`
}

type rangeRecord struct {
	ID  string `json:"id"`
	Min string `json:"min"`
	Max string `json:"max"`
	// Parents are the partitions that it came from by splits, the oldest first.
	Parents []ancestor `json:"parents,omitempty"`
	// Since is the number of the split that made it, among those of the container; 0 for none.
	Since int `json:"since,omitempty"`
	// Budget says which of the shares of the throughput it spends.
	Budget int `json:"budget"`
}

func databaseKey(id string) []byte { return append([]byte{spaceMeta, 'd'}, id...) }

func containerKey(database, id string) []byte {
	key := append([]byte{spaceMeta, 'c'}, database...)
	return append(append(key, 0), id...)
}

var sequenceKey = []byte{spaceMeta, 's'}

// loadCatalog reads the catalog from the store.
func loadCatalog(cfg Config, st *store) (*catalog, error) {
	c := &catalog{cfg: cfg, store: st, databases: map[string]*database{}}
	c.due.Store(nothingDue)
	if err := c.each(sequenceKey, func(v []byte) error { return json.Unmarshal(v, &c.next) }); err != nil {
		return nil, err
	}
	if err := c.each([]byte{spaceMeta, 'd'}, c.loadDatabase); err != nil {
		return nil, err
	}
	for _, db := range c.databases {
		load := func(v []byte) error { return c.loadContainer(db, v) }
		if err := c.each(containerKey(db.id, ""), load); err != nil {
			return nil, err
		}
	}
	for _, o := range c.offers() {
		if o.offer.Pending != nil {
			c.schedule(o.offer.Pending.Due)
		}
	}
	return c, nil
}

func (c *catalog) each(prefix []byte, read func(value []byte) error) error {
	it, err := c.store.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return fmt.Errorf("read the catalog: %w", err)
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		err = read(it.Value())
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("read the catalog: %w", err)
	}
	return nil
}

func (c *catalog) loadDatabase(v []byte) error {
	var r databaseRecord
	if err := json.Unmarshal(v, &r); err != nil {
		return err
	}
	c.databases[r.ID] = c.newDatabase(r)
	return nil
}

func (c *catalog) newDatabase(r databaseRecord) *database {
	db := &database{id: r.ID, record: r, rid: ridBytes(r.RID), containers: map[string]*container{}}
	if r.Offer != nil {
		db.budgets = c.newBudgets(r.Partitions, r.Offer.RUs)
	}
	return db
}

func (c *catalog) newBudgets(n int, rus float64) []*budget.Budget {
	out := make([]*budget.Budget, n)
	for i := range out {
		out[i] = budget.New(rus/float64(n), c.cfg.rules())
	}
	return out
}

func (c *catalog) loadContainer(db *database, v []byte) error {
	var r containerRecord
	if err := json.Unmarshal(v, &r); err != nil {
		return err
	}
	co, err := c.newContainer(db, r)
	if err != nil {
		return err
	}
	for _, p := range co.parts() {
		if err := p.load(c.store.db); err != nil {
			return err
		}
	}
	db.containers[r.Definition.ID] = co
	return nil
}

func (c *catalog) newContainer(db *database, r containerRecord) (*container, error) {
	def, err := schema.New(r.Definition)
	if err != nil {
		return nil, err
	}
	co := &container{
		number: r.Number, rid: ridBytes(def.JSON.RID), ridText: def.JSON.RID, docs: def.JSON.Self + "docs/",
		database: db, record: r,
	}
	co.current.Store(&revision{Definition: def, generation: r.Generation})
	budgets := db.budgets
	if r.Offer != nil {
		budgets = c.newBudgets(len(r.Partitions), r.Offer.RUs)
	}
	var parts []*partition
	for _, p := range r.Partitions {
		part, err := newPartition(r.Number, p, budgets[p.Budget])
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	co.layout.Store(&parts)
	return co, nil
}

// find gives a container; the error says which of the two names is unknown.
func (c *catalog) find(databaseID, containerID string) (*container, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	db := c.databases[databaseID]
	if db == nil {
		return nil, refusal.NotFound("the database %q does not exist", databaseID)
	}
	co := db.containers[containerID]
	if co == nil {
		return nil, refusal.NotFound("the container %q does not exist in the database %q", containerID, databaseID)
	}
	return co, nil
}

// put commits one document of the catalog, and what else is in the batch.
func (c *catalog) put(b *pebble.Batch, key []byte, record any) error {
	v, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("encode a record of the catalog: %w", err)
	}
	if err := b.Set(key, v, nil); err != nil {
		return fmt.Errorf("write the catalog: %w", err)
	}
	return c.store.commit(b)
}
