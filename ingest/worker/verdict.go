package worker

import (
	"cmp"
	"fmt"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/control"
	"binnacle/internal/telemetry"
)

// UnknownTenant asks for a tenant to be registered, or for a newer map; then the record is fed again.
type UnknownTenant struct{ Tenant string }

// Error names the tenant.
func (e *UnknownTenant) Error() string { return fmt.Sprintf("tenant %q is not in the map", e.Tenant) }

// StaleSnapshot asks for a newer map: this one can't place so late a reading (rule W1). The record is fed again.
type StaleSnapshot struct{ Time int64 }

// Error names the time.
func (e *StaleSnapshot) Error() string {
	return fmt.Sprintf("the map is too old to place %s", time.UnixMilli(e.Time).UTC().Format(time.RFC3339))
}

// UnknownBackfill asks for a newer map: this one does not have the backfill that a record names. The record is fed
// again.
type UnknownBackfill struct{}

// Error says so.
func (*UnknownBackfill) Error() string { return "the record names a backfill that is not in the map" }

// MissingMonth asks for a container: a reading belongs into it, and nobody has asked for it yet. The record is fed
// again. A tenant's readings ask for a bounded number, unless a backfill grants more.
type MissingMonth struct {
	Container, Tenant string
	Granted           bool
}

// Error names the container.
func (e *MissingMonth) Error() string {
	return fmt.Sprintf("container %s is not in the map", e.Container)
}

// verdicts decides which readings are taken, by stored facts and the time.
type verdicts struct {
	cfg       *Config
	partition int32

	requestedSnapshot time.Time // when the one was read for which Feed asked
	trusted           time.Time // until then no newer one is asked for

	servedIn   *control.Snapshot  // the snapshot that servedDays is of
	servedDays map[servedDay]bool // whose container it has
}

// freshSnapshot is the age below which a map that can't place a reading is not read again: the next one could not place it
// either.
const freshSnapshot = time.Minute

// snapshotPatience is for how long after the map was read again for a Worker's sake it is not asked to be: however many
// tenants that nobody has registered send readings, the store is asked once a second.
const snapshotPatience = time.Second

// snapshotRead tells that the map was read again because Feed asked for it: what this view or a later one does not have,
// there is not.
func (v *verdicts) snapshotRead(snapshot *control.Snapshot, now time.Time) {
	v.requestedSnapshot, v.trusted = snapshot.ReadAt, now.Add(snapshotPatience)
}

// placeable reports whether the map is good enough for every reading of a record that will not be refused anyway.
func (v *verdicts) placeable(rec *Record, readings []telemetry.Reading, snapshot *control.Snapshot, now time.Time) error {
	trusted := now.Before(v.trusted) && !snapshot.ReadAt.Before(v.requestedSnapshot)
	grant, named := v.grant(rec, snapshot)
	if named && grant.ID == "" && !trusted {
		return &UnknownBackfill{}
	}
	var tenant control.Tenant
	known := false
	for i := range readings {
		r := &readings[i]
		if i == 0 || r.Tenant != tenant.Name {
			tenant, known = snapshot.Tenant(r.Tenant)
			tenant.Name = r.Tenant
		}
		if r.Time < 0 || v.isFuture(rec, r, tenant.Ingest) {
			continue
		}
		if !known && (v.cfg.Register || !trusted) {
			return &UnknownTenant{r.Tenant}
		}
		if !known {
			continue
		}
		if !snapshot.CanPlace(r.Time) {
			if !trusted && now.Sub(snapshot.ReadAt) > freshSnapshot {
				return &StaleSnapshot{r.Time}
			}
			continue
		}
		welcome := grant.Covers(r.Tenant, r.Time, now)
		if v.tooOld(rec, r, tenant, welcome, now) == nil && !v.served(tenant, r, snapshot) {
			if welcome || snapshot.MayAsk(r.Tenant, now) {
				return &MissingMonth{Container: containerOf(tenant, r), Tenant: r.Tenant, Granted: welcome}
			}
			if !trusted {
				return &StaleSnapshot{r.Time}
			}
		}
	}
	return nil
}

// isFuture reports whether an event time lies too far after the record's Kafka timestamp, or after all there are days
// for.
func (v *verdicts) isFuture(rec *Record, r *telemetry.Reading, t *control.TenantIngest) bool {
	if r.Time >= telemetry.MaxMillis {
		return true
	}
	future, bounded := v.future(t)
	return bounded && rec.Time >= 0 && r.Time-future.Milliseconds() > rec.Time
}

// future is how far an event time may lie after its record's Kafka timestamp, by what a tenant says, which may be nil.
func (v *verdicts) future(t *control.TenantIngest) (future time.Duration, bounded bool) {
	if t == nil {
		return v.cfg.Future, true
	}
	return t.Future.Or(control.PeriodOf(v.cfg.Future)).Of()
}

// grant is the backfill that a record names, the zero one when the map has none such; named reports whether it names
// any.
func (v *verdicts) grant(rec *Record, snapshot *control.Snapshot) (grant control.Backfill, named bool) {
	id := rec.header(control.BackfillHeader)
	if id == "" {
		return control.Backfill{}, false
	}
	grant, _ = snapshot.Backfill(id)
	return grant, true
}

// clock is the time, in ms since 1970, at which a record is judged: its Kafka timestamp, so that a replay decides
// alike. A producer may set that at will, unless the broker does, so it counts only within the bound: a record that
// claims to be older is judged as of now.
func clock(rec *Record, bound time.Duration, now time.Time) int64 {
	if at := now.UnixMilli(); rec.Time < 0 || at-rec.Time > bound.Milliseconds() {
		return at
	}
	return rec.Time
}

// tooOld says why a reading is refused for its age, nil if it is not; welcome reports whether a backfill lets it in,
// as far as the tenant's retention does.
func (v *verdicts) tooOld(rec *Record, r *telemetry.Reading, t control.Tenant, welcome bool, now time.Time) *decode.Bad {
	if day := telemetry.DayOf(r.Time); t.Retention > 0 && t.Expired(day, clock(rec, t.Retention, now)) {
		return &decode.Bad{Reason: decode.Expired, Detail: fmt.Sprintf("the retention of %s is over for %s", t.Retention,
			day)}
	}
	past := v.cfg.Past
	if t.Ingest != nil {
		if own, bounded := t.Ingest.Past.Of(); bounded {
			past = own
		} else if t.Ingest.Past == control.Period(control.Unbounded) {
			past = -1
		}
	}
	if past == 0 && t.Retention > 0 || past < 0 || welcome {
		return nil
	}
	past = cmp.Or(past, defaultPast)
	if at := clock(rec, past, now); at-r.Time > past.Milliseconds() {
		return &decode.Bad{Reason: decode.Past,
			Detail: fmt.Sprintf("event time %s lies more than %s before %s, and no backfill covers it",
				instant(r.Time), past, instant(at))}
	}
	return nil
}

// defaultPast is the accepted age of the readings of a tenant that keeps for ever: a year, and time to notice.
const defaultPast = 400 * 24 * time.Hour

func instant(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

func containerOf(t control.Tenant, r *telemetry.Reading) string {
	return t.Placement.Key(r.Device, telemetry.DayOf(r.Time), 0).Container
}

// servedDay is a tenant's day whose container is there, or was asked for.
type servedDay struct {
	tenant string
	day    telemetry.Day
}

// served reports whether the container of a reading was asked for: by whom does not matter.
func (v *verdicts) served(t control.Tenant, r *telemetry.Reading, snapshot *control.Snapshot) bool {
	if v.servedIn != snapshot {
		v.servedIn, v.servedDays = snapshot, map[servedDay]bool{}
	}
	k := servedDay{r.Tenant, telemetry.DayOf(r.Time)}
	if v.servedDays[k] {
		return true
	}
	if !snapshot.MayServe(containerOf(t, r)) {
		return false
	}
	v.servedDays[k] = true
	return true
}

// verdict says why a reading is refused, nil if it is taken. It depends on stored facts, so that a replay decides
// alike: times are judged by the record's Kafka timestamp (rule W10). There are two exceptions, which the clock
// decides. A time that no map can place yet, because the record's timestamp is itself far ahead, must not hold up its
// partition until then. And a record whose timestamp lies further back than what is accepted is as old as its
// producer wants.
func (v *verdicts) verdict(rec *Record, r *telemetry.Reading, snapshot *control.Snapshot, oversize map[chainKey]bool,
	now time.Time) *decode.Bad {
	if r.Time < 0 {
		return &decode.Bad{Reason: decode.Past, Detail: fmt.Sprintf("event time %d ms lies before 1970", r.Time)}
	}
	tenant, ok := snapshot.Tenant(r.Tenant)
	if v.isFuture(rec, r, tenant.Ingest) {
		future, _ := v.future(tenant.Ingest)
		return &decode.Bad{Reason: decode.Future,
			Detail: fmt.Sprintf("event time %d ms lies more than %s after the record's timestamp, %d ms",
				r.Time, future, rec.Time)}
	}
	if !snapshot.CanPlace(r.Time) {
		return &decode.Bad{Reason: decode.Future,
			Detail: fmt.Sprintf("event time %s can't be placed yet, though the record's timestamp allows it", instant(r.Time))}
	}
	if !ok {
		return &decode.Bad{Reason: decode.UnknownTenant, Detail: fmt.Sprintf("tenant %q is not registered", r.Tenant)}
	}
	grant, _ := v.grant(rec, snapshot)
	if bad := v.tooOld(rec, r, tenant, grant.Covers(r.Tenant, r.Time, now), now); bad != nil {
		return bad
	}
	if !v.served(tenant, r, snapshot) {
		return &decode.Bad{Reason: decode.Limit,
			Detail: fmt.Sprintf("the tenant's readings have asked for as many months as they may; %s is not among them",
				telemetry.DayOf(r.Time).Month())}
	}
	if oversize[chainKey{r.Tenant, r.Device, telemetry.DayOf(r.Time)}] {
		return &decode.Bad{Reason: decode.TooLarge,
			Detail: "the record's readings of this device and day do not fit one document"}
	}
	return nil
}
