package engine

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"binnacle/internal/lab/emulator/budget"
	"binnacle/internal/lab/emulator/kv"
	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/schema"
	"binnacle/internal/lab/emulator/sql"

	"github.com/valyala/fastjson"
)

// Account is what one emulated account holds: databases, containers and their items. It is safe for
// concurrent use. Databases and containers are kept in memory and in the store, there one JSON document
// each:
//
//	m s                      the number of the next container
//	m d <database>           databaseRecord
//	m c <database> 0 <name>  containerRecord
//	m a                      the capacity mode, of an account that is serverless or was
type Account struct {
	cfg   Config
	store *kv.Store
	// pace limits how often throughput may change.
	pace *budget.Pace
	// queries caches the parsed conditions of patches.
	queries sql.Cache

	// splitting is held while partitions are split, before mu: finding where to takes long.
	splitting sync.Mutex
	// due is when the next split must run, in nanoseconds since 1970.
	due      atomic.Int64
	Capacity Capacity

	mu        sync.RWMutex
	databases map[string]*database // mu guards all below
	next      uint32               // number of the next container; never used twice
}

type database struct {
	id  string
	rid []byte
	// budgets divides shared throughput, one budget a physical partition; nil without shared throughput.
	budgets []*budget.Budget
	// sequence numbers all writes of a database with shared throughput.
	sequence   *sequence
	record     databaseRecord        // account.mu guards
	containers map[string]*Container // account.mu guards
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
	// LSN is the sequence number of its making, where it shares throughput.
	LSN uint64 `json:"lsn,omitempty"`
}

type rangeRecord struct {
	ID  string `json:"id"`
	Min string `json:"min"`
	Max string `json:"max"`
	// Parents are the partitions that it came from by splits, the oldest first.
	Parents []ancestor `json:"parents,omitempty"`
	// Since is the number of the split that made the partition, among the container's splits; 0 for none.
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

// Open opens the data of an account. It starts nothing but what the storage engine needs. A data
// directory that is in use is an error that names it.
func Open(cfg Config) (*Account, error) {
	st, err := openStore(cfg)
	if err != nil {
		return nil, err
	}
	c := &Account{
		cfg: cfg, store: st, pace: &budget.Pace{}, databases: map[string]*database{},
	}
	c.due.Store(nothingDue)
	c.Capacity.account = c
	if err := c.load(); err != nil {
		_ = st.Close() // the error that matters is the other one
		return nil, err
	}
	return c, nil
}

// Close closes the data. Nothing may use the account any more.
func (a *Account) Close() error { return a.store.Close() }

func (a *Account) load() error {
	if err := a.each(sequenceKey, func(v []byte) error { return json.Unmarshal(v, &a.next) }); err != nil {
		return err
	}
	if err := a.each([]byte{spaceMeta, 'd'}, a.loadDatabase); err != nil {
		return err
	}
	for _, db := range a.databases {
		load := func(v []byte) error { return a.loadContainer(db, v) }
		if err := a.each(containerKey(db.id, ""), load); err != nil {
			return err
		}
	}
	if err := a.Capacity.load(); err != nil {
		return err
	}
	for _, o := range a.offers() {
		if o.offer.Pending != nil {
			a.schedule(o.offer.Pending.Due)
		}
	}
	return nil
}

func (a *Account) each(prefix []byte, read func(value []byte) error) error {
	for e := range a.store.Ascend(prefix, after(prefix)) {
		if err := read(e.Value()); err != nil {
			return fmt.Errorf("read the catalog: %w", err)
		}
	}
	return nil
}

func (a *Account) loadDatabase(v []byte) error {
	var r databaseRecord
	if err := json.Unmarshal(v, &r); err != nil {
		return err
	}
	a.databases[r.ID] = a.newDatabase(r)
	return nil
}

func (a *Account) newDatabase(r databaseRecord) *database {
	db := &database{
		id: r.ID, record: r, rid: ridBytes(r.RID), containers: map[string]*Container{}, sequence: &sequence{},
	}
	db.sequence.raise(1) // its own making
	if r.Offer != nil {
		db.budgets = a.newBudgets(r.Partitions, r.Offer.RUs)
	}
	return db
}

func (a *Account) newBudgets(n int, rus float64) []*budget.Budget {
	out := make([]*budget.Budget, n)
	for i := range out {
		out[i] = budget.New(rus/float64(n), a.cfg.Rules)
	}
	return out
}

func (a *Account) loadContainer(db *database, v []byte) error {
	var r containerRecord
	if err := json.Unmarshal(v, &r); err != nil {
		return err
	}
	co, err := a.newContainer(db, r)
	if err != nil {
		return err
	}
	for _, p := range co.parts() {
		p.sequence.raise(r.LSN)
		if err := p.load(a.store); err != nil {
			return err
		}
	}
	db.containers[r.Definition.ID] = co
	return nil
}

func (a *Account) newContainer(db *database, r containerRecord) (*Container, error) {
	def, err := schema.New(r.Definition)
	if err != nil {
		return nil, err
	}
	co := &Container{
		number: r.Number, rid: ridBytes(def.JSON.RID), ridText: def.JSON.RID, docs: def.JSON.Self + "docs/",
		account: a, database: db, record: r,
	}
	co.current.Store(&revision{Definition: def, generation: r.Generation})
	budgets := db.budgets
	if r.Offer != nil {
		budgets = a.newBudgets(len(r.Partitions), r.Offer.RUs)
	}
	var parts []*partition
	for _, p := range r.Partitions {
		part, err := newPartition(r.Number, p, budgets[p.Budget])
		if err != nil {
			return nil, err
		}
		if r.Offer == nil {
			part.sequence = db.sequence
		}
		parts = append(parts, part)
	}
	co.layout.Store(&parts)
	return co, nil
}

// database returns a database. a.mu is held.
func (a *Account) database(id string) (*database, error) {
	db := a.databases[id]
	if db == nil {
		return nil, refusal.NotFound("the database %q does not exist", id)
	}
	return db, nil
}

// Container returns a container; the error says which of the two names is unknown.
func (a *Account) Container(databaseID, containerID string) (*Container, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	db, err := a.database(databaseID)
	if err != nil {
		return nil, err
	}
	co := db.containers[containerID]
	if co == nil {
		return nil, refusal.NotFound("the container %q does not exist in the database %q", containerID, databaseID)
	}
	return co, nil
}

// put commits one document of the catalog, and what else is in the batch.
func (a *Account) put(b *kv.Batch, key []byte, record any) error {
	v, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("encode a record of the catalog: %w", err)
	}
	b.Set(key, v)
	a.store.Commit(b)
	return nil
}

func (a *Account) containers() (out []*Container) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for _, db := range a.databases {
		out = slices.AppendSeq(out, maps.Values(db.containers))
	}
	return out
}

// Containers returns all containers, by the names of their databases, then by their own.
func (a *Account) Containers() []*Container {
	out := a.containers()
	slices.SortFunc(out, func(x, y *Container) int {
		return cmp.Or(cmp.Compare(x.database.id, y.database.id), cmp.Compare(x.id(), y.id()))
	})
	return out
}

// ResetMeters sets what physical partitions have counted back to zero.
func (a *Account) ResetMeters() {
	for _, co := range a.Containers() {
		for _, p := range co.parts() {
			p.meter.Reset()
		}
	}
}

// Resource ids are random, so that two emulators in one process never share one: SDKs key caches by them. A
// database has 4 bytes, a container these 4 and 4 more, an item the container's 8 and 8 more. The high bit of a
// container's own bytes is set; other children of a database have it clear.
const (
	ridOfDatabase = 4
	containerRID  = 8
)

func newRID(parent []byte) []byte {
	own := random()
	if len(parent) > 0 {
		own[0] |= 0x80
	}
	return slices.Concat(parent, own)
}

func random() []byte {
	raw := make([]byte, 4)
	_, _ = rand.Read(raw) // never fails: crypto/rand
	return raw
}

// ridEncoding is base64 with the slash replaced, as the service writes resource ids.
var ridEncoding = base64.NewEncoding("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-")

func ridText(rid []byte) string { return ridEncoding.EncodeToString(rid) }

func ridBytes(text string) []byte {
	b, err := ridEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return b
}

// appendItemRID appends the resource id of the item that was created with that sequence number. The low byte comes
// first: the upper half of the last one is the kind of resource, 0 for an item (6 for a function, as recorded).
func appendItemRID(dst, container []byte, created uint64) []byte {
	var raw [containerRID + 8]byte
	copy(raw[:], container)
	binary.LittleEndian.PutUint64(raw[containerRID:], created)
	return ridEncoding.AppendEncode(dst, raw[:])
}

// newETag returns the ETag of a metadata resource.
func newETag(second int64) string {
	return `"` + string(appendETag(nil, binary.BigEndian.Uint32(random()), second)) + `"`
}

// Named returns the names of the database and the container that have these resource ids. A database that goes by the
// first as its name comes before. Without the second only the database is looked for.
func (a *Account) Named(databaseRID, containerRID string) (database, container string, ok bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.databases[databaseRID] != nil {
		return "", "", false
	}
	for _, db := range a.databases {
		if db.record.RID != databaseRID {
			continue
		}
		if containerRID == "" {
			return db.id, "", true
		}
		for name, co := range db.containers {
			if co.ridText == containerRID {
				return db.id, name, true
			}
		}
	}
	return "", "", false
}

// Gone reports whether a text can be nothing but the resource id of a database: none has it as its name.
func (a *Account) Gone(databaseRID string) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return len(ridBytes(databaseRID)) == ridOfDatabase && a.databases[databaseRID] == nil
}

// ItemID returns the id of the item with a resource id, in the logical partition of a key; "" when no item has
// it.
func (c *Container) ItemID(key, rid string) (id string, err error) {
	raw := ridBytes(rid)
	if len(raw) != containerRID+8 {
		return "", nil
	}
	made := binary.LittleEndian.Uint64(raw[containerRID:])
	err = c.logical(key, func(name string, h *header) {
		if h.created == made {
			id = name
		}
	})
	return id, err
}

// IDs returns the ids of all items of a logical partition, expired ones included.
func (c *Container) IDs(key string) (ids []string, err error) {
	err = c.logical(key, func(id string, _ *header) { ids = append(ids, id) })
	return ids, err
}

func (c *Container) logical(key string, visit func(id string, h *header)) error {
	var parser fastjson.Parser
	full, err := c.current.Load().keyOf(&parser, key)
	if err != nil {
		return c.misaddressed(err)
	}
	at := full.AppendEPK(nil)
	return c.headers(prefixSpan(at), func(item []byte, h *header) (bool, error) {
		visit(string(item[len(at):]), h)
		return true, nil
	})
}
