package binning

import (
	"time"

	"binnacle/internal/epk"
)

// Sizes of a chunk document in bytes. A write and a read have the lowest request units per kilobyte at
// 32 KB, by the service's own table; past 48 KB both get dearer again.
const (
	TargetBytes = 32 << 10
	MaxBytes    = 48 << 10
)

// full is the share of the target from which on a document counts as full: one more record might
// push it over.
const full = 0.97

// Sizer learns how many bytes of document a value of one device takes, so that a bin is cut near the
// target without being encoded over and over. The zero Sizer assumes a value is worth a byte and a half.
type Sizer struct{ perValue, overhead float64 }

// Estimates of a device that has had no chunk yet, measured on ten-metric vehicles.
const (
	firstPerValue = 1.5
	firstOverhead = 500
)

// Estimate is the expected size of a document of so many values.
func (s Sizer) Estimate(values int) float64 {
	if s.perValue == 0 {
		return firstOverhead + firstPerValue*float64(values)
	}
	return s.overhead + s.perValue*float64(values)
}

// Full tells whether a document of so many values is expected to reach the target.
func (s Sizer) Full(values int) bool { return s.Estimate(values) >= full*TargetBytes }

// Learn takes the size of an encoded document. Small documents are mostly overhead and teach nothing.
func (s *Sizer) Learn(values, bytes int) {
	if values == 0 || bytes < 4*firstOverhead {
		return
	}
	s.overhead = firstOverhead
	s.perValue = float64(bytes-firstOverhead) / float64(values)
}

// ReadingsFor is how many of the readings, which have so many values in all, should go into the next document: all
// of them while they are expected to stay well under the maximum, else as many as reach the target.
func (s Sizer) ReadingsFor(readings, values int) int {
	size := s.Estimate(values)
	if size <= (TargetBytes+MaxBytes)/2 {
		return readings
	}
	return max(1, int(TargetBytes/size*float64(readings)))
}

// FirstHold is how long the first bin of a device waits after a start: a part of the hold that the
// device's hash decides, so that a fleet that begins together does not come due together.
func FirstHold(device string, hold time.Duration) time.Duration {
	hi, _ := epk.Sum(epk.String(device))
	const parts = 1 << 20
	return time.Duration(float64(hold) * (float64(hi%parts) + 1) / parts)
}
