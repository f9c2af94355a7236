package admit

import (
	"slices"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"
	"binnacle/internal/wire/jsontext"
)

// Documents above a megabyte fall off a cliff in request units, and the service takes no more than two.
const maxDocument = 1 << 20

// surelyFits is memory of readings. A document of them has less than eight times that, its longest string twice.
const surelyFits = 30 << 10

// oversize returns the chains of a record with readings that would not fit one document, which a cut may not divide
// (rule W2). Readings are encoded here only if an estimate that is never too low leaves it open.
func (p *places) oversize(rec *Record, readings []telemetry.Reading) (over map[Chain]bool) {
	var all documentSize
	for i := range readings {
		all.add(&readings[i], worstText)
	}
	if all.fits() {
		return nil
	}
	for key, mine := range chainsOf(readings) {
		var size documentSize
		for _, i := range mine {
			size.add(&readings[i], jsontext.Len)
		}
		if size.fits() || p.encodable(rec, key, readings, mine) {
			continue
		}
		if over == nil {
			over = map[Chain]bool{}
		}
		over[key] = true
	}
	return over
}

func chainsOf(readings []telemetry.Reading) map[Chain][]int32 {
	chains := map[Chain][]int32{}
	for i := range readings {
		key := ChainOf(&readings[i])
		chains[key] = append(chains[key], int32(i))
	}
	return chains
}

func (p *places) encodable(rec *Record, key Chain, readings []telemetry.Reading, mine []int32) bool {
	var rows binning.Rows
	for _, i := range mine {
		rows.Append(rec.Offset, readings[i])
	}
	h := chunk.Header{
		ID: chunk.ID{Day: key.Day, Partition: p.cfg.Partition}, TenantShard: key.Tenant, Device: key.Device,
		First: rec.Offset, Through: rec.Offset, After: -1, Readings: rows.Readings(),
	}
	doc, err := chunk.Encode(h, rows.Frame(binning.All, nil))
	return err == nil && len(doc) <= maxDocument
}

// What a document takes at most, in bytes before base64.
const (
	headBytes   = 4 << 10 // everything but columns
	columnBytes = 320     // a column without its metric and values: five statistics of up to 25 digits, and names
	valueBytes  = 24      // a value or an instant
	pairBytes   = 16      // a label without its name and value
)

// worstText returns how many bytes a text takes in JSON if every byte is a control character.
func worstText(s string) int { return len(`\u0000`) * len(s) }

// documentSize bounds what a document of readings takes, whatever is in them.
type documentSize struct {
	columns, readings, values, texts int
	last                             *telemetry.Reading
}

// add adds a reading. text returns what a text of its takes in JSON at most.
func (s *documentSize) add(r *telemetry.Reading, text func(string) int) {
	if s.last == nil || !sameColumns(r, s.last) {
		for i := range r.Fields {
			s.columns += columnBytes + text(r.Fields[i].Metric)
		}
		for _, l := range r.Labels {
			s.columns += pairBytes + text(l.Name) + text(l.Value)
		}
	}
	s.last = r
	s.readings++
	s.values += 1 + len(r.Fields)
	for i := range r.Fields {
		if v := &r.Fields[i].Value; v.Kind() == telemetry.Text {
			s.texts += len(v.Text())
		}
	}
}

// fits reports whether such a document is surely not too large.
func (s *documentSize) fits() bool {
	longest := base64Bytes(valueBytes*s.readings + s.texts + headBytes)
	return longest <= chunk.MaxString &&
		headBytes+s.columns+base64Bytes(valueBytes*s.values+s.texts) <= maxDocument
}

func base64Bytes(n int) int { return n/3*4 + 4 }

func sameColumns(a, b *telemetry.Reading) bool {
	return slices.Equal(a.Labels, b.Labels) && slices.EqualFunc(a.Fields, b.Fields, func(x, y telemetry.Field) bool {
		return x.Value.Kind() == y.Value.Kind() && x.Metric == y.Metric
	})
}
