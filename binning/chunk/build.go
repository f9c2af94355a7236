package chunk

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"

	"binnacle/internal/telemetry"
	"binnacle/internal/wire/jsontext"
)

// chunk makes what was found in a document a Chunk, which refers to nothing of it.
func (r *reader) chunk() (*Chunk, error) {
	if string(r.texts[propertyType]) != "chunk" {
		return nil, corrupt("type %q is not chunk", r.texts[propertyType])
	}
	if v := r.ints[propertyV-numbersFrom]; v != Version {
		return nil, corrupt("version %d where this release knows %d", v, Version)
	}
	if r.ints[propertyRows-numbersFrom] == 0 {
		return r.erased()
	}
	c := &Chunk{labels: r.labels}
	if !r.has(propertyLabels) {
		c.labels = []telemetry.Labels{nil}
	}
	if err := r.layout(c); err != nil {
		return nil, err
	}
	var before *rawColumn
	wanted := 0
	for i := range r.columns {
		if err := r.columns[i].checkOrder(before, len(c.labels), r.brief); err != nil {
			return nil, err
		}
		before = &r.columns[i]
		if before.wanted {
			wanted++
		}
	}
	if !r.brief && (before == nil || before.group != len(c.labels)-1) {
		return nil, corrupt("%d label sets, some without columns", len(c.labels))
	}
	if len(r.columns) > MaxColumns {
		return nil, corrupt("%d columns, above %d", len(r.columns), MaxColumns)
	}
	names := r.keep(c, wanted)
	c.hold(r.columns)
	c.stored = r.ints[propertyStored-numbersFrom]
	return c, r.header(&c.Header, names)
}

// layout finds out how the columns are kept, and reads the indexes of packs.
func (r *reader) layout(c *Chunk) error {
	switch {
	case r.has(propertyData):
		c.layout = small
		if len(r.packs) > 0 {
			return corrupt("packs in a chunk of one string")
		}
		c.shared = []shared{{holds: make([]held, len(r.columns))}}
	case len(r.packs) == 0:
		c.layout = listed
	default:
		c.layout = packed
		if len(r.columns) > 0 {
			return corrupt("columns beside packs")
		}
		return r.openPacks(c)
	}
	return nil
}

// hold fills in which columns stand in which shared packet.
func (c *Chunk) hold(columns []rawColumn) {
	next := int32(0)
	for i := range c.shared {
		s := &c.shared[i]
		for k := range s.holds {
			s.holds[k] = held{group: int32(columns[k].group), column: -1}
			if columns[k].wanted {
				s.holds[k].column = next
				next++
			}
		}
		columns = columns[len(s.holds):]
	}
}

// keep copies the parts of the document that are needed later, all bytes in one piece and all text in another, and
// returns the first two parts of the text, the shard and the device.
func (r *reader) keep(c *Chunk, wanted int) (names [2]string) {
	data := r.texts[propertyTime]
	if c.layout == small {
		data = r.texts[propertyData]
	}
	total := len(data)
	text := append(append(r.names, r.texts[propertyShard]...), r.texts[propertyDevice]...)
	text = append(text, r.texts[propertyETag]...)
	for i := range r.columns {
		if k := &r.columns[i]; k.wanted {
			total += len(k.data)
			text = append(text, k.metric...)
		}
	}
	for _, p := range r.packs {
		total += len(p.data)
	}
	all := string(text[len(r.names):])
	c.kept = total + len(all)
	r.names = text
	cut := func(n int) (s string) {
		s, all = all[:n], all[n:]
		return s
	}
	names = [2]string{cut(len(r.texts[propertyShard])), cut(len(r.texts[propertyDevice]))}
	c.etag = cut(len(r.texts[propertyETag]))
	kept := make([]byte, 0, total)
	store := func(b []byte) []byte {
		from := len(kept)
		kept = append(kept, b...)
		return kept[from:len(kept):len(kept)]
	}
	c.data = store(data)
	c.columns = make([]storedColumn, 0, wanted)
	for i := range r.columns {
		if k := &r.columns[i]; k.wanted {
			s := storedColumn{group: k.group, kind: k.kind, name: cut(len(k.metric)), stats: k.stats}
			if c.layout == listed {
				s.data = store(k.data)
			}
			c.columns = append(c.columns, s)
		}
	}
	for i := range r.packs {
		c.shared[i].data = store(r.packs[i].data)
	}
	return names
}

func (r *reader) header(h *Header, names [2]string) error {
	id, err := ParseID(string(r.texts[propertyID]))
	if err != nil {
		return corrupt("%v", err)
	}
	h.ID = id
	h.TenantShard, h.Device = names[0], names[1]
	if h.TenantShard == "" || h.Device == "" || !utf8.ValidString(h.TenantShard) || !utf8.ValidString(h.Device) {
		return corrupt("tenant shard %q or device %q is empty or not UTF-8", h.TenantShard, h.Device)
	}
	h.Unique = r.unique
	last := id.Day.End() - 1
	for _, p := range []struct {
		property    property
		into        *int64
		least, most int64
	}{
		{propertyFrom, &h.From, id.Day.Start(), last},
		{propertyTo, &h.To, r.ints[propertyFrom-numbersFrom], last},
		{propertyFirst, &h.First, 0, maxExact},
		{propertyThrough, &h.Through, r.ints[propertyFirst-numbersFrom], maxExact},
		{propertyAfter, &h.After, -1, maxExact},
		{propertyCut, &h.Cut, 0, maxExact},
	} {
		v := r.ints[p.property-numbersFrom]
		if v < p.least || v > p.most {
			return corrupt("%d where %d to %d can be", v, p.least, p.most)
		}
		*p.into = v
	}
	rows, readings, ttl := r.ints[propertyRows-numbersFrom], r.ints[propertyReadings-numbersFrom],
		r.ints[propertyTTL-numbersFrom]
	if rows < 0 || rows > MaxRows || readings < 0 || readings > maxExact || ttl > maxExact || r.has(propertyTTL) &&
		ttl < 1 {
		return corrupt("%d rows of %d readings, to live %d s", rows, readings, ttl)
	}
	h.Rows, h.Readings, h.TTL = int(rows), int(readings), int(ttl)
	return nil
}

// Erased is what one order of erasure has removed from a chunk (rule E-R7).
type Erased struct {
	Order  string // its id
	Rows   int
	Digest string // digest of the document that had the rows
}

// EncodeErased returns the document of a chunk without rows: all its rows were erased, or it closes a chain and had
// none (rule E-R8). Its From and To are the first instant of its day, so that what reads the whole day finds it.
func EncodeErased(h Header, erased []Erased) ([]byte, error) {
	h.From, h.To = h.ID.Day.Start(), h.ID.Day.Start()
	h.Rows, h.Readings, h.Unique = 0, 0, true
	if err := h.check(); err != nil {
		return nil, fmt.Errorf("encode chunk %s: %w", h.ID, err)
	}
	b := append(appendHeader(nil, h), `,"erased":[`...)
	for i, e := range erased {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"order":`...)
		b = jsontext.AppendString(b, e.Order)
		b = append(b, `,"rows":`...)
		b = strconv.AppendInt(b, int64(e.Rows), 10)
		b = append(b, `,"digest":`...)
		b = append(jsontext.AppendString(b, e.Digest), '}')
	}
	return bytes.Clone(append(b, `],"columns":[]}`...)), nil
}

// IsErased reports whether the chunk has no rows, because all were erased.
func (h *Header) IsErased() bool { return h.Rows == 0 }

// erased returns a chunk without rows.
func (r *reader) erased() (*Chunk, error) {
	if r.has(propertyTime) || r.has(propertyData) || r.has(propertyLabels) || len(r.columns)+len(r.packs) > 0 {
		return nil, corrupt("a chunk without rows has columns")
	}
	c := &Chunk{stored: r.ints[propertyStored-numbersFrom]}
	return c, r.header(&c.Header, r.keep(c, 0))
}

// Header is the part of a chunk that is not its columns.
type Header struct {
	ID          ID
	TenantShard string // level 1 of the partition key
	Device      string // level 2

	From, To int64 // first and last instant, both inclusive, in milliseconds since 1970 UTC; within the day of ID
	Rows     int
	Readings int // how many, before readings with the same instant and labels were merged into one row

	First   int64 // offset of the first record in it
	Through int64 // offset of the last record in it
	After   int64 // Through of the chunk before in the chain, -1 for none
	// Cut is when the writer cut the chunk, in milliseconds since 1970 UTC by its own clock: what was known when.
	Cut int64

	Unique bool // no two rows have the same instant
	TTL    int  // seconds from the write until the service removes it, 0 for never
}

// check returns an error that names the part of h that can't be stored.
func (h Header) check() error {
	for _, n := range []struct {
		name  string
		value int64
		least int64
	}{
		{"readings", int64(h.Readings), 0}, {"first", h.First, 0}, {"through", h.Through, h.First},
		{"after", h.After, -1}, {"cut", h.Cut, 0}, {"ttl", int64(h.TTL), 0}, {"partition", int64(h.ID.Partition), 0},
		{"day", int64(h.ID.Day), 0},
	} {
		if n.value < n.least || n.value > maxExact {
			return fmt.Errorf("%s %d is not in %d to 2^53", n.name, n.value, n.least)
		}
	}
	if h.TenantShard == "" || h.Device == "" {
		return fmt.Errorf("tenant shard %q and device %q must both be there", h.TenantShard, h.Device)
	}
	return nil
}
