package admit

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/control"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
)

// UnknownTenant asks for a tenant to be registered, or for a newer snapshot; then the record is fed again.
type UnknownTenant struct{ Tenant string }

// Error names the tenant.
func (e *UnknownTenant) Error() string { return fmt.Sprintf("tenant %q is not in the map", e.Tenant) }

// StaleSnapshot asks for a newer snapshot: this one can't place so late a reading (rule W1). The record is fed again.
type StaleSnapshot struct{ Time int64 }

// Error names the time.
func (e *StaleSnapshot) Error() string {
	return fmt.Sprintf("the map is too old to place %s", telemetry.Instant(e.Time))
}

// UnknownBackfill asks for a newer snapshot: this one does not have the backfill that a record names. The record is fed
// again.
type UnknownBackfill struct{}

// Error says so.
func (*UnknownBackfill) Error() string { return "the record names a backfill that is not in the map" }

// MissingMonth asks for a container: a reading belongs into it, and it was not asked for yet. The record is fed
// again. A tenant's readings ask for a bounded number, unless a backfill grants more: then Tenant is empty.
type MissingMonth struct{ Container, Tenant string }

// Error names the container.
func (e *MissingMonth) Error() string {
	return fmt.Sprintf("container %s is not in the map", e.Container)
}

// places decides by stored facts and the time where readings may be stored: tenant, time, retention and container.
type places struct {
	cfg *Config
	// await defers readings until their tenant is registered; nil where Admit asks the caller to register it.
	await *Limits

	// requestedSnapshot is when the snapshot was read for which Admit asked; until trusted no newer one is asked for.
	requestedSnapshot, trusted time.Time

	// servedDays has days with containers in the snapshot servedIn.
	servedIn   *control.Snapshot
	servedDays map[servedDay]bool

	accepted accepted
}

// freshSnapshot is the age below which a snapshot that can't place a reading is not read again: the next one could not
// place it either.
const freshSnapshot = time.Minute

// snapshotPatience is for how long after the snapshot was read for Feed's sake no newer one is asked for: however many
// unregistered tenants send readings, the store is asked once a second.
const snapshotPatience = time.Second

// snapshotRead records that the snapshot was read because Feed asked for it: what this or a later one does not have,
// there is not.
func (p *places) snapshotRead(snapshot *control.Snapshot, now time.Time) {
	p.requestedSnapshot, p.trusted = snapshot.ReadAt, now.Add(snapshotPatience)
}

// placeable returns an error if the snapshot is not good enough for every reading of a record that would be taken.
func (p *places) placeable(f *feed) error {
	trusted := f.Now.Before(p.trusted) && !f.Snapshot.ReadAt.Before(p.requestedSnapshot)
	named := false
	f.grant, named = p.grant(&f.Record, f.Snapshot)
	if named && f.grant.ID == "" && !trusted {
		return &UnknownBackfill{}
	}
	var tenant tenant.Tenant
	known := false
	for i := range f.readings {
		r := &f.readings[i]
		if p.accepted.has(f, r) {
			continue
		}
		if r.Tenant != tenant.Name {
			tenant, known = f.Snapshot.Tenant(r.Tenant)
			tenant.Name = r.Tenant
		}
		if r.Time < 0 || p.isFuture(&f.Record, r, tenant.Ingest) {
			continue
		}
		if !known && f.Snapshot.Damaged(r.Tenant) != nil {
			continue // it is refused
		}
		if !known && p.await != nil {
			p.await.await(f, r.Tenant)
			continue
		}
		if !known && (p.cfg.Register || !trusted) {
			return &UnknownTenant{r.Tenant}
		}
		if !known {
			continue
		}
		if !f.Snapshot.CanPlace(r.Time) {
			if !trusted && f.Now.Sub(f.Snapshot.ReadAt) > freshSnapshot {
				return &StaleSnapshot{r.Time}
			}
			continue
		}
		welcome := f.grant.Covers(r.Tenant, r.Time, f.Now)
		if p.tooOld(f, r, tenant) == nil {
			if p.served(tenant, r, f.Snapshot) {
				p.accept(f.Snapshot, tenant, telemetry.DayOf(r.Time))
				continue
			}
			switch container := containerOf(tenant, r); {
			case welcome:
				return &MissingMonth{Container: container}
			case f.Snapshot.MayAsk(r.Tenant, f.Now):
				return &MissingMonth{container, r.Tenant}
			case !trusted:
				return &StaleSnapshot{r.Time}
			}
		}
	}
	return nil
}

// isFuture reports whether an event time lies too far after the record's Kafka timestamp, or beyond the last day.
func (p *places) isFuture(rec *Record, r *telemetry.Reading, t *tenant.Ingest) bool {
	if r.Time >= telemetry.MaxMillis {
		return true
	}
	future, bounded := p.future(t)
	return bounded && rec.Time >= 0 && r.Time-future.Milliseconds() > rec.Time
}

// future returns how far an event time may lie after its record's Kafka timestamp. The tenant's settings may be nil.
func (p *places) future(t *tenant.Ingest) (future time.Duration, bounded bool) {
	if t == nil {
		return p.cfg.Future, true
	}
	return t.Future.Or(tenant.PeriodOf(p.cfg.Future)).Of()
}

// grant returns the backfill that a record names, zero when the snapshot lacks it; named is set if it names any.
func (p *places) grant(rec *Record, snapshot *control.Snapshot) (grant control.Backfill, named bool) {
	id := decode.FirstHeader(rec.Headers, control.BackfillHeader)
	if id == "" {
		return control.Backfill{}, false
	}
	grant, _ = snapshot.Backfill(id)
	return grant, true
}

// clock returns the time, in ms since 1970, at which a record is judged: its Kafka timestamp, so that a replay decides
// alike. A producer may set that at will, unless the broker does, so it counts only within the bound: a record that
// claims to be older is judged as of now.
func clock(rec *Record, bound time.Duration, now time.Time) int64 {
	if at := now.UnixMilli(); rec.Time < 0 || at-rec.Time > bound.Milliseconds() {
		return at
	}
	return rec.Time
}

// tooOld returns why a reading is refused for its age, nil if it is not. A backfill lets it in as far as the tenant's
// retention does.
func (p *places) tooOld(f *feed, r *telemetry.Reading, t tenant.Tenant) *decode.Bad {
	day := telemetry.DayOf(r.Time)
	kept := t.RetentionOf(r.Device, day)
	at := f.Now.UnixMilli()
	if kept > 0 {
		at = clock(&f.Record, kept, f.Now)
	}
	if first := t.FirstVisible(r.Device, at); day < first {
		return &decode.Bad{Reason: decode.Expired,
			Detail: fmt.Sprintf("the retention of %s is over for %s: the first day that is kept is %s", kept, day, first)}
	}
	past, bounded := p.past(t.Ingest, kept)
	if !bounded || f.grant.Covers(r.Tenant, r.Time, f.Now) {
		return nil
	}
	if at := clock(&f.Record, past, f.Now); at-r.Time > past.Milliseconds() {
		return &decode.Bad{Reason: decode.Past,
			Detail: fmt.Sprintf("event time %s lies more than %s before %s, and no backfill covers it",
				telemetry.Instant(r.Time), past, telemetry.Instant(at))}
	}
	return nil
}

// past returns how far an event time may lie before its record's Kafka timestamp, by what a tenant says, which may be
// nil, and the retention of the device.
func (p *places) past(t *tenant.Ingest, kept time.Duration) (past time.Duration, bounded bool) {
	past = p.cfg.Past
	if t != nil {
		if own, bounded := t.Past.Of(); bounded {
			past = own
		} else if t.Past == tenant.Period(tenant.Unbounded) {
			past = -1
		}
	}
	return cmp.Or(past, defaultPast), past > 0 || past == 0 && kept <= 0
}

// defaultPast is the accepted age of the readings of a tenant without a retention: a year, and time to notice.
const defaultPast = 400 * 24 * time.Hour

func containerOf(t tenant.Tenant, r *telemetry.Reading) string {
	return t.Placement.Key(r.Device, telemetry.DayOf(r.Time), 0).Container
}

// servedDay is a tenant's day with a container that is there, or was asked for.
type servedDay struct {
	tenant string
	day    telemetry.Day
}

// served reports whether the container of a reading was asked for, by this process or another.
func (p *places) served(t tenant.Tenant, r *telemetry.Reading, snapshot *control.Snapshot) bool {
	if p.servedIn != snapshot {
		p.servedIn, p.servedDays = snapshot, map[servedDay]bool{}
	}
	k := servedDay{r.Tenant, telemetry.DayOf(r.Time)}
	if p.servedDays[k] {
		return true
	}
	if !snapshot.MayServe(containerOf(t, r)) {
		return false
	}
	p.servedDays[k] = true
	return true
}

// refusal returns why a reading is refused, nil if it is taken. It depends on stored facts, so that a replay decides
// alike: times are judged by the record's Kafka timestamp (rule W10). The clock decides in two cases. A time that no
// snapshot can place yet, because the record's timestamp is itself far ahead, must not hold up its partition until
// then. And a record with a timestamp further back than what is accepted is as old as its producer says.
func (p *places) refusal(f *feed, r *telemetry.Reading) *decode.Bad {
	if p.accepted.has(f, r) {
		return f.tooLarge(r)
	}
	if r.Time < 0 {
		return &decode.Bad{Reason: decode.Past, Detail: fmt.Sprintf("event time %d ms lies before 1970", r.Time)}
	}
	tenant, ok := f.Snapshot.Tenant(r.Tenant)
	if r.Time >= telemetry.MaxMillis {
		detail := fmt.Sprintf("event time %d ms lies beyond the year 9999", r.Time)
		if f.Time >= telemetry.MaxMillis {
			detail += ", and so does the record's timestamp"
		}
		return &decode.Bad{Reason: decode.Future, Detail: detail}
	}
	if p.isFuture(&f.Record, r, tenant.Ingest) {
		future, _ := p.future(tenant.Ingest)
		return &decode.Bad{Reason: decode.Future,
			Detail: fmt.Sprintf("event time %d ms lies more than %s after the record's timestamp, %d ms",
				r.Time, future, f.Time)}
	}
	if !f.Snapshot.CanPlace(r.Time) {
		return &decode.Bad{Reason: decode.Future,
			Detail: fmt.Sprintf("event time %s can't be placed yet, though the record's timestamp allows it",
				telemetry.Instant(r.Time))}
	}
	if err := f.Snapshot.Damaged(r.Tenant); !ok && err != nil {
		return &decode.Bad{Reason: decode.UnknownTenant, Detail: err.Error()}
	}
	if !ok {
		detail := fmt.Sprintf("tenant %q is not registered", r.Tenant)
		if p.await != nil {
			detail += fmt.Sprintf(": too many new tenants wait, and --register-rate is %d a minute", p.cfg.RegisterRate)
		}
		return &decode.Bad{Reason: decode.UnknownTenant, Detail: detail}
	}
	if bad := p.tooOld(f, r, tenant); bad != nil {
		return bad
	}
	if !p.served(tenant, r, f.Snapshot) {
		return &decode.Bad{Reason: decode.Limit,
			Detail: fmt.Sprintf("the tenant's readings have asked for as many containers as they may; %s is not among them",
				containerOf(tenant, r))}
	}
	return f.tooLarge(r)
}

// tooLarge returns why a reading is refused for the size of its record, nil if it is not.
func (f *feed) tooLarge(r *telemetry.Reading) *decode.Bad {
	if len(f.oversize) > 0 && f.oversize[ChainOf(r)] {
		return &decode.Bad{Reason: decode.TooLarge,
			Detail: "the record's readings of this device and day do not fit one document"}
	}
	return nil
}

// accepted describes readings that are taken for the same reasons as the last one: the readings of a tenant and day
// by one snapshot, whatever their device. Most readings match, so that a look at their times replaces all other
// checks. Readings that do not match may be taken as well.
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

// accept sets accepted to the readings of a tenant and a day that has a container in the snapshot, unless devices
// have other retentions than the tenant.
func (p *places) accept(snapshot *control.Snapshot, t tenant.Tenant, day telemetry.Day) {
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
