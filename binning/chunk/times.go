package chunk

import (
	"encoding/binary"
	"slices"

	"binnacle/internal/telemetry"
)

// The instants of a group are counted in units, the gcd of their distances, and predicted by a clock that ticks with a
// period, the median distance, and follows the readings: per instant the ticks since the last one, less 1, and the
// deviation from the tick. After each the clock moves by 1/2^follow of the deviation: by 1/8 for a device that keeps a
// grid and jitters around it, wholly for one that waits a period between readings.
const (
	tick         = 256 // the clock counts in fractions of a unit
	followWholly = 0
	followSlowly = 3
	maxFollow    = 8
	// medianOf is the number of distances that the period is the median of.
	medianOf = 127
)

// clock is the position in fractions of a unit, counted from the first instant.
type clock struct {
	at, period int64 // period in units
	follow     uint
}

// predict returns the clock's word for an instant: ticks to it, and how far it is from the last of them.
func (c *clock) predict(u int64) (ticks, deviation int64) {
	span := c.period * tick
	ticks = telemetry.FloorDiv(u*tick-c.at+span/2, span)
	deviation = u - c.tickAt(ticks)
	c.move(ticks, u)
	return ticks, deviation
}

func (c *clock) instant(ticks, deviation int64) (u int64) {
	u = c.tickAt(ticks) + deviation
	c.move(ticks, u)
	return u
}

func (c *clock) tickAt(ticks int64) int64 { return (c.at + ticks*c.period*tick + tick/2) >> 8 }

func (c *clock) move(ticks, u int64) {
	at := c.at + ticks*c.period*tick
	c.at = at + (u*tick-at)>>c.follow
}

// writeTimes appends the instants of a group of that day: how many, the first, and unless it is alone unit, period,
// follow, and the streams of ticks and deviations.
func (e *encoder) writeTimes(times []int64, day telemetry.Day) {
	e.s.plain = binary.AppendUvarint(e.s.plain, uint64(len(times)))
	e.s.plain = binary.AppendUvarint(e.s.plain, uint64(times[0]-day.Start()))
	if len(times) == 1 {
		return
	}
	unit := int64(0)
	for i := 1; i < len(times) && unit != 1; i++ {
		for a, b := unit, times[i]-times[i-1]; ; a, b = b, a%b {
			if b == 0 {
				unit = a
				break
			}
		}
	}
	period := e.medianDistance(times) / unit
	best := &e.predictions[0]
	best.predict(times, unit, clock{period: period, follow: followWholly})
	if best.bits() > 0 {
		if other := &e.predictions[1]; other.predict(times, unit, clock{period: period, follow: followSlowly}) < best.bits() {
			best = other
		}
	}
	e.s.plain = binary.AppendUvarint(e.s.plain, uint64(unit))
	e.s.plain = binary.AppendUvarint(e.s.plain, uint64(period))
	e.s.plain = append(e.s.plain, byte(best.follow))
	e.writeInts(best.ticks, best.ticksPlan)
	e.writeInts(best.deviations, best.deviationsPlan)
}

// predictions is the instants of a group as a clock predicts them, with the deviations.
type predictions struct {
	follow                    uint
	ticks, deviations         []int64
	ticksPlan, deviationsPlan intPlan
}

func (t *predictions) bits() float64 { return t.ticksPlan.bits + t.deviationsPlan.bits }

func (t *predictions) predict(times []int64, unit int64, c clock) (bits float64) {
	t.follow, t.ticks, t.deviations = c.follow, t.ticks[:0], t.deviations[:0]
	for _, at := range times[1:] {
		ticks, deviation := c.predict((at - times[0]) / unit)
		t.ticks = append(t.ticks, ticks-1)
		t.deviations = append(t.deviations, deviation)
	}
	t.ticksPlan, t.deviationsPlan = planInts(t.ticks, false), planInts(t.deviations, false)
	return t.bits()
}

// medianDistance returns the median of at most medianOf distances spread over times.
func (e *encoder) medianDistance(times []int64) int64 {
	n := len(times) - 1
	some := min(n, medianOf)
	e.distances = e.distances[:0]
	for i := range some {
		at := i * n / some
		e.distances = append(e.distances, times[at+1]-times[at])
	}
	slices.Sort(e.distances)
	return e.distances[some/2]
}

// readTimes inverts writeTimes, for a group of at most limit rows. The instants are the caller's to keep.
func (d *decoder) readTimes(limit int, day telemetry.Day) ([]int64, error) {
	n, err := d.length(limit)
	if err != nil {
		return nil, err
	}
	first, err := d.length(telemetry.DayMillis - 1)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, corrupt("a group without rows")
	}
	times := make([]int64, n)
	times[0] = day.Start() + int64(first)
	if n == 1 {
		return times, nil
	}
	return times, d.readClock(times, day.End())
}

// readClock fills in the instants after the first, which must ascend and stay before end.
func (d *decoder) readClock(times []int64, end int64) error {
	unit, err1 := d.length(telemetry.DayMillis)
	period, err2 := d.length(telemetry.DayMillis)
	follow, err3 := d.byte()
	if err1 != nil || err2 != nil || err3 != nil || follow > maxFollow {
		return corrupt("the clock of a group")
	}
	ticks, err := d.streamHead(len(times) - 1)
	if err != nil {
		return err
	}
	if ticks.constant() {
		deviations, err := d.streamHead(len(times) - 1)
		if err != nil {
			return err
		}
		if deviations.constant() && deviations.first[0] == 0 {
			return regular(times, regularStep(ticks.first[0], int64(period), int64(unit)), end)
		}
		d.ticks = fill(d.ticks, len(times)-1, ticks.first[0])
		d.ints, err = d.readStream(d.ints, len(times)-1, deviations)
		if err != nil {
			return err
		}
	} else {
		if d.ticks, err = d.readStream(d.ticks, len(times)-1, ticks); err != nil {
			return err
		}
		if d.ints, err = d.readInts(d.ints, len(times)-1); err != nil {
			return err
		}
	}
	c := clock{period: int64(period), follow: uint(follow)}
	for i, k := range d.ticks {
		u := c.instant(k+1, d.ints[i])
		t := times[0] + u*int64(unit)
		if t <= times[i] || t >= end {
			return corrupt("time %d after %d", t, times[i])
		}
		times[i+1] = t
	}
	return nil
}

// regularStep returns the distance of instants in ms, for ticks between them and a clock's period in units of ms, or 0
// where no day has room for it.
func regularStep(ticks, period, unit int64) int64 {
	if ticks >= 0 && ticks < telemetry.DayMillis && period > 0 && (ticks+1)*period <= telemetry.DayMillis {
		return (ticks + 1) * period * unit
	}
	return 0
}

// regular fills in the instants of a clock that is never off its ticks, step ms apart.
func regular(times []int64, step, end int64) error {
	if n := int64(len(times) - 1); step <= 0 || step > telemetry.DayMillis || times[0]+n*step >= end {
		return corrupt("%d instants %d ms apart", len(times), step)
	}
	for i := 1; i < len(times); i++ {
		times[i] = times[i-1] + step
	}
	return nil
}
