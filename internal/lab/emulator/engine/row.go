package engine

import (
	"fmt"

	"binnacle/internal/lab/emulator/kv"
	"github.com/valyala/fastjson"

	"binnacle/internal/lab/emulator/jsonvalue"
	"binnacle/internal/lab/emulator/schema"
	"binnacle/internal/lab/emulator/sql"
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
