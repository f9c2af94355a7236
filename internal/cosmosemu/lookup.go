package cosmosemu

import (
	"bytes"
	"fmt"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// name gives the key of the item's header; its body has the same key in another space.
func (d *document) name(container uint32) []byte {
	n := appendPrefix(d.names[:0], spaceHeader, container)
	n = d.Key.AppendEPK(n)
	d.names = append(n, d.ID...)
	return d.names
}

// bodyName is the key of the body that belongs to the key of a header.
func bodyName(dst, header []byte) []byte {
	dst = append(dst[:0], header...)
	dst[0] = spaceBody
	return dst
}

// etagOf is the ETag of an item, in the shape that the service gives it.
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
func readHeader(from pebble.Reader, name []byte, head *header, defaultTTL int32, now time.Time) (stored, alive bool, err error) {
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

// lookup is a point read of an item; the body is nil when there is none. What it gives is durable.
func (s *Server) lookup(co *container, name []byte, now time.Time) (head header, body []byte, err error) {
	snap := s.store.db.NewSnapshot()
	defer func() { _ = snap.Close() }()
	_, alive, err := readHeader(snap, name, &head, co.current.Load().TTL, now)
	if err != nil {
		return header{}, nil, err
	}
	if alive {
		v, closer, err := snap.Get(bodyName(make([]byte, 0, len(name)), name))
		if err != nil {
			return header{}, nil, fmt.Errorf("read the body of an item: %w", err)
		}
		body = bytes.Clone(v)
		_ = closer.Close() // releases memory only
	} else {
		head = header{}
	}
	return head, body, s.store.settle()
}
