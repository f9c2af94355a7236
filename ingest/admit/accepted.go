package admit

import (
	"math"

	"binnacle/internal/control"
	"binnacle/internal/telemetry"
)

// accepted is readings that have the same verdict, that they are taken, for the reasons that the last one had: those of
// a tenant and day by one snapshot, whatever their device. Most are such, so that a look at their times replaces all
// else that a verdict needs. What it does not have may be taken as well.
type accepted struct {
	snapshot *control.Snapshot
	tenant   string
	from, to int64 // event times, half-open
	future   int64 // ms that an event time may lie after its record's Kafka timestamp
	past     int64 // ms that it may lie before that and before now
}

// has reports whether a reading is accepted, but for the size of its record.
func (a *accepted) has(f *feed, r *telemetry.Reading) bool {
	at := r.Time
	return f.Snapshot == a.snapshot && at >= a.from && at < a.to && at-f.Time <= a.future && f.Time-at <= a.past &&
		f.Now.UnixMilli()-at <= a.past && r.Tenant == a.tenant
}

// accept has the readings of a tenant and a day that has a container in the snapshot be the accepted ones, unless
// devices have retentions of their own.
func (p *places) accept(snapshot *control.Snapshot, t control.Tenant, day telemetry.Day) {
	if t.HidesSome() {
		return
	}
	a := accepted{
		snapshot: snapshot, tenant: t.Name,
		from: day.Start(), to: min(day.End(), telemetry.MaxMillis, snapshot.PlacesBelow()),
		future: math.MaxInt64, past: math.MaxInt64,
	}
	if future, bounded := p.future(t.Ingest); bounded {
		a.future = future.Milliseconds()
	}
	if t.Retention > 0 {
		a.past = t.Retention.Milliseconds()
	}
	if past, bounded := p.past(t.Ingest, t.Retention); bounded {
		a.past = min(a.past, past.Milliseconds())
	}
	p.accepted = a
}
