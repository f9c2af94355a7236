package balance_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"binnacle/sharding"
	"binnacle/sharding/epk"

	"github.com/stretchr/testify/assert"
)

// surge is a tenant that grows tenfold within an hour, from 10:00 on: the 24 hours after, minute by minute.
type surge struct {
	w     *world
	rnd   *rand.Rand
	join  bool        // by new devices; else the same report tenfold
	load  [][]float64 // RU by partition and minute
	whole []float64   // RU by minute
}

const (
	surgeMinute  = 10 * 60 // of the day
	surgeMinutes = 24 * 60
	fullChunk    = 32 << 10
	fullRUs      = 13.1
	leastRUs     = 7.0 // of a chunk, however small it is
	surgeTimes   = 10
)

func newSurge(w *world, join bool) *surge {
	s := &surge{w: w, rnd: w.rnd, join: join, whole: make([]float64, surgeMinutes)}
	for range w.ranges {
		s.load = append(s.load, make([]float64, surgeMinutes))
	}
	for i, t := range w.tenants {
		old := len(t.devices)
		if i == 0 && join {
			for range (surgeTimes - 1) * old {
				t.devices = append(t.devices, w.newDevice(t, len(t.devices)))
			}
		}
		for k := range t.devices {
			s.live(t, &t.devices[k], i == 0, k >= old)
		}
	}
	return s
}

// live writes the chunks of a device: what is full when it is full, the rest of a day within twelve hours after it.
func (s *surge) live(t *tenant, d *device, grows, isNew bool) {
	when, phase := surgeMinute+60*s.rnd.Float64(), s.rnd.Float64()
	for day := -1.0; day <= 1; day++ {
		at, end := day*1440, day*1440+1440
		if isNew && day <= 0 {
			at = max(at, min(when, end))
		}
		for number := 0; at < end; number++ {
			left := fullChunk * (1 + 0.02*s.rnd.NormFloat64())
			bytes := 0.0
			for bytes < left && at < end {
				pace, until := d.bytes/1440, end
				switch {
				case !grows || s.join:
				case at >= when:
					pace *= surgeTimes
				default:
					until = min(until, when)
				}
				until = min(until, at+(left-bytes)/pace)
				bytes, at = bytes+pace*(until-at), until
				if until < end && until != when {
					break
				}
			}
			cut := at
			if at >= end {
				cut = end + phase*720
			}
			s.write(t, d, number, cut, leastRUs+(fullRUs-leastRUs)*min(1, bytes/fullChunk))
		}
	}
}

func (s *surge) write(t *tenant, d *device, number int, at, rus float64) {
	minute := int(at) - surgeMinute
	if minute < 0 || minute >= surgeMinutes {
		return
	}
	e := t.placement.EpochOn(s.w.day)
	slots := e.Heavy[d.name]
	if len(slots) < 2 {
		slots = e.Slots[sharding.GroupOf(d.name, len(e.Slots)):][:1]
	}
	for _, p := range s.w.at(t, t.placement.Shard(slots[number%len(slots)])) {
		s.load[p.at][minute] += p.of * rus
	}
	s.whole[minute] += rus
}

// wait returns the longest that a write waits, in minutes, if writes are paced and so much is bought that the busiest
// hour of the new load would take four fifths of it, were it even.
func (s *surge) wait() (longest float64) {
	peak := 0.0
	for hour := range slices.Chunk(s.whole, 60) {
		sum := 0.0
		for _, rus := range hour {
			sum += rus
		}
		peak = max(peak, sum/60)
	}
	budget := peak / float64(len(s.load)) / 0.8
	for _, load := range s.load {
		queue := 0.0
		for _, rus := range load {
			queue = max(0, queue+rus-budget)
			longest = max(longest, queue/budget)
		}
	}
	return longest
}

// A tenant of a tenth of the load that grows tenfold within an hour finds its keys spread: no write waits longer than a
// quarter of an hour where throughput for the new load is bought, and nothing is moved on that day.
func TestTenfoldGrowthWaitsBriefly(t *testing.T) {
	run, sizes := max(1, *seeds), []int{5, 10, 20}
	for _, n := range sizes {
		for _, splits := range []int{0, 3} {
			for _, join := range []bool{false, true} {
				if *seeds == 0 && (n == 10 || (splits > 0) != join) {
					continue
				}
				var waits []float64
				for seed := range run {
					w := newWorld(uint64(seed), equal(10), 20_000, 0)
					w.ranges = epk.Split(n)
					w.split(splits)
					for range 3 {
						_, known := w.live()
						w.decide(known)
					}
					waits = append(waits, newSurge(w, join).wait())
				}
				at := fmt.Sprintf("%d+%d partitions, new devices %t, seeds 0 to %d", n, splits, join, run-1)
				t.Logf("%s: %.1f %.1f %.1f minutes", at, quantile(waits, 0.5), quantile(waits, 0.95), quantile(waits, 1))
				assert.LessOrEqual(t, quantile(waits, 1), 15.0, at)
			}
		}
	}
}
