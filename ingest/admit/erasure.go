package admit

import (
	"strings"

	"binnacle/ingest/decode"
	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/stream/deadletter"
	"binnacle/internal/telemetry"
)

// erasures keeps rules E-R2, E-R4 and E-R6 for records: which readings an order erases, and which records wait until
// that is known.
type erasures struct {
	at erasure.Partition
	// Rows below horizon were fetched before the read of the snapshot began; it counts where bounded is set.
	horizon int64
	bounded bool

	snapshot  *control.Snapshot // the last one
	announced bool              // it has an order without positions
}

// PendingErasure asks for a newer snapshot: whether an order erases readings of the record is not known yet (rules E-R5
// and E-R6). Then the record is fed again.
type PendingErasure struct {
	// Announced says that an order is announced, and its positions are not known yet.
	Announced bool
}

// Error says so.
func (*PendingErasure) Error() string {
	return "whether an order of erasure covers the record is not known yet"
}

// awaited fails with *PendingErasure while a record has to wait: a replayed dead letter (rules E-R5 and E-R6), or one
// that is older than an order: its positions may have been read before the stream began. A takeover has read the orders
// since.
func (e *erasures) awaited(f *feed) error {
	f.replayed = replayed(&f.Record)
	if e.bounded && f.replayed != nil && f.Offset >= e.horizon {
		return &PendingErasure{}
	}
	if !e.hasAnnounced(f.Snapshot) {
		return nil
	}
	for i := range f.readings {
		r := &f.readings[i]
		for _, o := range f.Snapshot.Erasures(r.Tenant).Of(r.Device, telemetry.DayOf(r.Time)) {
			if !o.IsAcknowledged() && (f.replayed != nil || f.isOlder(o)) {
				return &PendingErasure{Announced: true}
			}
		}
	}
	return nil
}

// hasAnnounced reports whether a snapshot has an order without positions.
func (e *erasures) hasAnnounced(s *control.Snapshot) bool {
	if e.snapshot != s {
		e.snapshot, e.announced = s, false
		for _, o := range s.AllErasures() {
			e.announced = e.announced || !o.IsAcknowledged()
		}
	}
	return e.announced
}

// replayed returns which dead letter a record was first, nil for none.
func replayed(rec *Record) *deadletter.ID {
	text := decode.FirstHeader(rec.Headers, deadletter.HeaderReplayOf)
	if text == "" {
		return nil
	}
	name, _, _ := strings.Cut(text, " ")
	id, err := deadletter.ParseID(name)
	if err != nil {
		return nil // anybody may send such a header
	}
	return &id
}

func (e *erasures) cover(f *feed, r *telemetry.Reading) bool {
	for _, o := range f.Snapshot.Erasures(r.Tenant).Of(r.Device, telemetry.DayOf(r.Time)) {
		if o.Covers(e.at, f.Offset, f.Time) ||
			o.IsAcknowledged() && f.replayed != nil && e.coversReplayed(o, f.replayed) {
			return true
		}
	}
	return false
}

// coversReplayed reports whether an order covers the record that a dead letter was first. Its position is one of this
// log; if the log is another one than it was, or its stream began after the order, the record's timestamp decides.
func (e *erasures) coversReplayed(o *erasure.Order, id *deadletter.ID) bool {
	through, known := o.Position(erasure.Partition{Stream: e.at.Stream, Partition: id.Partition})
	return id.Offset <= through || id.Published <= o.At.UnixMilli() &&
		(id.Offset <= o.ThroughAny(id.Partition) || !known && id.Published >= 0)
}
