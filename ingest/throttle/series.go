package throttle

import (
	"hash/maphash"
	"slices"

	"binnacle/internal/telemetry"
)

// Device is what a device carries for its limits: nothing, as long as it needs none.
type Device struct{ limited *rated }

// rated is what is known of a device for the limits of its tenant.
type rated struct {
	latest   outline // of the reading that was taken or checked last: most are as the one before
	ofDay    telemetry.Day
	deferral *deferral // nil: it is not deferred by itself
	meter    meter
	days     []series // that are counted, of those that the device has chains of
	bytes    int64
}

// series is those of a device in a day. Most devices have readings of one outline, or of a few that share no metric: as
// long as those are all, only how many there are is kept of them.
type series struct {
	day      telemetry.Day
	n        int
	outlines []outline           // of readings that were taken; when there are more, of the last ones
	next     int                 // that gives way to another one
	all      map[uint64]struct{} // nil: those of outlines
}

// outline is what two readings share that have the same series. The zero outline is that of none.
type outline struct {
	metrics *metricSet
	labels  uint64
}

// mostOutlines is how many outlines are known again when they come.
const mostOutlines = 4

// What a device, a day, an outline and a series take among the rated.
const (
	ratedBytes   = 176
	dayBytes     = 72
	outlineBytes = 16
	seriesBytes  = 16
)

// ratedOf returns what is known of a device for its limits, made when it is not there. The caller holds the lock.
func (th *Throttle) ratedOf(d *Device) *rated {
	if d.limited == nil {
		d.limited = &rated{bytes: ratedBytes}
		th.bytes += d.limited.bytes
	}
	return d.limited
}

// rated returns what is known of a device for its limits, nil for nothing; the device may be nil too.
func (d *Device) rated() *rated {
	if d == nil {
		return nil
	}
	return d.limited
}

// Deferred reports whether the device is deferred by itself.
func (d *Device) Deferred() bool { return d.deferral() != nil }

// deferral returns what waits of a device by itself, nil for nothing.
func (d *Device) deferral() *deferral {
	if x := d.rated(); x != nil {
		return x.deferral
	}
	return nil
}

// of returns the series of a day, nil if none are counted.
func (x *rated) of(day telemetry.Day) *series {
	if x == nil {
		return nil
	}
	for i := range x.days {
		if x.days[i].day == day {
			return &x.days[i]
		}
	}
	return nil
}

// countSeries returns how many more series a reading has than its device on that day, as far as they are counted, and
// if there are some, how many the device has. The caller holds the lock.
func (th *Throttle) countSeries(t *Tenant, x *rated, r *telemetry.Reading) (have, more int) {
	labels, day := labelsNumber(r.Labels), telemetry.DayOf(r.Time)
	t.checked = outline{}
	if x != nil && x.ofDay == day && x.latest.labels == labels && x.latest.metrics.of(r.Fields) {
		return 0, 0 // however many: there is no more
	}
	s := x.of(day)
	if s == nil {
		t.checked = outline{t.metricsOf(r.Fields), labels}
		return 0, len(r.Fields)
	}
	for i := range s.outlines {
		if one := &s.outlines[i]; one.labels == labels && one.metrics.of(r.Fields) {
			x.latest, x.ofDay = *one, day
			return 0, 0
		}
	}
	t.checked = outline{t.metricsOf(r.Fields), labels}
	if s.all == nil {
		s.all = make(map[uint64]struct{}, s.n)
		for _, one := range s.outlines {
			one.each(func(n uint64) { s.all[n] = struct{}{} })
		}
		th.grow(x, len(s.all)*seriesBytes)
	}
	t.checked.each(func(n uint64) {
		if _, ok := s.all[n]; !ok {
			more++
		}
	})
	return s.n, more
}

// addSeries counts the series of the reading that countSeries has just looked at, and forgets the series of days for
// which the device has no chain any more.
func (th *Throttle) addSeries(t *Tenant, d *Device, r *telemetry.Reading) {
	x := d.limited
	if t.checked.metrics == nil {
		return
	}
	day := telemetry.DayOf(r.Time)
	s := x.of(day)
	if s == nil {
		x.days = slices.DeleteFunc(x.days, func(old series) bool {
			known, _ := th.cfg.Registry.Chain(t.Name, r.Device, old.day)
			if !known {
				t.uncountSeries(d, &old)
				th.grow(x, -old.bytes())
				if x.ofDay == old.day {
					x.latest = outline{}
				}
			}
			return !known
		})
		x.days = append(x.days, series{day: day})
		s = &x.days[len(x.days)-1]
		th.grow(x, dayBytes)
	}
	x.latest, x.ofDay = t.checked, day
	before := s.n
	if s.all == nil { // the first outline
		s.n = len(r.Fields)
	} else {
		t.checked.each(func(n uint64) { s.all[n] = struct{}{} })
		th.grow(x, (len(s.all)-s.n)*seriesBytes)
		s.n = len(s.all)
	}
	if len(s.outlines) < mostOutlines {
		s.outlines = append(s.outlines, t.checked)
		th.grow(x, outlineBytes)
	} else {
		s.outlines[s.next] = t.checked
		s.next = (s.next + 1) % mostOutlines
	}
	if t.series == nil {
		t.series = map[telemetry.Day]int{}
	}
	t.series[day] += s.n - before
	if most := t.most; most == nil || most == d || s.n > t.mostSeries {
		t.most, t.mostID, t.mostSeries = d, r.Device, s.n
	}
}

// uncountSeries takes a day's series of a device out of those of its tenant.
func (t *Tenant) uncountSeries(d *Device, s *series) {
	if t.series[s.day] -= s.n; t.series[s.day] <= 0 {
		delete(t.series, s.day)
	}
	if t.most == d {
		t.most, t.mostID, t.mostSeries = nil, "", 0
	}
}

// bytes returns what a day takes among the rated.
func (s *series) bytes() int { return dayBytes + len(s.outlines)*outlineBytes + len(s.all)*seriesBytes }

// grow counts some more memory, or less, of a device.
func (th *Throttle) grow(x *rated, bytes int) {
	x.bytes += int64(bytes)
	th.bytes += int64(bytes)
}

// metricSet is the metrics of readings, in their order.
type metricSet []string

// recentSets is how many sets of metrics of a tenant are known again when they come: devices share them.
const recentSets = 8

// metricsOf returns the metrics of a reading. Those of the sets that came last are compared, not hashed: a decoder
// gives out the same strings again.
func (t *Tenant) metricsOf(fields []telemetry.Field) *metricSet {
	for _, set := range t.sets {
		if set != nil && set.of(fields) {
			return set
		}
	}
	set := make(metricSet, len(fields))
	for i := range fields {
		set[i] = fields[i].Metric
	}
	t.sets[t.next] = &set
	t.next = (t.next + 1) % recentSets
	return &set
}

// of reports whether fields are of these metrics.
func (s *metricSet) of(fields []telemetry.Field) bool {
	if s == nil || len(*s) != len(fields) {
		return false
	}
	for i := range fields {
		if (*s)[i] != fields[i].Metric {
			return false
		}
	}
	return true
}

var seriesSeed = maphash.MakeSeed()

// labelsNumber stands for a set of labels, but for chance.
func labelsNumber(labels telemetry.Labels) (n uint64) {
	for i := range labels {
		n = mixed(n, maphash.String(seriesSeed, labels[i].Name))
		n = mixed(n, maphash.String(seriesSeed, labels[i].Value))
	}
	return n
}

// each visits a number for each series of an outline, of metric and labels.
func (s outline) each(visit func(uint64)) {
	for _, metric := range *s.metrics {
		visit(mixed(s.labels, maphash.String(seriesSeed, metric)))
	}
}

// mixed returns a number of two, in their order.
func mixed(a, b uint64) uint64 {
	a = (a ^ b) * 0x9e3779b97f4a7c15
	return a ^ a>>29 + b
}
