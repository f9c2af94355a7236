package binning

import (
	"cmp"
	"math"
	"sort"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/sharding/epk"
)

// TargetBytes is the size of a chunk document in bytes that most devices' bins are cut at: just below 32 KB, where the
// service's table of sizes has its cheapest row per kilobyte. Nobody knows whether a larger document is charged as the
// next row, which is twice as dear, or on the line to it; below the row both are the same. What is left up to 32 KB is
// for system properties, which may count, and for what an estimate is off by.
const TargetBytes = 31 << 10

// maxTarget is the largest target: beyond, writes and reads fall off a cliff in request units, and the service takes
// no document above 2 MB.
const maxTarget = TargetBytes << 4

// full is the share of the target from which on a document counts as full: one more record might push it over.
const full = 0.97

// Sizer learns how many bytes of document each value and each column of one device takes, so that a bin is cut near
// the target without being encoded over and over. The zero Sizer assumes what vehicles of ten metrics take.
type Sizer struct{ perValue, perColumn float32 }

// Estimates for a device without a chunk so far, and the bytes of a document without columns and values.
const (
	firstPerValue  = 1.5
	firstPerColumn = 25
	documentBytes  = 400
	// leastValues is the bytes of values below which a document doesn't tell what one takes.
	leastValues = 1500
)

// overhead returns the expected size of a document with that many columns and no values.
func (s Sizer) overhead(columns int) float64 {
	per := float64(s.perColumn)
	per = cmp.Or(per, firstPerColumn)
	return documentBytes + per*float64(columns)
}

// Estimate returns the expected size of a document with that many values and columns.
func (s Sizer) Estimate(values, columns int) float64 {
	per := float64(s.perValue)
	per = cmp.Or(per, firstPerValue)
	return s.overhead(columns) + per*float64(values)
}

// Target returns the size in bytes at which a bin with that many columns should be cut.
func (s Sizer) Target(columns int) int {
	overhead := s.overhead(columns)
	i := sort.Search(len(targets)-1, func(i int) bool { return overhead <= targets[i].overhead })
	return targets[i].bytes
}

// Max returns the size in bytes that a document with that many columns should not pass.
func (s Sizer) Max(columns int) int { return min(s.Target(columns)*3/2, maxTarget+maxTarget/16) }

// Full reports whether a document with that many values and columns is expected to reach the target.
func (s Sizer) Full(values, columns int) bool {
	return s.Estimate(values, columns) >= full*float64(s.Target(columns))
}

// Measured is the size of an encoded document.
type Measured struct {
	Values, Columns int
	Bytes, Overhead int // Overhead is the part of Bytes that does not depend on the number of rows
}

// Observe updates the sizer with an encoded document.
func (s *Sizer) Observe(m Measured) {
	if m.Columns > 0 {
		s.perColumn = max(1, float32(m.Overhead-documentBytes)/float32(m.Columns))
	}
	if m.Bytes-m.Overhead >= leastValues {
		s.perValue = float32(m.Bytes-m.Overhead) / float32(m.Values)
	}
}

// ReadingsFor returns how many of the readings, which have that many values in all, should go into the next document:
// all of them while they are expected to stay well under the maximum, else as many as reach the target.
func (s Sizer) ReadingsFor(readings, values, columns int) int {
	size, target := s.Estimate(values, columns), s.Target(columns)
	if size <= s.alone(columns) {
		return readings
	}
	fixed := s.overhead(columns)
	return max(1, int((float64(target)-fixed)/(size-fixed)*float64(readings)))
}

// alone returns the size up to which readings stay in one document.
func (s Sizer) alone(columns int) float64 { return float64(s.Target(columns)+s.Max(columns)) / 2 }

// Bounds returns sizes in bytes for a bin with that many columns: cut is the size at which it is cut, alone the size
// up to which the rest of its day stays in one document, both without fixed, the bytes that do not grow with values.
func (s Sizer) Bounds(columns int) (cut, alone, fixed float64) {
	fixed = s.overhead(columns)
	return full*float64(s.Target(columns)) - fixed, full*s.alone(columns) - fixed, fixed
}

// FitsOne reports whether that many values and columns are expected to fit one document.
func (s Sizer) FitsOne(values, columns int) bool {
	return s.Estimate(values, columns) <= full*s.alone(columns)
}

// target is the size of documents for devices with at most this many bytes of overhead in a document.
type target struct {
	overhead float64
	bytes    int
}

// targets ascend, each as far below a row of the table of sizes as TargetBytes is. RU per value are the write's RU
// over the bytes that overhead leaves: lowest at 32 KB for a device of few metrics, and the larger the document the
// wider the device. The target is the smallest that comes within a tenth of the lowest, since larger documents wait
// longer, take more memory, and make short reads dearer.
var targets = func() (all []target) {
	const near = 1.1
	perValue := func(bytes int, overhead float64) float64 {
		return ru.Stepped.Write(bytes, ru.NoIndex) / (float64(bytes) - overhead)
	}
	at := TargetBytes
	for overhead := 0.0; at < maxTarget && overhead < maxTarget; overhead += 256 {
		lowest := math.Inf(1)
		for bytes := TargetBytes; bytes <= maxTarget; bytes *= 2 {
			if float64(bytes) > overhead {
				lowest = min(lowest, perValue(bytes, overhead))
			}
		}
		next := at
		for next < maxTarget && (float64(next) <= overhead || perValue(next, overhead) > near*lowest) {
			next *= 2
		}
		if next > at {
			all = append(all, target{overhead - 256, at})
			at = next
		}
	}
	return append(all, target{math.Inf(1), at})
}()

// FirstHold returns how long the first bin of a device waits after a start: a part of the hold that the device's hash
// decides, so that a fleet that begins together does not come due together.
func FirstHold(device string, hold time.Duration) time.Duration {
	hi, _ := epk.Sum(epk.String(device))
	const parts = 1 << 20
	return time.Duration(float64(hold) * (float64(hi%parts) + 1) / parts)
}
