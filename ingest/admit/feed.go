package admit

import (
	"binnacle/ingest/decode"
	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/retry"
	"binnacle/internal/stream/deadletter"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"time"
)

// Config is how an Admission decides.
type Config struct {
	Stream    uint32
	Partition int32

	Decode decode.Options
	// Register turns on the registration of unknown tenants; else their readings are dead letters.
	Register bool
	// Registrations bounds how many tenants are registered. No record waits for that: the tenants' readings are
	// deferred until then. With nil Admit fails with *UnknownTenant, and the caller registers.
	Registrations *Registrations
	RegisterRate  int

	// Limits apply to tenants without limits of their own.
	Limits tenant.IngestLimits
	// HeldFor is the longest time that readings above a rate are deferred.
	HeldFor time.Duration
	// FairAfter is the lag from which on a noisy tenant is deferred; not above 0: never.
	FairAfter time.Duration
	// Future is how far an event time may lie after its record's Kafka timestamp, and Past how far before: 0 is the
	// tenant's retention, or 400 days for a tenant without one, and negative any age.
	Future, Past time.Duration

	// Retry returns the pauses between attempts at a lookup or a registration, each at least least long.
	Retry func(least time.Duration) retry.Schedule
	// Partitions is how many the topic has: they share a tenant's limits.
	Partitions int
	Devices    Devices
}

// Devices knows which devices of the partition have readings that were taken.
type Devices interface {
	// Seen returns how a device and its chain of a day are known.
	Seen(tenant, device string, day telemetry.Day) Seen
}

// Seen is how a device, and its chain of a day, are known.
type Seen struct {
	// Devices is how many devices of the tenant are known.
	Devices int
	// Known says that the device is one of them, and Chains that it has chains.
	Known, Chains bool
	// Chain says that there is a chain of the day, and Cutting that rows of it are about to be cut.
	Chain, Cutting bool
}

// Log is how far the log is known and read.
type Log struct {
	// Position is the offset of the next record.
	Position int64
	// CaughtUp is the end of the log at the assignment, End the highest end that was seen.
	CaughtUp, End int64
	// Assigned is when the partition was assigned, ms: chains of earlier days may have chunks (W3).
	Assigned int64
}

// Moment is the part of a decision's input that is not the record.
type Moment struct {
	Snapshot *control.Snapshot
	Now      time.Time
	Log      Log
}

// feed is a record that is being decided on.
type feed struct {
	Record
	Moment
	readings []telemetry.Reading
	// index has the place of each reading in the record.
	index []int
	// again says that the record was read again: readings has the deferred readings that may be resumed.
	again bool

	// grant is the backfill that the record names, and replayed the dead letter that it was first, nil for none.
	grant    control.Backfill
	replayed *deadletter.ID
	made     int // memory of the readings in bytes, as decoding has counted it
	// oversize has the chains with more readings than fit a document.
	oversize map[Chain]bool
	// limited says that limits count.
	limited bool
}

// published returns when a record was, in ns: by Kafka's timestamp, which a producer may set ahead, but not here.
func published(f *feed) int64 {
	if f.Time < 0 || f.Time > f.Now.UnixMilli() {
		return f.Now.UnixNano()
	}
	return f.Time * int64(time.Millisecond)
}

// knownFrom returns from when on a device that nothing is known of counts as new, in ns: which ones were there before
// is not known in the hour after the partition came here.
func knownFrom(f *feed) int64 { return f.Log.Assigned*int64(time.Millisecond) + int64(time.Hour) }

// isOlder reports whether a record was published before an order was announced, as far as its timestamp shows it. It
// decides where a stream began after the order: the log was made again, or is read again from its start.
func (f *feed) isOlder(o *erasure.Order) bool { return f.Time >= 0 && f.Time <= o.At.UnixMilli() }
