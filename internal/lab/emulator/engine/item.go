package engine

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"sync"

	"binnacle/internal/lab/emulator/schema"

	"github.com/valyala/fastjson"
)

func (d *document) name(container uint32) []byte {
	n := appendPrefix(d.names[:0], spaceItem, container)
	n = d.Key.AppendEPK(n)
	d.names = append(n, d.ID...)
	return d.names
}

// etagOf returns the ETag of an item, in the shape that the service gives it.
func etagOf(h *header) string {
	b := append(make([]byte, 0, 40), '"')
	return string(append(appendVersion(b, h), '"'))
}

// appendVersion appends the text that an ETag quotes. It distinguishes all versions of an item, also after a
// deletion and a new creation, by the sequence number of the last write, its place in a transaction (both as
// far as they have room) and its second.
func appendVersion(dst []byte, h *header) []byte {
	return appendETag(dst, uint32(h.version()), h.modified)
}

// appendETag appends what an ETag quotes: a number, and the second of the last write.
func appendETag(dst []byte, number uint32, second int64) []byte {
	var raw [8]byte
	binary.BigEndian.PutUint32(raw[:], number)
	binary.BigEndian.PutUint32(raw[4:], uint32(second))
	dst = append(hex.AppendEncode(dst, raw[:4]), "-0000-0100-0000-"...)
	return append(hex.AppendEncode(dst, raw[4:]), "0000"...)
}

// appendBody appends an item with its system properties at the end. Members that patches have added, from tail
// on, precede the last system property.
func (c *Container) appendBody(dst []byte, d *document, h *header) []byte {
	head, tail := d.JSON[:len(d.JSON)-1], []byte(nil)
	if d.tail > 0 {
		head, tail = head[:d.tail], head[d.tail:]
	}
	dst = append(dst, head...)
	dst = append(dst, `,"_rid":"`...)
	rid := len(dst)
	dst = appendItemRID(dst, c.rid, h.created)
	end := len(dst)
	dst = append(dst, `","_self":"`...)
	dst = append(dst, c.docs...)
	dst = append(dst, dst[rid:end]...)
	dst = append(dst, `/","_etag":"\"`...)
	dst = appendVersion(dst, h)
	dst = append(dst, `\"","_attachments":"attachments/"`...)
	dst = append(dst, tail...)
	dst = append(dst, `,"_ts":`...)
	dst = strconv.AppendInt(dst, h.modified, 10)
	return append(dst, '}')
}

// document is an item on its way through a request, with the buffers that it needs there. It is reused
// from request to request.
type document struct {
	schema.Item
	// keys parses the partition key in the request.
	keys fastjson.Parser

	// tail is where in JSON, at a comma, the members begin that patches have added; 0: nowhere.
	tail int

	names, weightName, logName, head, value []byte
}

var documents = sync.Pool{New: func() any { return new(document) }}
