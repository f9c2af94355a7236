package binning

import (
	"iter"

	"binnacle/internal/telemetry"
)

// Each returns the readings as they were taken, without tenant and device, each with the offset of its record. A
// reading's Fields are overwritten by the next one's.
func (r *Rows) Each() iter.Seq2[int64, telemetry.Reading] {
	return func(yield func(int64, telemetry.Reading) bool) {
		i := 0
		for reading := range r.readings(0, len(r.rows)) {
			if !yield(r.rows[i].offset, *reading) {
				return
			}
			i++
		}
	}
}
