package read

import (
	"maps"
	"slices"

	"binnacle/internal/control"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// visibility hides days from the answer that a tenant's retention does not show (rules X1 and X2).
type visibility struct {
	tenant control.Tenant
	now    int64 // ms since 1970 UTC, the same for the whole query
}

// hides reports whether a day of a device must not be answered.
func (v *visibility) hides(device string, day telemetry.Day) bool {
	return v.tenant.Hides(device, day, v.now)
}

// hidesIn reports whether a day of a range is hidden, of a device that is asked for.
func (q *Query) hidesIn(r telemetry.Range) bool {
	first := telemetry.DayOf(r.From)
	if q.req.Devices == nil {
		return q.visible.tenant.HidesAny(first, q.visible.now)
	}
	return slices.ContainsFunc(q.req.Devices, func(device string) bool { return q.visible.hides(device, first) })
}

// begin takes what the snapshot in use knows of the tenant: heads answer before the query's own snapshot is known.
func (v *visibility) begin(r *Reader, tenant string) {
	v.now = r.cfg.Now().UnixMilli()
	v.tenant, _ = r.cfg.Directory.Snapshot().Tenant(tenant)
}

// follow takes what the query's own snapshot knows of the tenant, and leaves out of t what is hidden.
func (v *visibility) follow(tenant control.Tenant, t tails) {
	if v.tenant = tenant; !tenant.HidesSome() {
		return
	}
	for day, chains := range t {
		maps.DeleteFunc(chains, func(of chainOf, _ store.Tail) bool { return v.hides(of.device, day) })
	}
}

// hideRollups has rollups of a day show nothing of the devices that are hidden there.
func (j *rollupJob) hideRollups(l *Rollups) {
	if !j.visible.tenant.HidesSome() {
		return
	}
	for i := range l.Parts {
		for _, s := range l.Parts[i].Series {
			if !l.Raw[s.Device] && j.visible.hides(s.Device, l.Day) {
				l.Raw[s.Device] = true
			}
		}
	}
}
