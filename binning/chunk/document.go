package chunk

import (
	"strconv"
	"unicode/utf8"

	"binnacle/internal/telemetry"

	"github.com/valyala/fastjson"
)

// Chunk is a parsed document whose columns are not decoded yet. It is safe for concurrent use.
type Chunk struct {
	Header Header

	labels  []telemetry.Labels // of the groups, ascending
	columns []storedColumn     // by group, then metric, then kind
	data    []byte             // base64: instants and all columns of a small chunk, instants alone of a large one
	small   bool
}

// storedColumn is a column as the document has it.
type storedColumn struct {
	group int
	kind  telemetry.Kind
	name  string
	stats Stats
	data  []byte // base64; nil in a small chunk
}

// ColumnInfo says what is known of a column without decoding it.
type ColumnInfo struct {
	Labels telemetry.Labels
	Metric string
	Kind   telemetry.Kind
	Stats  Stats
}

// NumColumns is the number of its columns.
func (c *Chunk) NumColumns() int { return len(c.columns) }

// Columns lists the chunk's columns by labels, metric and kind.
func (c *Chunk) Columns() []ColumnInfo {
	out := make([]ColumnInfo, len(c.columns))
	for i := range c.columns {
		s := &c.columns[i]
		out[i] = ColumnInfo{Labels: c.labels[s.group], Metric: s.name, Kind: s.kind, Stats: s.stats}
	}
	return out
}

// Parse reads a document and decodes no column of it. Properties it doesn't know, such as the service's own, are
// ignored. It keeps nothing of doc. What is not a chunk of a known version gives ErrCorrupt.
func Parse(doc []byte) (*Chunk, error) {
	if len(doc) > MaxDocument {
		return nil, corrupt("a document of %d bytes, above %d", len(doc), MaxDocument)
	}
	p := parsers.Get()
	if len(doc) <= keptScratch {
		defer parsers.Put(p)
	}
	root, err := p.ParseBytes(doc)
	if err != nil {
		return nil, corrupt("%.200s", err.Error())
	}
	if root.Type() != fastjson.TypeObject {
		return nil, corrupt("not a JSON object")
	}
	r := reader{Value: root, kept: make([]byte, 0, len(doc))}
	if kind := r.text("type"); kind != "chunk" {
		return nil, corrupt("type %q is not chunk", kind)
	}
	if v := r.integer("v", 1, maxExact); r.err == nil && v != Version {
		return nil, corrupt("version %d where this release knows %d", v, Version)
	}
	c := &Chunk{Header: r.header(), small: !r.Exists("time")}
	if c.small {
		c.data = r.keep("data")
	} else {
		c.data = r.keep("time")
	}
	c.labels = r.labelSets()
	c.columns = r.columns(len(c.labels), c.small)
	if r.err != nil {
		return nil, r.err
	}
	return c, nil
}

// parsers keep the memory of earlier documents.
var parsers fastjson.ParserPool

// header reads and checks the properties of Header.
func (r *reader) header() (h Header) {
	id, err := ParseID(r.text("id"))
	if err != nil {
		r.fail("%v", err)
		return h
	}
	h.ID = id
	h.TenantShard, h.Device = r.text("tenantShard"), r.text("device")
	h.From = r.integer("from", id.Day.Start(), id.Day.End()-1)
	h.To = r.integer("to", h.From, id.Day.End()-1)
	h.Rows = int(r.integer("rows", 1, MaxRows))
	h.Readings = int(r.integer("readings", 0, maxExact))
	h.First = r.integer("first", 0, maxExact)
	h.Through = r.integer("through", h.First, maxExact)
	h.After = r.integer("after", -1, maxExact)
	h.Cut = r.integer("cut", 0, maxExact)
	if r.Exists("ttl") {
		h.TTL = int(r.integer("ttl", 1, maxExact))
	}
	unique := r.Get("unique")
	if unique == nil || (unique.Type() != fastjson.TypeTrue && unique.Type() != fastjson.TypeFalse) {
		r.fail("unique is not a bool")
		return h
	}
	h.Unique = unique.Type() == fastjson.TypeTrue
	return h
}

// labelSets reads the table of label sets, by default the empty set alone.
func (r *reader) labelSets() []telemetry.Labels {
	if !r.Exists("labels") {
		return []telemetry.Labels{nil}
	}
	var sets []telemetry.Labels
	for _, v := range r.list("labels") {
		o, err := v.Object()
		if err != nil {
			r.fail("labels are not objects")
			return nil
		}
		var set []telemetry.Label
		o.Visit(func(name []byte, v *fastjson.Value) {
			value, err := v.StringBytes()
			if err != nil || !utf8.Valid(name) || !utf8.Valid(value) {
				r.fail("label %q is not text", name)
			}
			set = append(set, telemetry.Label{Name: string(name), Value: string(value)})
		})
		n := len(set)
		l := telemetry.NewLabels(set)
		if len(l) != n || (len(sets) > 0 && sets[len(sets)-1].Compare(l) >= 0) {
			r.fail("labels %v stand out of order or twice", l)
		}
		sets = append(sets, l)
	}
	return sets
}

// columns reads the list of columns, each of one of so many groups, none of which may be left without.
func (r *reader) columns(groups int, small bool) []storedColumn {
	list := r.list("columns")
	out := make([]storedColumn, 0, len(list))
	group := -1
	for _, v := range list {
		if v.Type() != fastjson.TypeObject {
			r.fail("a column is not an object")
			break
		}
		q := reader{Value: v, kept: r.kept}
		c := storedColumn{name: q.text("metric")}
		if q.Exists("labels") {
			c.group = int(q.integer("labels", 0, int64(groups-1)))
		}
		kind, known := telemetry.ParseKind(q.text("type"))
		c.kind, c.stats = kind, q.stats(kind)
		if !small {
			c.data = q.keep("data")
		}
		r.kept = q.kept
		switch {
		case q.err != nil:
			r.err = q.err
		case !known:
			r.fail("column %q is of no known type", c.name)
		case c.group != group && c.group != group+1:
			r.fail("column %q is not in the order of the labels", c.name)
		case c.group == group && !out[len(out)-1].before(&c):
			r.fail("column %q is not in the order of the metrics", c.name)
		}
		if r.err != nil {
			return nil
		}
		group = c.group
		out = append(out, c)
	}
	if group != groups-1 {
		r.fail("%d label sets, but columns of %d", groups, group+1)
	}
	return out
}

func (c *storedColumn) before(d *storedColumn) bool {
	return c.name < d.name || (c.name == d.name && c.kind < d.kind)
}

// stats reads a column's statistics.
func (r *reader) stats(kind telemetry.Kind) (s Stats) {
	list := r.list("stats")
	n := []*int{&s.Count, nil, nil, nil, nil, nil, &s.NaN, &s.PosInf, &s.NegInf}
	v := []*telemetry.Value{nil, &s.Min, &s.Max, &s.Sum, &s.First, &s.Last, nil, nil, nil}
	if l := len(list); l != 1 && l != 6 && l != 9 || (kind == telemetry.Text) != (l == 1) {
		r.fail("%d statistics of %s", l, kind)
		return s
	}
	for i, x := range list {
		if n[i] != nil {
			*n[i] = int(r.number(x, 0, MaxRows))
			continue
		}
		of := kind
		if kind == telemetry.Bool && i == 3 {
			of = telemetry.Int
		}
		*v[i] = r.statistic(of, x)
	}
	return s
}

// statistic reads a number of a kind, none for null.
func (r *reader) statistic(kind telemetry.Kind, x *fastjson.Value) telemetry.Value {
	switch {
	case x.Type() == fastjson.TypeNull:
		return telemetry.Value{}
	case kind == telemetry.Float:
		if x.Type() == fastjson.TypeNumber {
			if f, err := strconv.ParseFloat(string(r.literal(x)), 64); err == nil {
				return telemetry.FloatValue(f)
			}
		}
	case kind == telemetry.Bool:
		return telemetry.BoolValue(r.number(x, 0, 1) == 1)
	case x.Type() == fastjson.TypeString:
		if i, err := strconv.ParseInt(string(x.GetStringBytes()), 10, 64); err == nil {
			return telemetry.IntValue(i)
		}
	default:
		return telemetry.IntValue(r.number(x, -maxExact, maxExact))
	}
	r.fail("a statistic %.60s", r.literal(x))
	return telemetry.Value{}
}

// reader reads properties of a JSON object and keeps the first error.
type reader struct {
	*fastjson.Value
	err  error
	kept []byte // what outlives the parser, in one piece
	buf  [64]byte
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = corrupt(format, args...)
	}
}

// bytes is a string property that must be there. It aliases the parser's memory.
func (r *reader) bytes(name string) []byte {
	v := r.Get(name)
	if v == nil || v.Type() != fastjson.TypeString {
		r.fail("%s is not a string", name)
		return nil
	}
	return v.GetStringBytes()
}

// keep is a copy of a string property that must be there.
func (r *reader) keep(name string) []byte {
	from := len(r.kept)
	r.kept = append(r.kept, r.bytes(name)...)
	return r.kept[from:len(r.kept):len(r.kept)]
}

// text is a string property that must be there and not empty.
func (r *reader) text(name string) string {
	b := r.bytes(name)
	if len(b) == 0 || !utf8.Valid(b) {
		r.fail("%s is missing, empty or not UTF-8", name)
	}
	return string(b)
}

func (r *reader) list(name string) []*fastjson.Value {
	v := r.Get(name)
	if v == nil || v.Type() != fastjson.TypeArray {
		r.fail("%s is not an array", name)
		return nil
	}
	return v.GetArray()
}

// integer is a number property that must be there and lie in least to most.
func (r *reader) integer(name string, least, most int64) int64 {
	v := r.Get(name)
	if v == nil {
		r.fail("%s is missing", name)
		return least
	}
	return r.number(v, least, most)
}

// number is an integer in least to most. A store that keeps numbers as float64 may spell it with an exponent.
func (r *reader) number(v *fastjson.Value, least, most int64) int64 {
	if v.Type() == fastjson.TypeNumber {
		s := r.literal(v)
		i, err := strconv.ParseInt(string(s), 10, 64)
		if err != nil {
			f, ferr := strconv.ParseFloat(string(s), 64)
			if i = int64(f); ferr == nil && float64(i) == f && -maxExact <= f && f <= maxExact {
				err = nil
			}
		}
		if err == nil && least <= i && i <= most {
			return i
		}
	}
	r.fail("%.60s is not an integer in %d to %d", r.literal(v), least, most)
	return least
}

// literal is a value as the document spells it: fastjson's own conversion of floats is not exact to the last bit.
func (r *reader) literal(v *fastjson.Value) []byte { return v.MarshalTo(r.buf[:0]) }
