package chunk

import (
	"bytes"
	"slices"

	"binnacle/internal/telemetry"
)

// Chunk is a parsed document. Its columns are not decoded yet. It is safe for concurrent use.
type Chunk struct {
	Header Header

	labels  []telemetry.Labels // the groups', ascending
	columns []storedColumn     // the columns asked for, by group, then metric, then kind
	layout  layout
	data    []byte // base64: instants and all columns of a small chunk, instants alone of others
	// shared is, for each packet, the columns that are kept together; empty where each column has its own packet.
	shared []shared
	kept   int // bytes of the document
	etag   string
	stored int64
}

// layout is how the columns of a chunk are kept.
type layout byte

const (
	small  layout = iota // one string for the instants and all columns
	listed               // a string for each column
	packed               // a string for a run of columns, and one for their names and statistics
)

// storedColumn is a column as the document has it.
type storedColumn struct {
	group int
	kind  telemetry.Kind
	name  string
	stats Stats
	data  []byte // base64; nil where columns share a packet
}

// shared is a packet of several columns.
type shared struct {
	data  []byte // base64; nil in a small chunk, as its packet begins with the instants
	holds []held
}

// held is a column in a shared packet.
type held struct {
	group  int32
	column int32 // its place in Chunk.columns, -1 if it was not asked for
}

// ColumnInfo describes a column without its values, from what the document says undecoded.
type ColumnInfo struct {
	Labels telemetry.Labels
	Metric string
	Kind   telemetry.Kind
	Stats  Stats
}

// ETag returns what the service has given to this state of the document, "" if it came without.
func (c *Chunk) ETag() string { return c.etag }

// Stored returns the second since 1970 UTC at which the service took the document, 0 if it came without.
func (c *Chunk) Stored() int64 { return c.stored }

// Bytes returns how many bytes of the document it keeps.
func (c *Chunk) Bytes() int { return c.kept }

// NumColumns returns the number of columns that were asked for.
func (c *Chunk) NumColumns() int { return len(c.columns) }

// Columns lists the columns that were asked for by labels, metric and kind.
func (c *Chunk) Columns() []ColumnInfo {
	out := make([]ColumnInfo, len(c.columns))
	for i := range c.columns {
		s := &c.columns[i]
		out[i] = ColumnInfo{Labels: c.labels[s.group], Metric: s.name, Kind: s.kind, Stats: s.stats}
	}
	return out
}

// HasEmptyLabels reports whether a series has a label with an empty value, which readers take for none.
func (c *Chunk) HasEmptyLabels() bool {
	return slices.ContainsFunc(c.labels, func(set telemetry.Labels) bool {
		return slices.ContainsFunc(set, func(l telemetry.Label) bool { return l.Value == "" })
	})
}

// Parse reads a document and decodes no column of it. Properties it doesn't know, such as the service's own, are
// ignored. It keeps nothing of doc. What is not a chunk of a known version gives ErrCorrupt.
func Parse(doc []byte) (*Chunk, error) { return ParseColumns(doc, nil) }

// ParseColumns parses a document for a reader of a few metrics, all if metrics is nil. It skips the other columns,
// which are neither listed nor decoded later; damage in them may stay unnoticed.
func ParseColumns(doc []byte, metrics []string) (*Chunk, error) {
	if len(doc) > MaxDocument {
		return nil, corrupt("a document of %d bytes, above %d", len(doc), MaxDocument)
	}
	r := readers.Get().(*reader)
	defer r.release()
	r.wanted, r.brief = wantedOf(metrics), metrics != nil
	if err := r.walk(doc); err != nil {
		return nil, err
	}
	return r.chunk()
}

// checkOrder checks that a column comes after the column before, nil for the first, and is of one of that many
// groups. In brief there may have been others between.
func (c *rawColumn) checkOrder(before *rawColumn, groups int, brief bool) error {
	group := -1
	if before != nil {
		group = before.group
	}
	switch {
	case c.group >= groups:
		return corrupt("column %q is of label set %d of %d", c.metric, c.group, groups)
	case c.group < group || c.group > group+1 && !brief:
		return corrupt("column %q is not in the order of the labels", c.metric)
	case c.group == group && !before.before(c):
		return corrupt("column %q is not in the order of the metrics", c.metric)
	}
	return nil
}

func (c *rawColumn) before(d *rawColumn) bool {
	if n := bytes.Compare(c.metric, d.metric); n != 0 {
		return n < 0
	}
	return c.kind < d.kind
}

// Overhead returns how many bytes of a document are there whatever its number of rows: all but instants and values.
// What is not a document gives ErrCorrupt.
func Overhead(doc []byte) (int, error) {
	r := readers.Get().(*reader)
	defer r.release()
	r.wanted = wantedOf([]string{})
	if err := r.walk(doc); err != nil {
		return 0, err
	}
	return len(doc) - r.dataBytes, nil
}

// ColumnBytes returns how many bytes of the document each of Columns takes. Columns of one packet divide it by their
// values; instants and what the document has whatever its rows are left out.
func (c *Chunk) ColumnBytes() []float64 {
	out := make([]float64, len(c.columns))
	for i := range c.columns {
		out[i] = float64(len(c.columns[i].data))
	}
	for _, packet := range c.shared {
		bytes, values := float64(len(packet.data)), 0.0
		if packet.data == nil {
			bytes = float64(len(c.data))
		}
		for _, h := range packet.holds {
			if h.column >= 0 {
				values += float64(c.columns[h.column].stats.Values())
			}
		}
		for _, h := range packet.holds {
			if h.column >= 0 && values > 0 {
				out[h.column] += bytes * float64(c.columns[h.column].stats.Values()) / values
			}
		}
	}
	return out
}
