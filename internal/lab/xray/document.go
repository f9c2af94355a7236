package xray

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/sharding/epk"

	"github.com/valyala/fastjson"
)

// document is what the sample keeps of a document.
type document struct {
	// key is the document's partition key.
	key   []component
	names map[string]string // scalars by path, at the top level and in the key
	// at is the time of the last write, s since 1970.
	at int64
	// bytes is the size of its JSON, without system properties.
	bytes int
	// units is the size of its index.
	units  int
	of, in int // range and window where it was found
	// weight is the number of documents that this one represents.
	weight float64
}

// component is a value of a partition key. A text may contain the time, marked with {day} and {hour}.
type component struct {
	kind fastjson.Type
	// text is the value of a string or a number.
	text  string
	there bool
}

const (
	dayMark  = "{day}"
	hourMark = "{hour}"
)

// spellings of a day in keys, and of a day and an hour.
var (
	hourSpellings = []string{"2006-01-02T15", "2006-01-02-15", "2006-01-02 15", "2006010215",
		"2006-01-02_15", "20060102T15"}
	daySpellings = []string{"2006-01-02", "20060102", "2006/01/02", "2006.01.02", "2006_01_02"}
)

// document takes over what matters of a document. v is not kept.
func (s *sampler) document(v *fastjson.Value) document {
	d := document{names: map[string]string{}, at: v.GetInt64("_ts")}
	for _, path := range s.about.Key {
		c := componentOf(lookUp(v, path))
		d.key = append(d.key, c)
		if c.text != "" {
			d.names[path] = c.text
		}
	}
	scalars := 0
	o := v.GetObject()
	for _, system := range []string{"_rid", "_self", "_etag", "_attachments", "_ts"} {
		o.Del(system)
	}
	o.Visit(func(name []byte, member *fastjson.Value) {
		path := "/" + string(name)
		if kind := member.Type(); kind == fastjson.TypeObject || kind == fastjson.TypeArray {
			return
		}
		if string(name) == "id" || s.about.Indexed(path) {
			scalars++
		}
		if c := componentOf(member); c.kind == fastjson.TypeString && len(c.text) <= 256 {
			d.names[path] = c.text
		}
	})
	for _, path := range []string{s.cfg.DevicePath, s.cfg.TenantPath} {
		if c := componentOf(lookUp(v, path)); path != "" && c.text != "" {
			d.names[path] = c.text
		}
	}
	d.bytes, d.units = len(v.MarshalTo(nil)), scalars*ru.Scalar
	return d
}

func lookUp(v *fastjson.Value, path string) *fastjson.Value {
	var names []string
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		names = append(names, strings.Trim(part, `"`))
	}
	return v.Get(names...)
}

func componentOf(v *fastjson.Value) component {
	if v == nil {
		return component{}
	}
	c := component{kind: v.Type(), there: true}
	switch c.kind {
	case fastjson.TypeString:
		c.text = string(v.GetStringBytes())
	case fastjson.TypeNumber:
		c.text = string(v.MarshalTo(nil))
	case fastjson.TypeObject, fastjson.TypeArray:
		c = component{} // no value of a key
	}
	return c
}

// marked returns the component with marks in place of the time at which the document was written.
func (c component) marked(at time.Time) component {
	if c.kind != fastjson.TypeString {
		return c
	}
	for i, s := range slices.Concat(hourSpellings, daySpellings) {
		mark := hourMark
		if i >= len(hourSpellings) {
			mark = dayMark
		}
		if text := at.Format(s); strings.Contains(c.text, text) {
			c.text = strings.Replace(c.text, text, mark+s+mark, 1)
			break
		}
	}
	return c
}

func (c component) timed() bool {
	return strings.Contains(c.text, dayMark) || strings.Contains(c.text, hourMark)
}

func (c component) hourly() bool { return strings.Contains(c.text, hourMark) }

func (c component) unmarked(at time.Time) component {
	for _, mark := range []string{hourMark, dayMark} {
		if before, rest, ok := strings.Cut(c.text, mark); ok {
			spelling, after, _ := strings.Cut(rest, mark)
			c.text = before + at.Format(spelling) + after
		}
	}
	return c
}

func (c component) hashed() epk.Component {
	switch {
	case !c.there:
		return epk.Undefined()
	case c.kind == fastjson.TypeString:
		return epk.String(c.text)
	case c.kind == fastjson.TypeNumber:
		n, err := strconv.ParseFloat(c.text, 64)
		if err != nil {
			return epk.Null() // the parser has read it as a number: only one beyond a double gets here
		}
		return epk.Number(n)
	case c.kind == fastjson.TypeTrue, c.kind == fastjson.TypeFalse:
		return epk.Bool(c.kind == fastjson.TypeTrue)
	}
	return epk.Null()
}

func (c component) spelled() string {
	switch {
	case !c.there:
		return "(absent)"
	case c.text != "" || c.kind == fastjson.TypeString:
		return c.text
	}
	return c.kind.String()
}
