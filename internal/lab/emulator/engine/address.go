package engine

import (
	"encoding/binary"

	"github.com/valyala/fastjson"
)

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
