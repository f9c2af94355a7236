package worker

import (
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

// StaleMap asks for a newer map: this one can't place so late a reading (rule W1). The record is fed again.
type StaleMap struct{ Time int64 }

// Error names the time.
func (e *StaleMap) Error() string {
	return fmt.Sprintf("the map is too old to place %s", time.UnixMilli(e.Time).UTC().Format(time.RFC3339))
}

// freshMap is the age below which a map that can't place a reading is not read again: the next one could not place it either.
const freshMap = time.Minute

// patience is for how long after the map was read again for a Worker's sake it is not asked to be: however many tenants that
// nobody has registered send readings, the store is asked once a second.
const patience = time.Second

// Learned tells that the map was read again because Feed asked for it: what this view or a later one does not have, there
// is not.
func (w *Worker) Learned(view *control.View, now time.Time) {
	w.learned, w.trusted = view.ReadAt, now.Add(patience)
}

// placeable tells whether the map is good enough for every reading of a record that will not be refused anyway.
func (w *Worker) placeable(rec *Record, readings []telemetry.Reading, view *control.View, now time.Time) error {
	trusted := now.Before(w.trusted) && !view.ReadAt.Before(w.learned)
	tenant, known := "", false
	for i := range readings {
		r := &readings[i]
		if r.Time < 0 || w.isFuture(rec, r) {
			continue
		}
		if i == 0 || r.Tenant != tenant {
			tenant = r.Tenant
			_, known = view.Tenant(tenant)
		}
		if !known && (w.cfg.Register || !trusted) {
			return &UnknownTenant{tenant}
		}
		if !trusted && !view.Places(r.Time) && now.Sub(view.ReadAt) > freshMap {
			return &StaleMap{r.Time}
		}
	}
	return nil
}

// isFuture tells whether an event time lies too far after the record's Kafka timestamp, or after all there are days for.
func (w *Worker) isFuture(rec *Record, r *telemetry.Reading) bool {
	return r.Time >= telemetry.MaxMillis || rec.Time >= 0 && r.Time-w.cfg.Future.Milliseconds() > rec.Time
}

// verdict says why a reading is refused, nil if it is taken. It depends on stored facts only, so that a replay decides
// alike: times are judged by the record's Kafka timestamp, not by the clock (rule W10). The exception is a time that no map
// can place yet, because the record's timestamp is itself far ahead: it must not hold up its partition until then.
func (w *Worker) verdict(rec *Record, r *telemetry.Reading, view *control.View, oversize map[chainKey]bool) *decode.Bad {
	if r.Time < 0 {
		return &decode.Bad{Reason: decode.Past, Detail: fmt.Sprintf("event time %d ms lies before 1970", r.Time)}
	}
	if w.isFuture(rec, r) {
		return &decode.Bad{Reason: decode.Future, Detail: fmt.Sprintf("event time %d ms lies more than %s after the record's timestamp, %d ms",
			r.Time, w.cfg.Future, rec.Time)}
	}
	if !view.Places(r.Time) {
		return &decode.Bad{Reason: decode.Future, Detail: fmt.Sprintf("event time %s can't be placed yet, though the record's timestamp allows it",
			time.UnixMilli(r.Time).UTC().Format(time.RFC3339))}
	}
	tenant, ok := view.Tenant(r.Tenant)
	if !ok {
		return &decode.Bad{Reason: decode.UnknownTenant, Detail: fmt.Sprintf("tenant %q is not registered", r.Tenant)}
	}
	day := telemetry.DayOf(r.Time)
	if rec.Time >= 0 && tenant.Expired(day, rec.Time) {
		return &decode.Bad{Reason: decode.Expired, Detail: fmt.Sprintf("the retention of %s is over for %s", tenant.Retention, day)}
	}
	if oversize[chainKey{r.Tenant, r.Device, day}] {
		return &decode.Bad{Reason: decode.TooLarge, Detail: "the record's readings of this device and day do not fit one document"}
	}
	return nil
}

func (w *Worker) refuse(rec *Record, bad decode.Bad) {
	w.letters.add(DeadLetter{Topic: w.cfg.Topic, Partition: w.partition, Record: *rec, Bad: bad})
	w.observer.Refused(bad.Reason)
}
