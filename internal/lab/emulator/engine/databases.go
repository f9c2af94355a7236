package engine

import (
	"strconv"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/kv"
	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/schema"
	"binnacle/sharding/epk"
)

func (a *Account) partitions(t Throughput) int {
	if a.cfg.PhysicalPartitions > 0 {
		return a.cfg.PhysicalPartitions
	}
	return ru.Partitions(t.RUs, t.Autoscale)
}

// Resource is a database, container or offer as it is on the wire.
type Resource struct {
	Body []byte
	ETag string
	// In is, for a container, the resource id of its database.
	In string
	// LSN is the partition's sequence number after the making, where containers share throughput; 0: not known.
	LSN uint64
}

// CreateDatabase makes a database, with throughput for its containers to share unless t is nil.
func (a *Account) CreateDatabase(id string, t *Throughput, now time.Time) (Resource, error) {
	if err := schema.CheckName(id); err != nil {
		return Resource{}, err
	}
	if err := a.Capacity.throughputRefused(t, "Shared throughput database creation"); err != nil {
		return Resource{}, err
	}
	if err := t.checkNew(); err != nil {
		return Resource{}, err
	}
	ts := now.Unix()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.databases[id] != nil {
		return Resource{}, refusal.Conflict("the database %q exists", id)
	}
	if err := a.quota(); err != nil {
		return Resource{}, err
	}
	rid := newRID(nil)
	r := databaseRecord{ID: id, RID: ridText(rid), ETag: newETag(ts), TS: ts}
	if t != nil {
		r.Offer = newOffer(*t, r.RID, "dbs/"+r.RID+"/", ts)
		r.Partitions = a.partitions(*t)
	}
	db := a.newDatabase(r)
	if err := a.put(new(kv.Batch), databaseKey(id), r); err != nil {
		return Resource{}, err
	}
	a.databases[id] = db
	return db.record.resource(), nil
}

// Database returns a database.
func (a *Account) Database(id string) (Resource, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	db, err := a.database(id)
	if err != nil {
		return Resource{}, err
	}
	return db.record.resource(), nil
}

// Databases returns the documents of all databases.
func (a *Account) Databases() [][]byte {
	a.mu.RLock()
	defer a.mu.RUnlock()
	var out [][]byte
	for _, db := range a.databases {
		out = append(out, db.record.resource().Body)
	}
	return out
}

// ContainerDocuments returns the documents of the containers of a database.
func (a *Account) ContainerDocuments(databaseID string) ([][]byte, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	db, err := a.database(databaseID)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for _, co := range db.containers {
		out = append(out, co.Resource().Body)
	}
	return out, nil
}

// DeleteDatabase removes a database with its containers.
func (a *Account) DeleteDatabase(id string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	db, err := a.database(id)
	if err != nil {
		return err
	}
	for _, co := range db.containers {
		a.drop(co)
	}
	b := new(kv.Batch)
	b.Delete(databaseKey(id))
	a.store.Commit(b)
	delete(a.databases, id)
	return nil
}

// drop removes a container and all that it stores. a.mu is held.
func (a *Account) drop(co *Container) {
	unlock := co.lockAll()
	defer unlock()
	b := new(kv.Batch)
	id := co.record.Definition.ID
	co.erase(b)
	b.Delete(containerKey(co.database.id, id))
	a.store.Commit(b)
	co.deleted.Store(true)
	delete(co.database.containers, id)
}

// CreateContainer makes a container. Without throughput it shares that of its database, or gets the
// least where that has none.
func (a *Account) CreateContainer(databaseID string, j schema.JSON, t *Throughput, now time.Time) (*Container, error) {
	if err := a.Capacity.throughputRefused(t, "Setting offer throughput or autopilot on container"); err != nil {
		return nil, err
	}
	if err := t.checkNew(); err != nil {
		return nil, err
	}
	if _, err := schema.New(j); err != nil { // before it is asked whether the name is taken
		return nil, err
	}
	ts := now.Unix()
	a.mu.Lock()
	defer a.mu.Unlock()
	db, err := a.database(databaseID)
	if err != nil {
		return nil, err
	}
	if db.containers[j.ID] != nil {
		return nil, refusal.Conflict("the container %q exists in the database %q", j.ID, databaseID)
	}
	if err := a.quota(); err != nil {
		return nil, err
	}
	j.RID = ridText(newRID(db.rid))
	j.Self = "dbs/" + db.record.RID + "/colls/" + j.RID + "/"
	j.ETag, j.TS = newETag(ts), ts
	def, err := schema.New(j)
	if err != nil {
		return nil, err
	}
	r := containerRecord{Number: a.next, Generation: 1, Definition: def.JSON}
	n := len(db.budgets)
	if t == nil && n == 0 {
		t = &Throughput{RUs: defaultRUs}
		if a.Capacity.serverless.Load() {
			t.RUs = ru.ServerlessRUs(a.partitions(Throughput{}))
		}
	}
	if t == nil {
		if err := db.quotaToShare(a.cfg.Limits.SharedContainers); err != nil {
			return nil, err
		}
	}
	if t != nil {
		r.Offer = newOffer(*t, j.RID, j.Self, ts)
		n = a.partitions(*t)
	}
	for i, keys := range epk.Split(n) {
		r.Partitions = append(r.Partitions, rangeRecord{ID: strconv.Itoa(i), Min: keys.Min, Max: keys.Max, Budget: i})
	}
	if t == nil {
		r.LSN = db.sequence.take()
	}
	co, err := a.newContainer(db, r)
	if err != nil {
		return nil, err
	}
	b := new(kv.Batch)
	b.Set(sequenceKey, strconv.AppendUint(nil, uint64(a.next)+1, 10))
	if err := a.put(b, containerKey(databaseID, j.ID), r); err != nil {
		return nil, err
	}
	a.next++
	db.containers[j.ID] = co
	return co, nil
}

// ReplaceContainer returns a container a new definition, if match is its ETag or empty.
func (a *Account) ReplaceContainer(databaseID string, j schema.JSON, match string, now time.Time) (Resource, error) {
	co, err := a.Container(databaseID, j.ID)
	if err != nil {
		return Resource{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if co.deleted.Load() {
		return Resource{}, refusal.NotFound("the container %q does not exist", j.ID)
	}
	old := co.current.Load()
	if match != "" && match != old.JSON.ETag {
		return Resource{}, refusal.PreconditionFailed()
	}
	j.RID, j.Self = old.JSON.RID, old.JSON.Self
	j.ETag, j.TS = newETag(now.Unix()), now.Unix()
	def, err := schema.New(j)
	if err != nil {
		return Resource{}, err
	}
	if f := old.Replaceable(def); f != nil {
		return Resource{}, f
	}
	r := co.record
	r.Definition, r.Generation = def.JSON, r.Generation+1
	if err := a.put(new(kv.Batch), containerKey(databaseID, j.ID), r); err != nil {
		return Resource{}, err
	}
	co.record = r
	co.current.Store(&revision{Definition: def, generation: r.Generation})
	co.earliest.Store(0)
	return co.Resource(), nil
}

// DeleteContainer removes a container and all that it stores.
func (a *Account) DeleteContainer(databaseID, id string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	db := a.databases[databaseID]
	if db == nil || db.containers[id] == nil {
		return refusal.NotFound("the container %q does not exist in the database %q", id, databaseID)
	}
	a.drop(db.containers[id])
	return nil
}

// resource returns the database as it is on the wire.
func (r databaseRecord) resource() Resource {
	body := encoded(map[string]any{
		"id": r.ID, "_rid": r.RID, "_self": "dbs/" + r.RID + "/", "_etag": r.ETag, "_ts": r.TS,
		"_colls": "colls/", "_users": "users/",
	})
	return Resource{Body: body, ETag: r.ETag}
}

// Resource returns the container as it is on the wire.
func (c *Container) Resource() Resource {
	def := c.current.Load()
	return Resource{Body: def.Document(), ETag: def.JSON.ETag, In: ridText(c.rid[:ridOfDatabase]), LSN: c.record.LSN}
}

// Provision is the throughput that a container has, or its whole database when shared. Scaled is what autoscale was at
// in the last whole second, ScaledHour the most in the current hour of the clock: the sum over physical partitions, as
// in accounts with dynamic scaling. With manual throughput they are all the same.
type Provision struct {
	RUs        float64 `json:"rus"` // manual RU/s, or the autoscale maximum
	Autoscale  bool    `json:"autoscale"`
	Shared     bool    `json:"shared"`
	Serverless bool    `json:"serverless"` // RUs is what the container may use, and nothing is bought
	Pending    bool    `json:"pending"`    // waits for splits
	Minimum    float64 `json:"minimumRUs"`
	Scaled     float64 `json:"scaledRUs"`
	ScaledHour float64 `json:"scaledHourRUs"`
}

// Provision returns the throughput that the container has.
func (c *Container) Provision(now time.Time) Provision {
	c.account.mu.RLock()
	defer c.account.mu.RUnlock()
	o := owned{c.record.Offer, c.database, c}
	shared := o.offer == nil
	if shared {
		o = owned{c.database.record.Offer, c.database, nil}
	}
	p := Provision{
		RUs: o.offer.RUs, Autoscale: o.offer.Autoscale, Shared: shared, Pending: o.offer.Pending != nil,
		Serverless: c.account.Capacity.serverless.Load(), Minimum: o.floor(), Scaled: o.offer.RUs, ScaledHour: o.offer.RUs,
	}
	if !p.Autoscale {
		return p
	}
	p.Scaled, p.ScaledHour = 0, 0
	for _, b := range o.budgets() {
		second, hour := b.Scale(now)
		p.Scaled += second
		p.ScaledHour += hour
	}
	return p
}
