package engine

import (
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"
	"github.com/valyala/fastjson"

	"binnacle/internal/cosmosemu/schema"
	"binnacle/internal/cosmosemu/sql"
)

// row is the item that a scan is at, as a source of values. What its header covers is answered from
// there; the body is read when anything else is asked for.
type row struct {
	snapshot *pebble.Snapshot
	revision *revision
	paths    []sql.Path
	places   []int // of each path: an index into the covered values, or one of those below

	name    []byte // key of the header
	head    header
	covered []schema.CoveredValue
	raw     []byte // the body, once read
	closer  io.Closer
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

func newRow(snapshot *pebble.Snapshot, rev *revision, paths []sql.Path) *row {
	r := &row{snapshot: snapshot, revision: rev, paths: paths, places: make([]int, len(paths))}
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

// reset moves the row to an item. name and value are the scan's, valid until it moves on.
func (r *row) reset(name, value []byte) {
	r.close()
	r.name = name
	if r.err = r.head.decode(value); r.err == nil {
		r.covered, r.err = schema.DecodeCovered(r.covered, r.head.covered)
	}
	if r.head.generation != r.revision.generation {
		r.covered = r.covered[:0] // taken under another definition: the paths may be others
	}
}

// id returns the item's id.
func (r *row) id() []byte { return r.name[prefixLen+levelLen*len(r.revision.Keys):] }

// Value returns the value of a path, for sql.
func (r *row) Value(path int) sql.Value {
	switch place := r.places[path]; {
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
		v, closer, err := r.snapshot.Get(bodyName(nil, r.name))
		if err != nil {
			return nil, err
		}
		r.raw, r.closer = v, closer
	}
	return r.raw, nil
}

// close lets go of the item.
func (r *row) close() {
	if r.closer != nil {
		_ = r.closer.Close() // releases memory only
	}
	r.raw, r.closer, r.doc = nil, nil, nil
}
