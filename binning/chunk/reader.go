package chunk

import (
	"errors"
	"math"
	"strconv"
	"sync"
	"unicode/utf8"

	"binnacle/internal/telemetry"
	"binnacle/internal/wire/jsonscan"
)

// reader walks over a document and remembers where the values asked for begin. Properties may come in any order.
type reader struct {
	scan   jsonscan.Scanner
	wanted wanted
	brief  bool // columns that were not asked for may be left out

	seen      uint32 // one bit for each property
	next      int    // in named
	texts     [numbersFrom][]byte
	ints      [properties - numbersFrom]int64
	unique    bool
	labels    []telemetry.Labels
	columns   []rawColumn
	packs     []rawPack
	dataBytes int // the base64 of instants and values
	names     []byte
}

// rawColumn is a column of a document. Only the part that a reader of its metric needs is read.
type rawColumn struct {
	metric, data []byte
	kind         telemetry.Kind
	group        int
	wanted       bool
	passed       bool // the rest of it was not looked at
	stats        Stats
}

// rawPack is a run of columns of a document.
type rawPack struct {
	columns     int
	index, data []byte
}

// property is one of a document's own.
type property int

const (
	propertyID property = iota
	propertyType
	propertyShard
	propertyDevice
	propertyTime
	propertyData
	propertyETag
	numbersFrom = iota
)

const (
	propertyV property = iota + numbersFrom
	propertyFrom
	propertyTo
	propertyRows
	propertyReadings
	propertyFirst
	propertyThrough
	propertyAfter
	propertyCut
	propertyTTL
	propertyStored
	propertyUnique
	propertyLabels
	propertyColumns
	properties
)

// named lists the names of properties in the order of documents.
var named = [properties]struct {
	name string
	is   property
}{
	{"id", propertyID}, {"v", propertyV}, {"type", propertyType}, {"tenantShard", propertyShard},
	{"device", propertyDevice}, {"from", propertyFrom}, {"to", propertyTo}, {"rows", propertyRows},
	{"readings", propertyReadings}, {"first", propertyFirst}, {"through", propertyThrough}, {"after", propertyAfter},
	{"cut", propertyCut}, {"unique", propertyUnique}, {"ttl", propertyTTL}, {"time", propertyTime},
	{"data", propertyData}, {"labels", propertyLabels}, {"columns", propertyColumns}, {"_etag", propertyETag},
	{"_ts", propertyStored},
}

// propertyOf returns the property of a name. It looks first at the one that follows the last one.
func (r *reader) propertyOf(name []byte) (p property, ok bool) {
	for range named {
		n := &named[r.next]
		r.next = (r.next + 1) % len(named)
		if string(name) == n.name {
			return n.is, true
		}
	}
	return 0, false
}

const required = 1<<propertyID | 1<<propertyType | 1<<propertyShard | 1<<propertyDevice | 1<<propertyV |
	1<<propertyFrom |
	1<<propertyTo | 1<<propertyRows | 1<<propertyReadings | 1<<propertyFirst | 1<<propertyThrough | 1<<propertyAfter |
	1<<propertyCut | 1<<propertyUnique | 1<<propertyColumns

// readers keep the memory of earlier documents.
var readers = sync.Pool{New: func() any { return new(reader) }}

// keptColumns is the greatest number of columns for which memory is kept for later documents.
const keptColumns = 1 << 10

// release gives r back for later documents; it refers to nothing of this one.
func (r *reader) release() {
	r.scan.Reset(nil)
	clear(r.columns)
	clear(r.packs)
	columns, packs, names := r.columns[:0], r.packs[:0], r.names[:0]
	if cap(columns) > keptColumns || cap(names) > keptScratch {
		columns, names = nil, nil
	}
	*r = reader{scan: r.scan, columns: columns, packs: packs, names: names}
	readers.Put(r)
}

func (r *reader) has(p property) bool { return r.seen>>p&1 != 0 }

// walk reads the document's text.
func (r *reader) walk(doc []byte) error {
	if len(doc) > MaxDocument {
		return corrupt("a document of %d bytes, above %d", len(doc), MaxDocument)
	}
	r.scan.Reset(doc)
	err := r.scan.Object(r.property)
	if err == nil && !r.scan.End() {
		err = r.scan.Fail("more after the end")
	}
	switch {
	case err != nil && !errors.Is(err, ErrCorrupt):
		return corrupt("%v", err)
	case err != nil:
		return err
	case r.seen&required != required:
		return corrupt("a property is missing")
	case r.ints[propertyRows-numbersFrom] > 0 && r.has(propertyTime) == r.has(propertyData):
		return corrupt("one of time and data has to be there")
	}
	return nil
}

func (r *reader) property(name []byte) (err error) {
	p, known := r.propertyOf(name)
	if !known {
		return r.scan.Skip()
	}
	if r.has(p) {
		return corrupt("%s stands twice", name)
	}
	r.seen |= 1 << p
	switch {
	case p == propertyTime || p == propertyData:
		r.texts[p], err = r.opaque()
		r.dataBytes += len(r.texts[p])
	case p < numbersFrom:
		r.texts[p], err = r.text()
	case p < propertyUnique:
		r.ints[p-numbersFrom], err = r.integer()
	case p == propertyUnique:
		r.unique, err = r.bool()
	case p == propertyLabels:
		err = r.labelSets()
	default:
		err = r.scan.Array(func(int) error { return r.entry() })
	}
	return err
}

// text returns a string. It is valid while the document is.
func (r *reader) text() ([]byte, error) {
	if r.scan.Next() != '"' {
		return nil, r.scan.Fail("no string")
	}
	return r.scan.Str()
}

// opaque returns a base64 string undecoded; the decoder refuses what is not base64.
func (r *reader) opaque() ([]byte, error) {
	if r.scan.Next() != '"' {
		return nil, r.scan.Fail("no string")
	}
	return r.scan.Opaque()
}

func (r *reader) bool() (bool, error) {
	if r.scan.Next() == 't' {
		return true, r.scan.Word("true")
	}
	return false, r.scan.Word("false")
}

// integer returns a number without a fraction, of at most 2^53 where it is not written as digits alone: a store that
// keeps numbers as float64 may spell it with an exponent.
func (r *reader) integer() (int64, error) {
	r.scan.Next()
	n, err := r.scan.Number()
	if err != nil {
		return 0, err
	}
	if n.Integer && n.Digits <= 18 {
		if n.Negative {
			return -int64(n.Mantissa), nil
		}
		return int64(n.Mantissa), nil
	}
	f, err := n.Float()
	if i := int64(f); err == nil && math.Abs(f) <= maxExact && float64(i) == f {
		return i, nil
	}
	return 0, corrupt("%.60s is not an integer", n.Text)
}

func (r *reader) labelSets() error {
	return r.scan.Array(func(int) error {
		var set []telemetry.Label
		err := r.scan.Object(func(raw []byte) error {
			name := string(raw)
			value, err := r.text()
			if err != nil {
				return err
			}
			if !utf8.ValidString(name) || !utf8.Valid(value) {
				return corrupt("label %q is not UTF-8", name)
			}
			set = append(set, telemetry.Label{Name: name, Value: string(value)})
			return nil
		})
		if err != nil {
			return err
		}
		n := len(set)
		l := telemetry.NewLabels(set)
		if len(l) != n || (len(r.labels) > 0 && r.labels[len(r.labels)-1].Compare(l) >= 0) {
			return corrupt("labels %v stand out of order or twice", l)
		}
		r.labels = append(r.labels, l)
		return nil
	})
}

// entry reads a column or a pack of columns.
func (r *reader) entry() error {
	var c rawColumn
	var p rawPack
	var kind []byte
	statsAt := -1
	err := r.scan.Object(func(name []byte) (err error) {
		switch string(name) {
		case "metric":
			if c.metric, err = r.text(); err == nil && (len(c.metric) == 0 || !utf8.Valid(c.metric)) {
				return corrupt("a metric's name is empty or not UTF-8")
			}
			if c.wanted = r.wanted.hasRaw(c.metric); !c.wanted && r.brief && r.has(propertyTime) {
				c.passed = r.scan.PassRest()
			}
		case "type":
			kind, err = r.text()
			c.kind, _ = telemetry.ParseKind(string(kind))
		case "labels":
			c.group, err = r.within(0, MaxRows)
		case "stats":
			statsAt = r.scan.At()
			if c.metric != nil && !c.wanted {
				return r.scan.Pass()
			}
			if !c.wanted || c.kind == 0 {
				return r.scan.Skip()
			}
			statsAt = 0
			c.stats, err = r.stats(c.kind)
		case "data":
			c.data, err = r.opaque()
			r.dataBytes += len(c.data)
		case "pack":
			p.columns, err = r.within(1, maxPack)
		case "index":
			p.index, err = r.opaque()
		default:
			return r.scan.Skip()
		}
		return err
	})
	if err != nil {
		return err
	}
	if c.passed {
		return nil
	}
	if p.columns > 0 {
		p.data = c.data
		r.packs = append(r.packs, p)
		return nil
	}
	if c.metric == nil || c.kind == 0 || statsAt < 0 {
		return corrupt("column %q of type %q lacks a name, a known type or statistics", c.metric, kind)
	}
	if statsAt > 0 && c.wanted {
		end := r.scan.At()
		r.scan.Seek(statsAt)
		if c.stats, err = r.stats(c.kind); err != nil {
			return err
		}
		r.scan.Seek(end)
	}
	r.columns = append(r.columns, c)
	return nil
}

// within returns an integer in least to most.
func (r *reader) within(least, most int64) (int, error) {
	i, err := r.integer()
	if err == nil && (i < least || i > most) {
		err = corrupt("%d where %d to %d can be", i, least, most)
	}
	return int(i), err
}

func (r *reader) stats(kind telemetry.Kind) (s Stats, err error) {
	counts := [9]*int{0: &s.Count, 6: &s.NaN, 7: &s.PosInf, 8: &s.NegInf}
	values := [9]*telemetry.Value{1: &s.Min, 2: &s.Max, 3: &s.Sum, 4: &s.First, 5: &s.Last}
	n := 0
	err = r.scan.Array(func(i int) (err error) {
		n++
		switch {
		case i >= len(counts):
			return corrupt("too many statistics")
		case counts[i] != nil:
			*counts[i], err = r.within(0, MaxRows)
		case kind == telemetry.Bool && i == 3:
			*values[i], err = r.statistic(telemetry.Int)
		default:
			*values[i], err = r.statistic(kind)
		}
		return err
	})
	if err == nil && (n != 1 && n != 6 && n != 9 || (kind == telemetry.Text) != (n == 1)) {
		err = corrupt("%d statistics of %s", n, kind)
	}
	return s, err
}

// statistic reads a number of a kind, none for null.
func (r *reader) statistic(kind telemetry.Kind) (telemetry.Value, error) {
	var none telemetry.Value
	c := r.scan.Next()
	if c == 'n' {
		return none, r.scan.Word("null")
	}
	switch kind {
	case telemetry.Float:
		n, err := r.scan.Number()
		if err != nil {
			return none, err
		}
		f, err := n.Float()
		if err != nil {
			return none, corrupt("a statistic %.60s", n.Text)
		}
		return telemetry.FloatValue(f), nil
	case telemetry.Bool:
		i, err := r.within(0, 1)
		return telemetry.BoolValue(i == 1), err
	case telemetry.Int:
		if c == '"' {
			return r.written()
		}
		i, err := r.integer()
		if err == nil && (i < -maxExact || i > maxExact) {
			err = corrupt("a statistic %d that no float64 holds", i)
		}
		return telemetry.IntValue(i), err
	}
	return none, corrupt("a statistic of %s", kind)
}

// written returns an integer beyond 2^53, as a string of digits.
func (r *reader) written() (telemetry.Value, error) {
	b, err := r.scan.Str()
	if err != nil {
		return telemetry.Value{}, err
	}
	i, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return telemetry.Value{}, corrupt("a statistic %.60q", b)
	}
	return telemetry.IntValue(i), nil
}
