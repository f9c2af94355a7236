package engine

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"slices"

	"github.com/valyala/fastjson"
)

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
