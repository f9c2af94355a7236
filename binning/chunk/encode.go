package chunk

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"
	"unicode/utf8"

	"binnacle/internal/telemetry"
	"binnacle/internal/wire/jsontext"

	"github.com/klauspost/compress/huff0"
)

// smallBelow is the number of bytes before packing below which all of a chunk goes into one string. Measured on
// documents of ten metrics, a string per column takes 12 % more than one string at 10 rows; at about 250 rows, where
// there are this many bytes, the two are even for the simulated trucks, and from there on a column has its own
// Huffman code to win. (Ten like columns, as in TSBS's cpu case, go on gaining from one string: 10 % here, 4 % at
// 1,000 rows.)
const smallBelow = 3 << 10

// mostListed is the number of columns up to which each has its own entry in the document, which people can read. An
// entry takes about a hundred bytes apart from its values, in a pack about fifteen.
const mostListed = 16

// encoder is the scratch memory of one Encode.
type encoder struct {
	s         section // all columns, one after the other
	ends      []end   // where the instants and each column end in s
	doc       []byte
	frame     []byte
	packet    []byte
	brief     bool // for blocks
	patterns  patterns
	present   Bitmap // the column being written
	huff      huff0.Scratch
	huffed    []byte
	residuals []uint64
	zeros     []uint64
	bits      []uint64

	direct, listed numbers
	dict           dictionary
	indexPlan      intPlan
	predictions    [2]predictions
	distances      []int64
	texts          map[string]int64
	distinctTexts  []string

	index   indexed
	indexed section
}

// end is where a section ends in the encoder's buffers.
type end struct{ plain, packed int }

// Encode returns the document of a frame, as stored. From, To, Rows and Unique follow from the frame, the rest of the
// header from h. The frame must keep the rules of Frame and lie within the day of h.ID. The same h and f always give
// the same bytes. A frame or document above the limits gives ErrTooLarge; any other error is the caller's mistake. It
// may be called from any number of goroutines.
func Encode(h Header, f Frame) ([]byte, error) {
	if err := h.check(); err != nil {
		return nil, fmt.Errorf("encode chunk %s: %w", h.ID, err)
	}
	if !utf8.ValidString(h.TenantShard) || !utf8.ValidString(h.Device) {
		return nil, fmt.Errorf("encode chunk %s: tenant shard %q or device %q is not UTF-8", h.ID, h.TenantShard, h.Device)
	}
	if err := f.check(h.ID.Day); err != nil {
		return nil, fmt.Errorf("encode chunk %s: %w", h.ID, err)
	}
	h.Rows, h.Unique = f.Rows(), f.distinctTimes()
	h.From, h.To, _ = f.Bounds()
	e := takeEncoder(false)
	defer e.release()
	e.writeSections(h.ID.Day, f)
	if err := e.writeDocument(h, f); err != nil {
		return nil, fmt.Errorf("encode chunk %s: %w", h.ID, err)
	}
	return bytes.Clone(e.doc), nil
}

// writeSections fills e.s with the instants of all groups and then the columns, and e.ends with where each ends.
func (e *encoder) writeSections(day telemetry.Day, f Frame) {
	e.s.plain, e.s.packed, e.ends = e.s.plain[:0], e.s.packed[:0], e.ends[:0]
	for i := range f.Groups {
		e.writeTimes(f.Groups[i].Times, day)
	}
	e.endSection()
	for i := range f.Groups {
		g := &f.Groups[i]
		for j := range g.Columns {
			e.writeColumn(&g.Columns[j], len(g.Times))
			e.endSection()
		}
	}
}

func (e *encoder) endSection() { e.ends = append(e.ends, end{len(e.s.plain), len(e.s.packed)}) }

// section returns the sections from k to last in one: the instants for 0, else column k-1.
func (e *encoder) section(k, last int) section {
	var from end
	if k > 0 {
		from = e.ends[k-1]
	}
	to := e.ends[last]
	return section{e.s.plain[from.plain:to.plain], e.s.packed[from.packed:to.packed]}
}

func (e *encoder) writeDocument(h Header, f Frame) error {
	if len(e.s.packed) > maxUnpacked {
		return fmt.Errorf("%d bytes are above %d: %w", len(e.s.packed), maxUnpacked, ErrTooLarge)
	}
	columns := len(e.ends) - 1
	kept := listed
	switch {
	case columns > mostListed:
		kept = packed
	case len(e.s.plain)+len(e.s.packed) < smallBelow:
		kept = small
	}
	e.doc = appendHeader(e.doc[:0], h)
	name, first := "time", e.section(0, 0)
	if kept == small {
		name, first = "data", e.s
	}
	err := e.appendData(name, first)
	if err != nil {
		return err
	}
	if len(f.Groups) > 1 || len(f.Groups[0].Labels) > 0 {
		e.doc = append(e.doc, `,"labels":[`...)
		for i := range f.Groups {
			if i > 0 {
				e.doc = append(e.doc, ',')
			}
			if e.doc = jsontext.AppendLabels(e.doc, f.Groups[i].Labels); len(e.doc) > MaxDocument {
				return e.tooLarge()
			}
		}
		e.doc = append(e.doc, ']')
	}
	e.doc = append(e.doc, `,"columns":[`...)
	if kept == packed {
		err = e.appendPacks(f)
	} else {
		err = e.appendColumns(f, kept)
	}
	if err != nil {
		return err
	}
	if e.doc = append(e.doc, ']', '}'); len(e.doc) > MaxDocument {
		return e.tooLarge()
	}
	return nil
}

func (e *encoder) tooLarge() error {
	return fmt.Errorf("a document of %d bytes or more, above %d: %w", len(e.doc), MaxDocument, ErrTooLarge)
}

func appendHeader(b []byte, h Header) []byte {
	b = jsontext.AppendString(append(b, `{"id":`...), h.ID.String())
	b = strconv.AppendInt(append(b, `,"v":`...), Version, 10)
	b = jsontext.AppendString(append(b, `,"type":"chunk","tenantShard":`...), h.TenantShard)
	b = jsontext.AppendString(append(b, `,"device":`...), h.Device)
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"from", h.From}, {"to", h.To}, {"rows", int64(h.Rows)}, {"readings", int64(h.Readings)},
		{"first", h.First}, {"through", h.Through}, {"after", h.After}, {"cut", h.Cut},
	} {
		b = jsontext.AppendString(append(b, ','), n.name)
		b = strconv.AppendInt(append(b, ':'), n.value, 10)
	}
	b = strconv.AppendBool(append(b, `,"unique":`...), h.Unique)
	if h.TTL > 0 {
		b = strconv.AppendInt(append(b, `,"ttl":`...), int64(h.TTL), 10)
	}
	return b
}

func (e *encoder) appendColumns(f Frame, kept layout) error {
	k := 0
	for i := range f.Groups {
		for j := range f.Groups[i].Columns {
			c := &f.Groups[i].Columns[j]
			if k > 0 {
				e.doc = append(e.doc, ',')
			}
			k++
			e.doc = jsontext.AppendString(append(e.doc, `{"metric":`...), c.Metric)
			if i > 0 {
				e.doc = strconv.AppendInt(append(e.doc, `,"labels":`...), int64(i), 10)
			}
			e.doc = jsontext.AppendString(append(e.doc, `,"type":`...), c.Kind.String())
			s := StatsOf(c)
			e.doc = appendStats(append(e.doc, `,"stats":`...), c.Kind, &s)
			if kept == listed {
				if err := e.appendData("data", e.section(k, k)); err != nil {
					return fmt.Errorf("column %s: %w", c.Metric, err)
				}
			}
			e.doc = append(e.doc, '}')
		}
	}
	return nil
}

// appendData appends the property of a section's packet in base64.
func (e *encoder) appendData(name string, s section) error {
	e.packet = e.appendPacket(e.packet[:0], s)
	if n := base64.StdEncoding.EncodedLen(len(e.packet)); n > MaxString {
		return fmt.Errorf("a string of %d characters, above %d: %w", n, MaxString, ErrTooLarge)
	}
	e.doc = jsontext.AppendString(append(e.doc, ','), name)
	e.doc = base64.StdEncoding.AppendEncode(append(e.doc, `:"`...), e.packet)
	e.doc = append(e.doc, '"')
	return nil
}

// packBytes is the number of bytes before packing at which a pack is full. A reader of one column decodes a whole
// pack.
const packBytes = 8 << 10

// What the index of a pack may take: indexBytes in all, and columnBytes for the statistics of a column.
const (
	indexBytes  = 40 << 10
	columnBytes = 100
)

// placed is a column and its label set.
type placed struct {
	*Column
	group int
}

// appendPacks appends the columns in runs: names and statistics in one string, values in another.
func (e *encoder) appendPacks(f Frame) error {
	var columns []placed
	for i := range f.Groups {
		for j := range f.Groups[i].Columns {
			columns = append(columns, placed{&f.Groups[i].Columns[j], i})
		}
	}
	for from := 0; from < len(columns); {
		n := e.packOf(columns, from)
		if from > 0 {
			e.doc = append(e.doc, ',')
		}
		e.doc = strconv.AppendInt(append(e.doc, `{"pack":`...), int64(n), 10)
		err := e.appendData("index", e.indexOf(columns[from:from+n]))
		if err == nil {
			err = e.appendData("data", e.section(from+1, from+n))
		}
		if err != nil {
			return fmt.Errorf("columns %s to %s: %w", columns[from].Metric, columns[from+n-1].Metric, err)
		}
		e.doc = append(e.doc, '}')
		from += n
	}
	return nil
}

// packOf returns the number of columns in the pack that begins with one, at least that one.
func (e *encoder) packOf(columns []placed, from int) int {
	begin, index := e.ends[from], 0
	n := 0
	for ; from+n < len(columns) && n < maxPack; n++ {
		index += columnBytes + len(columns[from+n].Metric)
		end := e.ends[from+n+1]
		if n > 0 && (index > indexBytes || end.plain-begin.plain+end.packed-begin.packed > packBytes) {
			break
		}
	}
	return n
}

// indexOf returns the section of the index of a run of columns. It is valid until the next call.
func (e *encoder) indexOf(columns []placed) section {
	x := &e.index
	x.reset()
	before := ""
	for _, c := range columns {
		s := StatsOf(c.Column)
		x.add(c.group, c.Column, before, &s)
		before = c.Metric
	}
	values := e.s
	e.s = section{e.indexed.plain[:0], e.indexed.packed[:0]}
	e.writeIndex(x, columns)
	e.indexed, e.s = e.s, values
	return e.indexed
}
