package engine

import (
	"bytes"
	"fmt"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"binnacle/internal/cosmosemu/refusal"
)

// name returns the key of the item's header; its body has the same key in another space.
func (d *document) name(container uint32) []byte {
	n := appendPrefix(d.names[:0], spaceHeader, container)
	n = d.Key.AppendEPK(n)
	d.names = append(n, d.ID...)
	return d.names
}

// bodyName returns the key of the body that belongs to the key of a header.
func bodyName(dst, header []byte) []byte {
	dst = append(dst[:0], header...)
	dst[0] = spaceBody
	return dst
}

// etagOf returns the ETag of an item, in the shape that the service gives it.
func etagOf(version uint64) string {
	b := append(make([]byte, 0, 40), '"')
	return string(append(appendVersion(b, version), '"'))
}

// appendVersion appends what an ETag quotes. The sequence number of the last write, and its
// place in a transaction, tell all versions of an item apart, also after it was deleted and created anew.
func appendVersion(dst []byte, version uint64) []byte {
	dst = appendHex(dst, version&math.MaxUint32, 8)
	dst = append(dst, "-0000-0000-0000-"...)
	return appendHex(dst, version, 12)
}

func appendHex(dst []byte, v uint64, digits int) []byte {
	for i := digits - 1; i >= 0; i-- {
		dst = append(dst, "0123456789abcdef"[v>>(4*i)&15])
	}
	return dst
}

// readHeader reads the header of one item into head. stored tells that there is one, alive that it
// has not expired either. Reading through an iterator, unlike Get, asks the Bloom filters of all
// levels: most of the names that writers ask for are new.
func readHeader(
	from pebble.Reader, name []byte, head *header, defaultTTL int32, now time.Time,
) (stored, alive bool, err error) {
	it, err := from.NewIter(&pebble.IterOptions{UseL6Filters: true})
	if err != nil {
		return false, false, fmt.Errorf("read an item: %w", err)
	}
	defer func() { err = firstError(err, it.Close()) }()
	if !it.SeekPrefixGE(name) || !bytes.Equal(it.Key(), name) {
		return false, false, it.Error()
	}
	v, err := it.ValueAndErr()
	if err != nil {
		return false, false, fmt.Errorf("read an item: %w", err)
	}
	if err := head.decode(v); err != nil {
		return false, false, err
	}
	head.covered = nil // it shares the memory that is released here
	return true, now.Unix() < head.expiry(defaultTTL), nil
}

// Read returns an item, by its key and id. What it returns is durable.
func (c *Container) Read(call Call, r Read) (Result, error) {
	doc := documents.Get().(*document)
	defer documents.Put(doc)
	key, err := c.current.Load().fullKey(&doc.keys, r.Key)
	if err != nil {
		return Result{}, err
	}
	doc.Key = append(doc.Key[:0], key...)
	doc.ID = append(doc.ID[:0], r.ID...)
	name := doc.name(c.number)
	p := c.at(name[prefixLen:])
	if err := p.admit(call); err != nil {
		return Result{}, err
	}
	lsn := p.latest.Load() // before the read, which so sees at least what the session token will say
	head, body, err := c.lookup(name, call.Now)
	if err != nil {
		return Result{}, err
	}
	charge := r.Factor * c.account.cfg.Model.Read(int(head.size))
	if err := p.afford(call, charge); err != nil {
		return Result{}, err
	}
	p.charge(call, charge)
	if body == nil {
		f := refusal.NotFound("the item %q does not exist", doc.ID)
		f.Charge, f.Range = charge, p.id
		return Result{}, f
	}
	return Result{Body: body, ETag: etagOf(head.version()), Charge: charge, Range: p.id, LSN: lsn}, nil
}

// lookup reads an item; the body is nil when there is none.
func (c *Container) lookup(name []byte, now time.Time) (head header, body []byte, err error) {
	st := c.account.store
	snap := st.db.NewSnapshot()
	defer func() { _ = snap.Close() }()
	_, alive, err := readHeader(snap, name, &head, c.current.Load().TTL, now)
	if err != nil {
		return header{}, nil, err
	}
	if !alive {
		return header{}, nil, st.settle()
	}
	v, closer, err := snap.Get(bodyName(make([]byte, 0, len(name)), name))
	if err != nil {
		return header{}, nil, fmt.Errorf("read the body of an item: %w", err)
	}
	body = bytes.Clone(v)
	_ = closer.Close() // releases memory only
	return head, body, st.settle()
}
