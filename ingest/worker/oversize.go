package worker

import (
	"slices"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"
)

// Documents above a megabyte fall off a cliff in request units, and the service takes no more than two.
const maxDocument = 1 << 20

// tinyPayload is a size below which no payload makes a document that is too large: at worst it is line protocol with a
// measurement of 800 bytes before each of 300 fields, and a column takes a kilobyte then.
const tinyPayload = 2 << 10

// chainKey names a chain within one partition of one stream.
type chainKey struct {
	tenant string
	device string
	day    telemetry.Day
}

// oversize returns the chains of a record with readings that would not fit one document, which a cut may not divide
// (rule W2). A record is encoded here only if an estimate that is never too low leaves it open.
func (v *verdicts) oversize(rec *Record, readings []telemetry.Reading) map[chainKey]bool {
	if len(rec.Value) < tinyPayload || surelyFit(readings) {
		return nil
	}
	parts := map[chainKey]*binning.Rows{}
	for i := range readings {
		r := &readings[i]
		key := chainKey{r.Tenant, r.Device, telemetry.DayOf(r.Time)}
		if parts[key] == nil {
			parts[key] = new(binning.Rows)
		}
		parts[key].Append(rec.Offset, *r)
	}
	over := map[chainKey]bool{}
	for key, rows := range parts {
		h := chunk.Header{
			ID: chunk.ID{Day: key.day, Partition: v.partition}, TenantShard: key.tenant, Device: key.device,
			First: rec.Offset, Through: rec.Offset, After: -1, Readings: rows.Readings(),
		}
		doc, err := chunk.Encode(h, rows.Frame(binning.All, nil))
		over[key] = err != nil || len(doc) > maxDocument
	}
	return over
}

// What a document takes at most, in bytes before base64.
const (
	headBytes   = 4 << 10 // everything but columns
	columnBytes = 320     // a column without its metric and values: five statistics of up to 25 digits, and names
	valueBytes  = 24      // a value or an instant
	pairBytes   = 16      // a label without its name and value
)

// surelyFit reports whether readings fit one document whatever is in them, even all together.
func surelyFit(readings []telemetry.Reading) bool {
	columns, values, texts := headBytes, 0, 0
	for i := range readings {
		r := &readings[i]
		if i == 0 || !sameColumns(r, &readings[i-1]) {
			for _, f := range r.Fields {
				columns += columnBytes + 2*len(f.Metric) // at worst every character is escaped
			}
			for _, l := range r.Labels {
				columns += pairBytes + 2*len(l.Name) + 2*len(l.Value)
			}
		}
		values += valueBytes * (1 + len(r.Fields))
		for _, f := range r.Fields {
			if f.Value.Kind() == telemetry.Text {
				texts += len(f.Value.Text())
			}
		}
	}
	longest := base64Bytes(valueBytes*len(readings) + texts + headBytes)
	return longest <= chunk.MaxString && columns+base64Bytes(values+texts) <= maxDocument
}

func base64Bytes(n int) int { return n/3*4 + 4 }

// sameColumns reports whether two readings have the same columns.
func sameColumns(a, b *telemetry.Reading) bool {
	return slices.Equal(a.Labels, b.Labels) && slices.EqualFunc(a.Fields, b.Fields, func(x, y telemetry.Field) bool {
		return x.Value.Kind() == y.Value.Kind() && x.Metric == y.Metric
	})
}
