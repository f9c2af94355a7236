package engine

import (
	"math"
	"strconv"
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

// appendBody appends an item with its system properties at the end.
func (c *Container) appendBody(dst, json []byte, h *header) []byte {
	dst = append(dst, json[:len(json)-1]...)
	dst = append(dst, `,"_rid":"`...)
	rid := len(dst)
	dst = appendItemRID(dst, c.rid, h.created)
	end := len(dst)
	dst = append(dst, `","_self":"`...)
	dst = append(dst, c.docs...)
	dst = append(dst, dst[rid:end]...)
	dst = append(dst, `/","_etag":"\"`...)
	dst = appendVersion(dst, h.version())
	dst = append(dst, `\"","_attachments":"attachments/","_ts":`...)
	dst = strconv.AppendInt(dst, h.modified, 10)
	return append(dst, '}')
}
