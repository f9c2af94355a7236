package decode

import (
	"slices"

	"binnacle/internal/telemetry"
)

// Names say where a format that has no place of its own for a tenant, a device or a time has them: what they are called there.
// Of several names the first that is there counts. A nil list takes the default.
type Names struct {
	Tenant []string
	Device []string
	Time   []string // of objects only
	Labels []string // what else tells series apart; of objects and resources only
}

// or takes the defaults for the lists that are nil.
func (n Names) or(defaults Names) Names {
	def := func(list *[]string, value []string) {
		if *list == nil {
			*list = value
		}
	}
	def(&n.Tenant, defaults.Tenant)
	def(&n.Device, defaults.Device)
	def(&n.Time, defaults.Time)
	def(&n.Labels, defaults.Labels)
	return n
}

// The defaults, by what users of these systems expect. host.name and the like name the machine; service.name is what is left
// when a program says nothing else of itself. Attributes of data points and labels called device are no devices: they name disks
// and network interfaces.
var (
	resourceNames = Names{
		Tenant: []string{"tenant", "tenant.id"},
		Device: []string{"device", "device.id", "service.instance.id", "host.name", "host.id", "service.name"},
		Labels: []string{"service.namespace", "service.name", "service.instance.id"},
	}
	seriesNames = Names{
		Tenant: []string{"tenant"},
		Device: []string{"instance", "host"},
	}
	objectNames = Names{
		Tenant: []string{"tenant", "tenantId", "tenant_id"},
		Device: []string{"device", "deviceId", "device_id"},
		Time:   []string{"ts", "time", "timestamp"},
	}
)

// pick is the pair whose name stands first in names, -1 if there is none.
func pick(pairs []telemetry.Label, names []string) int {
	for _, n := range names {
		if i := slices.IndexFunc(pairs, func(p telemetry.Label) bool { return p.Name == n }); i >= 0 && pairs[i].Value != "" {
			return i
		}
	}
	return -1
}

// origin is what the options and the record's envelope say of readings that don't say it themselves.
type origin struct {
	tenant, device string
	enveloped      bool  // some of it comes from the record, not from the options
	bound          bool  // the device was authenticated: no other may be named
	now            int64 // the event time of a reading without one
	timed          bool  // now may stand in for the ts of a message, too
}

// place gives a reading without tenant or device the ones of its origin.
func (d *Decoder) place(r *telemetry.Reading, what string) *fault {
	if r.Tenant == "" {
		r.Tenant = d.origin.tenant
	}
	if d.origin.bound && r.Device != "" && r.Device != d.origin.device {
		return faultf(Device, "%s names the device %q, but %q has sent it", what, r.Device, d.origin.device)
	}
	if r.Device == "" {
		r.Device = d.origin.device
	}
	switch {
	case r.Tenant == "":
		return faultf(Tenant, "%s has no tenant", what)
	case r.Device == "":
		return faultf(Device, "%s has no device", what)
	}
	return nil
}
