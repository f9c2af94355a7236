package chunk

import (
	"bytes"
	"fmt"
	"strconv"

	"binnacle/internal/wire/jsontext"
)

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
