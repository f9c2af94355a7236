// Package admit makes one decision for each reading of a record: it is taken, deferred, refused or erased. The steps
// are in the order of docs/internals/protocol.md: decode, erasure, tenant and time, limits, retention, size. A
// decision is a value. It depends on the record, the snapshot, the time, and what this package has counted of earlier
// records; the package calls nothing but Devices, which it only reads.
package admit

import (
	"cmp"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/telemetry"
)

// Decision is what becomes of a record. It is valid until the next call.
type Decision struct {
	// Take has the readings that are taken, in their order.
	Take []telemetry.Reading
	// Refused has what is refused, in its order, for each reason: elements that can't be decoded first.
	Refused []Refusal
	// Deferred is how many readings are deferred that were not before.
	Deferred int
	Units    []decode.Unit
}

// Refusal is a reading, or an element of a record, that becomes a dead letter.
type Refusal struct {
	Bad decode.Bad
	// Chain is the reading's, zero for an element that is no reading.
	Chain Chain
}

// Admission decides what becomes of records of one partition. One goroutine owns it; others may only call those methods
// of its Limits that say so.
type Admission struct {
	Limits   *Limits
	erasures erasures
	places   places
	decoder  *decode.Decoder
	feed     feed
	out      Decision
}

// New returns an Admission that has decided nothing yet.
func New(cfg Config) *Admission {
	a := &Admission{
		decoder: decode.New(cfg.Decode), Limits: newLimits(&cfg),
		erasures: erasures{at: erasure.Partition{Stream: cfg.Stream, Partition: cfg.Partition}},
		places:   places{cfg: &cfg},
	}
	if cfg.Register && cfg.Registrations != nil {
		a.places.await = a.Limits
	}
	return a
}

// Decoder returns what decodes the records.
func (a *Admission) Decoder() *decode.Decoder { return a.decoder }

// SetHorizon says that all records below an offset were fetched before the read of the snapshot began that is passed
// from now on (rules E-R2, E-R6). Without a call there must be no orders of erasure.
func (a *Admission) SetHorizon(offset int64) { a.erasures.horizon, a.erasures.bounded = offset, true }

// SnapshotRead says that the snapshot was read again because Admit asked for it: what this or a later one does not
// have, there is not.
func (a *Admission) SnapshotRead(s *control.Snapshot, now time.Time) { a.places.snapshotRead(s, now) }

// Admit decides on the next record of the log. It fails with *UnknownTenant, *MissingMonth, *UnknownBackfill,
// *StaleSnapshot, *PendingErasure or *decode.UnknownSchema before it has counted anything of the record; then the
// caller reads a newer snapshot, for which it calls SnapshotRead, or fetches the schema, and asks again.
func (a *Admission) Admit(rec *Record, m Moment) (*Decision, error) {
	result, err := a.decode(rec)
	if err != nil {
		return nil, err
	}
	f := &a.feed
	f.Record, f.Moment, f.readings, f.index, f.made = *rec, m, result.Readings, result.Index, a.decoder.Made()
	defer func() { a.feed = feed{} }() // else it would keep the record's batch
	if err := cmp.Or(a.erasures.awaited(f), a.places.placeable(f)); err != nil {
		return nil, err
	}
	a.Limits.deferNoisy(f)
	out := a.newDecision()
	out.Units = result.Units
	for _, bad := range result.Bad {
		out.Refused = append(out.Refused, Refusal{Bad: bad})
	}
	a.decide(f, out)
	a.Limits.registering.count(len(out.Take) > 0, out.Deferred > 0)
	return out, nil
}

// AdmitAgain decides on the readings of a record read again that are deferred and may be resumed. ok is false without
// such readings. It fails as Admit does.
func (a *Admission) AdmitAgain(rec *Record, m Moment) (d *Decision, ok bool, err error) {
	result, err := a.decode(rec)
	if err != nil {
		return nil, false, err
	}
	f := &a.feed
	f.Record, f.Moment, f.again, f.readings, f.index = *rec, m, true, result.Readings[:0], result.Index[:0]
	defer func() { a.feed = feed{} }() // else it would keep the record's batch
	for i := range result.Readings {
		if r := &result.Readings[i]; a.Limits.tenants.resumes(r, rec.Offset) {
			f.readings, f.index = append(f.readings, *r), append(f.index, result.Index[i])
		}
	}
	if len(f.readings) == 0 {
		return nil, false, nil
	}
	if err := cmp.Or(a.erasures.awaited(f), a.places.placeable(f)); err != nil {
		return nil, false, err
	}
	return a.decide(f, a.newDecision()), true, nil
}

// Awaits reports whether reading on should wait until tenants are registered and their readings taken: the last records
// held nothing else, and none of the tenants has waited for long. So ever new tenants delay the others but once.
func (a *Admission) Awaits(now time.Time) (awaits bool) {
	for _, x := range a.Limits.deferrals.all {
		if x.limit == limitRegistration && a.Limits.registering.alone >= aloneAtMost {
			if awaits = now.UnixMilli()-x.since < longestPause.Milliseconds(); !awaits {
				return false
			}
		}
	}
	return awaits
}

// CatchesUp reports whether a pass takes readings of a tenant that was registered: no limit holds them up, and what is
// read of the tenant before the pass ends must be read twice.
func (a *Admission) CatchesUp() bool { return a.Limits.deferrals.running && a.Limits.deferrals.admits }

func (a *Admission) newDecision() *Decision {
	a.out = Decision{Refused: a.out.Refused[:0]}
	return &a.out
}

func (a *Admission) decode(rec *Record) (decode.Result, error) {
	result := a.decoder.Decode(decode.RecordOf(rec.Value, rec.Headers, rec.Time))
	if result.Unknown != nil {
		return result, result.Unknown
	}
	return result, nil
}

// decide decides on the readings of a record. It changes the list of them.
func (a *Admission) decide(f *feed, out *Decision) *Decision {
	if f.made > surelyFits || f.again {
		f.oversize = a.places.oversize(&f.Record, f.readings)
	}
	l := a.Limits
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checkRates(f)
	out.Take = f.readings[:0]
	for i := range f.readings {
		r := &f.readings[i]
		if a.erasures.cover(f, r) {
			continue
		}
		if f.limited {
			if waits, isNew := l.defers(f, r); waits {
				if isNew {
					out.Deferred++
				}
				continue
			}
		}
		if bad := a.refusal(f, r); bad != nil {
			bad.Index = f.index[i]
			out.Refused = append(out.Refused, Refusal{*bad, ChainOf(r)})
			continue
		}
		out.Take = append(out.Take, *r)
	}
	return out
}

// refusal returns why a reading is refused, nil if it is taken, and counts it.
func (a *Admission) refusal(f *feed, r *telemetry.Reading) *decode.Bad {
	l := a.Limits
	if bad := a.places.refusal(f, r); bad != nil {
		if t := l.tenants.get(r.Tenant); f.limited && bad.Reason != decode.Limit && t != nil && t.limits != nil {
			t.meter.charge(&t.limits.tenant, published(f), len(r.Fields)) // it makes work, too
		}
		return bad
	}
	if !f.limited {
		l.tenants.keep(r.Tenant)
		return nil
	}
	if bad := l.refuses(f, r); bad != nil {
		return bad
	}
	l.charge(f, r)
	return nil
}
