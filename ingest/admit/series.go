package admit

import (
	"hash/maphash"
	"slices"
	"strings"

	"binnacle/internal/control"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
)

// deviceSeries is the series of a device, by day, as far as they are counted.
type deviceSeries struct {
	// latest is the outline of the last reading taken or checked: most readings have the same as the one before.
	latest outline
	ofDay  telemetry.Day
	days   []series // one for each day of which the device has chains
}

// tenantSeries is the series of a tenant's devices together.
type tenantSeries struct {
	// sets has the sets of metrics that readings had last, and next is the place of the set to replace next.
	sets    [recentSets]*metricSet
	next    int
	checked outline // the reading that is being checked, if it has new series
	days    map[telemetry.Day]int
	// most is the device that has most series in some day, as far as that is known: mostSeries.
	most       *device
	mostSeries int
}

// series is the series of a device in a day. Most devices have readings of one outline, or of a few that share no
// metric: until others come, only the number of series is kept.
type series struct {
	day telemetry.Day
	n   int
	// outlines has the outlines of the last readings taken, and next is the place of the one to replace next.
	outlines []outline
	next     int
	all      map[uint64]struct{} // nil: outlines has all series
}

// outline is what two readings share that have the same series. The zero outline is that of none.
type outline struct {
	metrics *metricSet
	labels  uint64
}

// mostOutlines is how many outlines are known again when they come.
const mostOutlines = 4

// What a day, an outline and a series take in memory.
const (
	dayBytes     = 72
	outlineBytes = 16
	seriesBytes  = 16
)

// of returns the series of a day, nil if none are counted.
func (x *deviceSeries) of(day telemetry.Day) *series {
	for i := range x.days {
		if x.days[i].day == day {
			return &x.days[i]
		}
	}
	return nil
}

// countSeries returns how many more series a reading has than its device on that day, as far as they are counted, and
// if there are some, how many the device has. d may be nil.
func (x *tenants) countSeries(t *tenantState, d *device, r *telemetry.Reading) (have, more int) {
	labels, day := labelsNumber(r.Labels), telemetry.DayOf(r.Time)
	t.series.checked = outline{}
	if d == nil {
		t.series.checked = outline{t.series.metricsOf(r.Fields), labels}
		return 0, len(r.Fields)
	}
	own := &d.series
	if own.ofDay == day && own.latest.labels == labels && own.latest.metrics.of(r.Fields) {
		return 0, 0 // however many: there is no more
	}
	s := own.of(day)
	if s == nil {
		t.series.checked = outline{t.series.metricsOf(r.Fields), labels}
		return 0, len(r.Fields)
	}
	for i := range s.outlines {
		if one := &s.outlines[i]; one.labels == labels && one.metrics.of(r.Fields) {
			own.latest, own.ofDay = *one, day
			return 0, 0
		}
	}
	t.series.checked = outline{t.series.metricsOf(r.Fields), labels}
	if s.all == nil {
		s.all = make(map[uint64]struct{}, s.n)
		for _, one := range s.outlines {
			one.each(func(n uint64) { s.all[n] = struct{}{} })
		}
		x.grow(d, len(s.all)*seriesBytes)
	}
	t.series.checked.each(func(n uint64) {
		if _, ok := s.all[n]; !ok {
			more++
		}
	})
	return s.n, more
}

// addSeries counts the series of the reading that countSeries has just looked at, and forgets the series of days for
// which the device has no chain any more.
func (l *Limits) addSeries(t *tenantState, d *device, r *telemetry.Reading) {
	x, checked := &d.series, t.series.checked
	if checked.metrics == nil {
		return
	}
	day := telemetry.DayOf(r.Time)
	s := x.of(day)
	if s == nil {
		x.days = slices.DeleteFunc(x.days, func(old series) bool {
			known := l.cfg.Devices.Seen(t.name, d.id, old.day).Chain
			if !known {
				t.series.remove(d, &old)
				l.tenants.grow(d, -old.taken())
				if x.ofDay == old.day {
					x.latest = outline{}
				}
			}
			return !known
		})
		x.days = append(x.days, series{day: day})
		s = &x.days[len(x.days)-1]
		l.tenants.grow(d, dayBytes)
	}
	x.latest, x.ofDay = checked, day
	before := s.n
	if s.all == nil { // the first outline
		s.n = len(r.Fields)
	} else {
		checked.each(func(n uint64) { s.all[n] = struct{}{} })
		l.tenants.grow(d, (len(s.all)-s.n)*seriesBytes)
		s.n = len(s.all)
	}
	if len(s.outlines) < mostOutlines {
		s.outlines = append(s.outlines, checked)
		l.tenants.grow(d, outlineBytes)
	} else {
		s.outlines[s.next] = checked
		s.next = (s.next + 1) % mostOutlines
	}
	t.series.add(d, s, s.n-before)
}

func (x *tenantSeries) add(d *device, s *series, more int) {
	if x.days == nil {
		x.days = map[telemetry.Day]int{}
	}
	x.days[s.day] += more
	if x.most == nil || x.most == d || s.n > x.mostSeries {
		x.most, x.mostSeries = d, s.n
	}
}

func (x *tenantSeries) remove(d *device, s *series) {
	if x.days[s.day] -= s.n; x.days[s.day] <= 0 {
		delete(x.days, s.day)
	}
	if x.most == d {
		x.most, x.mostSeries = nil, 0
	}
}

func (s *series) taken() int { return dayBytes + len(s.outlines)*outlineBytes + len(s.all)*seriesBytes }

// metricSet is the metrics of readings, in their order.
type metricSet []string

// recentSets is how many sets of metrics of a tenant are known again when they come: devices share them.
const recentSets = 8

// metricsOf returns the metrics of a reading. Those of the sets that came last are compared, not hashed: a decoder
// gives out the same strings again.
func (x *tenantSeries) metricsOf(fields []telemetry.Field) *metricSet {
	for _, set := range x.sets {
		if set != nil && set.of(fields) {
			return set
		}
	}
	set := make(metricSet, len(fields))
	for i := range fields {
		set[i] = fields[i].Metric
	}
	x.sets[x.next] = &set
	x.next = (x.next + 1) % recentSets
	return &set
}

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

// tenants has what Limits knows of tenants, by their names.
type tenants struct {
	all    map[string]*tenantState
	recent *tenantState // the last reading's
	bytes  int64        // memory of devices and labels
}

// tenant is what Limits knows of a tenant.
type tenantState struct {
	name string
	// kept says that the tenant has devices; else it goes with its deferrals.
	kept    bool
	devices map[string]*device // for which something is known
	last    *device            // the device that was looked for last

	snapshot   *control.Snapshot // the one that the limits are from
	configured tenant.IngestLimits
	limits     *limits // nil: none
	meter      meter

	deferral        *deferral // nil: it does not wait as a whole
	deferredDevices int       // devices that wait by themselves
	excesses        map[limitName]*excess

	came, round int // values, and in which round of fairness
	fresh       newDevices
	series      tenantSeries
	values      *labelValues // nil: they are not counted
}

// device is a device's state for the limits of its tenant.
type device struct {
	id       string
	deferral *deferral // nil: the device is not deferred, at most its tenant is
	meter    meter
	series   deviceSeries
	bytes    int64
}

// deviceBytes is the memory of a device without its name and its series.
const deviceBytes = 256

// get returns a tenant's state, nil if it is not there.
func (x *tenants) get(name string) *tenantState {
	if t := x.recent; t != nil && t.name == name {
		return t
	}
	t := x.all[name]
	if t != nil {
		x.recent = t
	}
	return t
}

// add returns a tenant's state, made when it is not there.
func (x *tenants) add(name string) *tenantState {
	t := x.get(name)
	if t == nil {
		t = &tenantState{name: strings.Clone(name)}
		x.all[t.name], x.recent = t, t
	}
	return t
}

func (x *tenants) keep(name string) *tenantState {
	t := x.recent
	if t == nil || t.name != name {
		t = x.add(name)
	}
	t.kept = true
	return t
}

// device returns a device's state for its limits, nil for an unknown device.
func (t *tenantState) device(id string) *device {
	if d := t.last; d != nil && d.id == id {
		return d
	}
	d := t.devices[id]
	if d != nil {
		t.last = d
	}
	return d
}

// addDevice returns a device's state, made when it is not there.
func (x *tenants) addDevice(t *tenantState, id string) *device {
	d := t.device(id)
	if d == nil {
		if t.devices == nil {
			t.devices = map[string]*device{}
		}
		d = &device{id: strings.Clone(id)}
		t.devices[d.id], t.last = d, d
		x.grow(d, deviceBytes+len(id))
	}
	return d
}

// grow counts some more memory, or less, of a device.
func (x *tenants) grow(d *device, bytes int) {
	d.bytes += int64(bytes)
	x.bytes += int64(bytes)
}

// forgetDevice forgets a device, unless it has a deferral.
func (x *tenants) forgetDevice(t *tenantState, d *device) {
	if d == nil || d.deferral != nil {
		return
	}
	for i := range d.series.days {
		t.series.remove(d, &d.series.days[i])
	}
	x.bytes -= d.bytes
	delete(t.devices, d.id)
	t.last = nil
}
