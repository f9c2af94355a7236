package cosmosemu

import (
	"encoding/json"
	"strconv"

	"binnacle/internal/cosmosemu/refusal"
	"binnacle/internal/cosmosemu/schema"
	"binnacle/internal/epk"
	"binnacle/internal/ru"
)

// partitions is the number of physical partitions that a throughput is created with.
func (c *catalog) partitions(t throughput) int {
	if c.cfg.PhysicalPartitions > 0 {
		return c.cfg.PhysicalPartitions
	}
	return ru.Partitions(t.rus, t.autoscale)
}

func (c *catalog) createDatabase(id string, t *throughput, ts int64) (databaseRecord, error) {
	if err := schema.CheckName(id); err != nil {
		return databaseRecord{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.databases[id] != nil {
		return databaseRecord{}, refusal.Conflict("the database %q exists", id)
	}
	if err := c.room(); err != nil {
		return databaseRecord{}, err
	}
	rid := newRID(nil)
	r := databaseRecord{ID: id, RID: ridText(rid), ETag: newETag(), TS: ts}
	if t != nil {
		r.Offer = newOffer(*t, r.RID, "dbs/"+r.RID+"/", ts)
		r.Partitions = c.partitions(*t)
	}
	db := c.newDatabase(r)
	if err := c.put(c.store.db.NewBatch(), databaseKey(id), r); err != nil {
		return databaseRecord{}, err
	}
	c.databases[id] = db
	return db.record, nil
}

func (c *catalog) database(id string) (databaseRecord, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	db := c.databases[id]
	if db == nil {
		return databaseRecord{}, refusal.NotFound("the database %q does not exist", id)
	}
	return db.record, nil
}

func (c *catalog) deleteDatabase(id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	db := c.databases[id]
	if db == nil {
		return refusal.NotFound("the database %q does not exist", id)
	}
	for _, co := range db.containers {
		if err := c.drop(co); err != nil {
			return err
		}
	}
	b := c.store.db.NewBatch()
	if err := b.Delete(databaseKey(id), nil); err != nil {
		return err
	}
	if err := c.store.commit(b); err != nil {
		return err
	}
	delete(c.databases, id)
	return nil
}

// drop removes a container and all that it stores. c.mu is held.
func (c *catalog) drop(co *container) error {
	unlock := co.lockAll()
	defer unlock()
	b := c.store.db.NewBatch()
	id := co.record.Definition.ID
	if err := co.erase(b); err != nil {
		return err
	}
	if err := b.Delete(containerKey(co.database.id, id), nil); err != nil {
		return err
	}
	if err := c.store.commit(b); err != nil {
		return err
	}
	co.deleted.Store(true)
	delete(co.database.containers, id)
	return nil
}

func (c *catalog) createContainer(databaseID string, j schema.JSON, t *throughput, ts int64) (*container, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	db := c.databases[databaseID]
	if db == nil {
		return nil, refusal.NotFound("the database %q does not exist", databaseID)
	}
	if db.containers[j.ID] != nil {
		return nil, refusal.Conflict("the container %q exists in the database %q", j.ID, databaseID)
	}
	if err := c.room(); err != nil {
		return nil, err
	}
	j.RID = ridText(newRID(db.rid))
	j.Self = "dbs/" + db.record.RID + "/colls/" + j.RID + "/"
	j.ETag, j.TS = newETag(), ts
	def, err := schema.New(j)
	if err != nil {
		return nil, err
	}
	r := containerRecord{Number: c.next, Generation: 1, Definition: def.JSON}
	n := len(db.budgets)
	if t == nil && n == 0 {
		t = &throughput{rus: defaultRUs}
	}
	if t == nil {
		if err := db.roomToShare(c.cfg.Limits.SharedContainers); err != nil {
			return nil, err
		}
	}
	if t != nil {
		r.Offer = newOffer(*t, j.RID, j.Self, ts)
		n = c.partitions(*t)
	}
	for i, keys := range epk.Split(n) {
		r.Partitions = append(r.Partitions, rangeRecord{ID: strconv.Itoa(i), Min: keys.Min, Max: keys.Max, Budget: i})
	}
	co, err := c.newContainer(db, r)
	if err != nil {
		return nil, err
	}
	b := c.store.db.NewBatch()
	if err := b.Set(sequenceKey, strconv.AppendUint(nil, uint64(c.next)+1, 10), nil); err != nil {
		return nil, err
	}
	if err := c.put(b, containerKey(databaseID, j.ID), r); err != nil {
		return nil, err
	}
	c.next++
	db.containers[j.ID] = co
	return co, nil
}

func (c *catalog) replaceContainer(databaseID string, j schema.JSON, match string, ts int64) (*schema.Definition, error) {
	co, err := c.find(databaseID, j.ID)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if co.deleted.Load() {
		return nil, refusal.NotFound("the container %q does not exist", j.ID)
	}
	old := co.current.Load()
	if match != "" && match != old.JSON.ETag {
		return nil, refusal.PreconditionFailed()
	}
	j.RID, j.Self = old.JSON.RID, old.JSON.Self
	j.ETag, j.TS = newETag(), ts
	def, err := schema.New(j)
	if err != nil {
		return nil, err
	}
	if err := old.Replaceable(def); err != nil {
		return nil, err
	}
	r := co.record
	r.Definition, r.Generation = def.JSON, r.Generation+1
	if err := c.put(c.store.db.NewBatch(), containerKey(databaseID, j.ID), r); err != nil {
		return nil, err
	}
	co.record = r
	co.current.Store(&revision{Definition: def, generation: r.Generation})
	co.earliest.Store(0)
	return def, nil
}

func (c *catalog) deleteContainer(databaseID, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	db := c.databases[databaseID]
	if db == nil || db.containers[id] == nil {
		return refusal.NotFound("the container %q does not exist in the database %q", id, databaseID)
	}
	return c.drop(db.containers[id])
}

// document is a database on the wire.
func (r databaseRecord) document() []byte {
	b, err := json.Marshal(map[string]any{
		"id": r.ID, "_rid": r.RID, "_self": "dbs/" + r.RID + "/", "_etag": r.ETag, "_ts": r.TS,
		"_colls": "colls/", "_users": "users/",
	})
	if err != nil {
		panic("cosmosemu: encode a database: " + err.Error()) // plain numbers and strings
	}
	return b
}
