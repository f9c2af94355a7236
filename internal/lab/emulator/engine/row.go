package engine

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync"
	"time"

	"binnacle/internal/lab/emulator/jsonvalue"
	"binnacle/internal/lab/emulator/kv"
	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/schema"
	"binnacle/internal/lab/emulator/sql"

	"github.com/valyala/fastjson"
)

// row is the item that a scan is at, as a source of values. What its header covers is answered from
// there; the body is read when anything else is asked for.
type row struct {
	revision *revision
	paths    []sql.Path
	// places holds, for each path, an index into the covered values or one of the constants below.
	places []int

	entry   *kv.Entry // the item
	head    header
	covered []schema.CoveredValue
	// decoded reports that covered holds the header's values.
	decoded bool
	raw     []byte // the body, once read
	buf     []byte // room for it
	parser  fastjson.Parser
	doc     *fastjson.Value // the body, once parsed
	err     error           // the first fault; values are undefined from then on
}

// Where the value of a path is, if not among the covered ones.
const (
	placeBody      = -1
	placeID        = -2
	placeTimestamp = -3
)

func newRow(rev *revision, paths []sql.Path) *row {
	r := &row{revision: rev, paths: paths, places: make([]int, len(paths))}
	for i, p := range paths {
		r.places[i] = placeOf(rev.Definition, p)
	}
	return r
}

func placeOf(def *schema.Definition, p sql.Path) int {
	if !p.Whole() {
		return placeBody
	}
	switch p.Key() {
	case "/id":
		return placeID
	case "/_ts":
		return placeTimestamp
	}
	if at := def.Place(p); at >= 0 {
		return at
	}
	return placeBody
}

func (r *row) reset(e *kv.Entry) {
	r.entry, r.decoded, r.raw, r.doc = e, false, nil, nil
	r.err = r.head.decode(e.Value())
}

func (r *row) decode() {
	r.decoded = true
	if r.head.generation != r.revision.generation {
		r.covered = r.covered[:0] // taken under another definition: the paths may be others
		return
	}
	var err error
	if r.covered, err = schema.DecodeCovered(r.covered, r.head.covered); err != nil && r.err == nil {
		r.err = err
	}
}

// cost ranks paths by what reading them takes.
func (r *row) cost(path int) int {
	switch place := r.places[path]; {
	case place == placeBody:
		return 2
	case place >= 0:
		return 1
	}
	return 0
}

// number returns the value of a path that is a number, where the header has it.
func (r *row) number(path int) (float64, bool) {
	place := r.places[path]
	if place == placeTimestamp {
		return float64(r.head.modified), true
	}
	if place >= 0 && !r.decoded {
		r.decode()
	}
	if place < 0 || place >= len(r.covered) || !r.covered[place].OK {
		return 0, false
	}
	v := &r.covered[place].Value
	return v.Float(), v.Kind() == sql.Number
}

func (r *row) id() []byte { return r.entry.Key()[prefixLen+levelLen*len(r.revision.Keys):] }

// Value returns the value of a path, for sql.
func (r *row) Value(path int) sql.Value {
	place := r.places[path]
	if place >= 0 && !r.decoded {
		r.decode()
	}
	switch {
	case place == placeID:
		return sql.StringValue(r.id())
	case place == placeTimestamp:
		return sql.NumberValue(float64(r.head.modified))
	case place >= 0 && place < len(r.covered) && r.covered[place].OK:
		return r.covered[place].Value
	}
	if r.doc == nil && r.err == nil {
		r.parse()
	}
	if r.err != nil {
		return sql.Value{}
	}
	return r.paths[path].In(r.doc)
}

func (r *row) parse() {
	body, err := r.body()
	if err == nil {
		r.doc, err = r.parser.ParseBytes(body)
	}
	if err != nil {
		r.err = fmt.Errorf("read the body of an item: %w", err)
	}
}

// body returns the item's JSON, valid until the row moves on.
func (r *row) body() ([]byte, error) {
	if r.raw == nil {
		v, err := r.entry.Body(r.buf)
		if err != nil {
			return nil, err
		}
		if r.entry.Stored() {
			r.buf = v
		}
		r.raw = v
	}
	return r.raw, nil
}

// whole returns the item's JSON as queries write it, valid until the row moves on.
func (r *row) whole() ([]byte, error) {
	if !r.head.wide {
		return r.body()
	}
	if r.doc == nil && r.err == nil {
		r.parse()
	}
	if r.err != nil {
		return nil, r.err
	}
	return jsonvalue.AppendQueried(nil, r.doc), nil
}

// readHeader reads the header of one item into head. stored reports that there is one, alive that it has not expired
// either.
func readHeader(
	from kv.Reader, name []byte, head *header, defaultTTL int32, now time.Time,
) (stored, alive bool, err error) {
	e := from.Get(name)
	if e == nil {
		return false, false, nil
	}
	if err := head.decode(e.Value()); err != nil {
		return false, false, err
	}
	return true, now.Unix() < head.expiry(defaultTTL), nil
}

// Read returns an item, by its key and id. What it returns is durable.
func (c *Container) Read(call Call, r Read) (Result, error) {
	doc := documents.Get().(*document)
	defer documents.Put(doc)
	key, err := c.current.Load().keyOf(&doc.keys, r.Key)
	if err != nil {
		return Result{}, c.misaddressed(err)
	}
	doc.Key = append(doc.Key[:0], key...)
	doc.ID = append(doc.ID[:0], r.ID...)
	name := doc.name(c.number)
	p := c.at(name[prefixLen:])
	if err := p.admit(call); err != nil {
		return Result{}, err
	}
	lsn := p.sequence.last.Load() // before the read, which so sees at least what the session token will say
	head, body, err := c.lookup(name, call.Now)
	if err != nil {
		return Result{}, err
	}
	charge := r.Factor * c.account.cfg.Model.Read(int(head.size))
	p.charge(call, charge)
	if body == nil {
		f := refusal.NotFound("the item %q does not exist", doc.ID)
		f.Charge = charge
		return Result{}, p.refuses(f)
	}
	return Result{
		Body: body, ETag: etagOf(&head), Charge: charge, Range: p.ID, LSN: lsn, ItemLSN: head.lsn,
	}, nil
}

// misaddressed finishes a refusal for a partition key that names no logical partition: the first physical partition
// gives it, without a charge, since it has not looked at anything.
func (c *Container) misaddressed(err error) error { return c.parts()[0].refuses(refusal.Of(err)) }

// lookup reads an item; the body is nil when no item has the name.
func (c *Container) lookup(name []byte, now time.Time) (head header, body []byte, err error) {
	st := c.account.store
	e := st.Get(name)
	st.Settle()
	if e == nil {
		return header{}, nil, nil
	}
	if err := head.decode(e.Value()); err != nil || now.Unix() >= head.expiry(c.current.Load().TTL) {
		return header{}, nil, err
	}
	if body, err = e.Body(nil); err != nil {
		return header{}, nil, err
	}
	return head, body, nil
}

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
