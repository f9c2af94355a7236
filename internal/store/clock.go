package store

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// MaxClockOffset is how far the clock of a machine and that of the service may differ. Beyond it a process decides
// nothing that cannot be undone (rule W12): drops, epochs, retention, erasures, copies, leases.
const MaxClockOffset = time.Minute

// ErrClockUnknown says that no answer of the service had its time.
var ErrClockUnknown = errors.New("the service has not said what time it is: its answers have no Date")

// ClockError says that the clock of this machine differs from the service's by more than MaxClockOffset.
type ClockError struct {
	Own, Service time.Time // at one moment
}

// Error implements error.
func (e *ClockError) Error() string {
	return fmt.Sprintf("the clock of this machine shows %s, that of the service %s: they differ by %s, and beyond %s "+
		"nothing is decided that cannot be undone; set the clock of this machine", e.Own.UTC().Format(time.RFC3339),
		e.Service.UTC().Format(time.RFC3339), e.Service.Sub(e.Own).Abs().Round(time.Second), MaxClockOffset)
}

// Clock is the clock of the service as a process knows it: that of its machine, corrected by the Date of the service's
// answers. Between two answers it goes by the time that has passed, whatever the machine's clock is set to. It is as
// exact as answers are, to a second and the time of a request; where the machine's clock may be right by that, it
// counts. Where an answer sets it back by no more, it stands still instead: what was read later has a later time or the
// same. It is safe for any number of callers.
type Clock struct {
	own   func() time.Time
	known atomic.Pointer[clockReading]
	shown atomic.Int64 // what Now returned last, ns since 1970 UTC
}

// clockError is how exact a Clock is: a second, and a second for a request.
const clockError = 2 * time.Second

// clockReading relates the two clocks at one moment.
type clockReading struct {
	// own is the machine's clock, with its monotonic part.
	own time.Time
	// least and most are by how much the service's clock is ahead of own.
	least, most time.Duration
}

// clockDrift is how many parts of the time that passes two clocks may come apart by: a minute in four days.
const clockDrift = 5000

// NewClock returns a Clock that has seen no answer.
func NewClock(own func() time.Time) *Clock { return &Clock{own: own} }

// Answered takes the Date of an answer to a request, and when that was sent and answered by the own clock.
func (c *Clock) Answered(sent, received, date time.Time) {
	passed, shown := received.Sub(sent), received.Round(0).Sub(sent.Round(0))
	if (passed - shown).Abs() > time.Second {
		return
	}
	next := &clockReading{received, date.Sub(received.Round(0)), date.Add(time.Second).Sub(sent.Round(0))}
	for {
		old := c.known.Load()
		merged := *next
		if old != nil {
			// The service's clock now, by the last reading.
			passed, shown := received.Sub(old.own), received.Round(0).Sub(old.own.Round(0))
			shift, drift := passed-shown, passed.Abs()/clockDrift
			least, most := max(next.least, old.least+shift-drift), min(next.most, old.most+shift+drift)
			if least <= most {
				merged.least, merged.most = least, most
			}
		}
		if c.known.CompareAndSwap(old, &merged) {
			return
		}
	}
}

// Now returns the time of the service, and the time of the machine before the first answer.
func (c *Clock) Now() time.Time {
	shown, now := c.shown.Load(), c.own()
	if r := c.known.Load(); r != nil {
		now = r.own.Round(0).Add(r.offset()).Add(now.Sub(r.own))
	}
	if back := time.Duration(shown - now.UnixNano()); back > 0 && back <= clockError {
		return now.Add(back)
	}
	c.shown.CompareAndSwap(shown, now.UnixNano())
	return now
}

// offset returns by how much the service is ahead: 0 where that is possible.
func (r *clockReading) offset() time.Duration { return min(max(0, r.least), r.most) }

// Offset returns by how much the service's clock is ahead of the machine's; 0 where the machine's may be right.
func (c *Clock) Offset() time.Duration {
	if c.known.Load() == nil {
		return 0
	}
	own := c.own()
	return c.Now().Sub(own.Round(0)).Round(time.Millisecond)
}

// Check fails where what cannot be undone must not be decided by this process: with a *ClockError while its machine's
// clock differs from the service's by more than MaxClockOffset, and with ErrClockUnknown before the first answer.
func (c *Clock) Check() error {
	if c.known.Load() == nil {
		return ErrClockUnknown
	}
	own, service := c.own(), c.Now()
	if service.Sub(own.Round(0)).Abs() > MaxClockOffset {
		return &ClockError{Own: own.Round(0), Service: service}
	}
	return nil
}
