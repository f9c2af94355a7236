package binning

import (
	"iter"

	"binnacle/internal/telemetry"
)

// Each gives the readings as they were taken, with the offset of their record, without tenant, device and tags. A reading is
// valid until the next one.
func (r *Rows) Each() iter.Seq2[int64, telemetry.Reading] {
	return func(yield func(int64, telemetry.Reading) bool) {
		var reading telemetry.Reading
		for i := range r.rows {
			reading.Time = r.rows[i].time
			reading.Labels = r.labels[r.rows[i].labels]
			reading.Fields = reading.Fields[:0]
			for _, c := range r.cellsOf(i) {
				reading.Fields = append(reading.Fields, telemetry.Field{Metric: r.metrics[c.metric], Value: r.value(c)})
			}
			if !yield(r.rows[i].offset, reading) {
				return
			}
		}
	}
}
