// Package throttle holds the tenants of one partition to their limits: readings above a rate are deferred or refused,
// and so are those of a tenant that delays others; readings beyond a number or a size are refused. It is pure: the
// caller passes the time, and reads deferred records again when Next asks for them. docs/internals/protocol.md has the
// rules.
package throttle

import (
	"sync"
	"time"

	"binnacle/ingest/queue"
	"binnacle/internal/control"
	"binnacle/internal/retry"
	"binnacle/internal/telemetry"
)

// Config is how a Throttle works.
type Config struct {
	Limits    control.IngestLimits // of tenants that say nothing else
	HeldFor   time.Duration        // longest time that readings above a rate are deferred
	FairAfter time.Duration        // lag from which on a noisy tenant is deferred; not above 0: never
	// Registrations bounds the tenants that are registered. Nil: Await must not be called.
	Registrations *Registrations
	// Retry returns the pauses between attempts at a lookup or a registration, of at least so long.
	Retry func(least time.Duration) retry.Schedule

	Registry Registry
	Log      *Log
	Mu       *sync.Mutex // guards all that a Throttle knows
	Deferred func()      // counts a reading that is deferred
}

// Registry knows the devices of the partition.
type Registry interface {
	// Device returns what a device carries for its limits, nil when nothing is known of the device.
	Device(tenant, id string) *Device
	// Chain reports whether a device has a chain of a day, and whether rows of that are about to be cut.
	Chain(tenant, id string, day telemetry.Day) (known, cutting bool)
	// Forget drops a device that is not needed any more.
	Forget(tenant, id string)
}

// Log is how far the log is known and read.
type Log struct {
	Position int64 // of the next record
	CaughtUp int64 // end of the log at the assignment
	End      int64 // highest end of the log seen
	Assigned int64 // when the partition was assigned, ms: chains of earlier days may have chunks (W3)
}

// Throttle holds back the floor for what is deferred (rule W7). One goroutine owns it; others may call Deferrals and
// Excesses.
type Throttle struct {
	cfg        Config
	limits     bool // cfg.Limits has one
	partitions int  // of the topic: they share limits
	tenants    map[string]*Tenant
	recent     *Tenant // of the last reading
	bytes      int64   // memory of what is known of devices and labels
	deferrals  deferrals
	fair       fairness

	registering registering

	labelQueue  queue.FIFO[*Tenant] // with labels that are to be looked up
	labelLookup bool                // one is in flight
	labelRetry  retry.Backoff
}

// New returns a Throttle for one of so many partitions.
func New(cfg Config, partitions int) *Throttle {
	return &Throttle{cfg: cfg, limits: cfg.Limits.Any(), partitions: max(1, partitions), tenants: map[string]*Tenant{}}
}

// Tenant is what a Throttle knows of a tenant.
type Tenant struct {
	Name    string
	Devices int // that the Registry knows

	kept bool // by the Registry: else it goes with its deferral

	snapshot        *control.Snapshot // by which its limits are
	configured      control.IngestLimits
	limits          *limits // nil: none
	meter           meter
	newDevices      meter     // of devices that report for the first time
	came, round     int       // values, and in which round of fairness
	deferral        *deferral // nil: it does not wait as a whole
	deferredDevices int       // devices that wait by themselves
	excesses        map[limitName]*excess
	sets            [recentSets]*metricSet // that readings had last, where series are counted
	next            int                    // that gives way to another one
	checked         outline                // of the reading that is being checked, if that has new series
	series          map[telemetry.Day]int  // of its devices together, as far as they are counted
	most            *Device                // that has most of them in some day, as far as that is known
	mostID          string                 // of that
	mostSeries      int
	values          *labelValues // nil: they are not counted
}

// Tenant returns a tenant's state, made when it is not there. The caller holds the lock.
func (th *Throttle) Tenant(name string) *Tenant {
	t := th.known(name)
	if t == nil {
		t = &Tenant{Name: name}
		th.tenants[name], th.recent = t, t
	}
	t.kept = true
	return t
}

// known returns a tenant's state, nil if it is not there. The caller holds the lock.
func (th *Throttle) known(name string) *Tenant {
	if t := th.recent; t != nil && t.Name == name {
		return t
	}
	t := th.tenants[name]
	if t != nil {
		th.recent = t
	}
	return t
}

// Deferred reports whether all of the tenant is deferred.
func (t *Tenant) Deferred() bool { return t.deferral != nil }

// Forget drops a tenant that has no devices and no deferred readings. The caller holds the lock.
func (th *Throttle) Forget(t *Tenant) {
	th.uncountLabels(t)
	delete(th.tenants, t.Name)
	th.recent = nil
}

// ForgetDevice drops what is known of a device for its limits. The caller holds the lock.
func (th *Throttle) ForgetDevice(t *Tenant, d *Device) {
	if d.limited != nil {
		for i := range d.limited.days {
			t.uncountSeries(d, &d.limited.days[i])
		}
		th.bytes -= d.limited.bytes
		d.limited = nil
	}
}

// Bytes returns the memory of what is known of devices and labels, and of what is deferred.
func (th *Throttle) Bytes() int64 {
	return th.bytes + int64(len(th.deferrals.all)*deferralBytes+len(th.registering.waiting)*unregisteredBytes)
}

// Feed is a record that is being taken, with what its readings are checked by.
type Feed struct {
	Offset   int64
	Time     int64 // Kafka timestamp, ms; negative when the record has none
	Bytes    int   // of its value
	Readings []telemetry.Reading
	Snapshot *control.Snapshot
	Now      time.Time
	Again    bool // it was read again: Readings are those that are deferred and may go on

	Limited bool // limits count: CheckRates says so
	First   bool // nothing was known of the device of the reading that is being taken
}
