package admit

import (
	"fmt"

	"binnacle/internal/telemetry"
)

// newDevices counts the devices of a tenant that report for the first time.
type newDevices struct {
	meter meter
	// offset is the offset of the record that is decided on, and devices has the devices that it introduces.
	offset  int64
	devices map[string]bool
}

func (n *newDevices) introduces(offset int64, id string) bool {
	return n.offset == offset && n.devices[id]
}

// count returns how many devices the record at an offset has introduced.
func (n *newDevices) count(offset int64) int {
	if n.offset != offset {
		return 0
	}
	return len(n.devices)
}

func (n *newDevices) add(offset int64, id string) {
	if n.offset != offset || n.devices == nil {
		n.offset, n.devices = offset, map[string]bool{}
	}
	n.devices[id] = true
}

func (x *limits) bounds() bool { return x.devices > 0 || x.newDevices.bound() }

// introduce counts the device of a reading that is taken, if nothing was known of it.
func (l *Limits) introduce(t *tenantState, f *feed, r *telemetry.Reading) {
	if !t.limits.bounds() || t.fresh.introduces(f.Offset, r.Device) {
		return
	}
	seen := l.cfg.Devices.Seen(r.Tenant, r.Device, telemetry.DayOf(r.Time))
	if !seen.Known {
		t.fresh.add(f.Offset, r.Device)
	}
	if at := published(f); !seen.Chains && t.limits.newDevices.bound() && at >= knownFrom(f) {
		t.fresh.meter.charge(&t.limits.newDevices, at, 0)
	}
}

// overDevices returns the limit of a number of devices that a reading passes, empty for none, and how.
func (l *Limits) overDevices(t *tenantState, f *feed, r *telemetry.Reading) (limitName, string) {
	if !t.limits.bounds() || t.fresh.introduces(f.Offset, r.Device) {
		return "", ""
	}
	seen := l.cfg.Devices.Seen(r.Tenant, r.Device, telemetry.DayOf(r.Time))
	if d := t.device(r.Device); seen.Known || d != nil && d.deferral != nil {
		return "", ""
	}
	if n := seen.Devices + t.fresh.count(f.Offset); t.limits.devices > 0 && n >= t.limits.devices {
		return limitDevices, fmt.Sprintf("this partition has %d devices already", n)
	}
	at := published(f)
	if !t.limits.newDevices.bound() || at < knownFrom(f) {
		return "", ""
	}
	m := &t.fresh.meter
	if m.see(at); m.open(&t.limits.newDevices, m.clock) {
		return "", ""
	}
	return limitNewDevices, "too many devices reported for the first time"
}

// overNumber returns the limit of a number or a size that a reading passes, empty for none, and how.
func (l *Limits) overNumber(t *tenantState, f *feed, r *telemetry.Reading) (limitName, string) {
	switch x := t.limits; {
	case x.payload > 0 && len(f.Value) > x.payload:
		return limitPayload, fmt.Sprintf("the record has %d bytes, more than %d", len(f.Value), x.payload)
	case x.labels > 0 && len(r.Labels) > x.labels:
		return limitLabels, fmt.Sprintf("the reading has %d labels, more than %d", len(r.Labels), x.labels)
	}
	if limit, detail := l.overDevices(t, f, r); limit != "" {
		return limit, detail
	}
	if t.limits.labelValues > 0 && len(r.Labels) > 0 {
		if detail := t.values.exceeded(t.limits, r.Labels, f.Now); detail != "" {
			return limitValues, detail
		}
	}
	if t.limits.counts() {
		return l.tenants.overSeries(t, r)
	}
	return "", ""
}

// overSeries returns the limit of a number of series that a reading passes, empty for none, and how.
func (x *tenants) overSeries(t *tenantState, r *telemetry.Reading) (limitName, string) {
	n, more := x.countSeries(t, t.device(r.Device), r)
	if more == 0 {
		return "", ""
	}
	if most := t.limits.series; most > 0 && n+more > most {
		return limitSeries,
			fmt.Sprintf("the device has %d series in that day already, and more than %d are not allowed", n, most)
	}
	s := &t.series
	if all, most := s.days[telemetry.DayOf(r.Time)], t.limits.allSeries; most > 0 && all+more > most {
		detail := fmt.Sprintf("the tenant has %d series in that day already in this partition, and more than %d are not "+
			"allowed", all, most)
		if s.most != nil {
			detail += fmt.Sprintf(", %d of them of device %s", s.mostSeries, s.most.id)
		}
		return limitAllSeries, detail
	}
	return "", ""
}
