package tenant

import (
	"context"
	"fmt"
	"slices"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// KindSweep is the kind of documents that say how far hidden days of a tenant were deleted.
const KindSweep = "sweep"

// Sweep is how far the hidden days of a tenant were deleted (rule X3): docs/internals/format/control.md. Times are ms
// since 1970 UTC.
type Sweep struct {
	// Change is when the retention came into force that the sweep is about, or a device came to a shorter one by tag.
	Change int64 `json:"change"`
	// Done is a time; the days that were hidden then are deleted.
	Done   int64         `json:"done"`
	UpTo   int64         `json:"upTo,omitempty"` // a pass is under way, and deletes what was hidden then
	Next   telemetry.Day `json:"next,omitempty"` // the first day that the pass has not deleted
	Chunks int64         `json:"chunks"`         // deleted since the change

	// tenant and etag are those of the document.
	tenant, etag string
	of           Tenant // as of UpTo
}

// SweepAfter is how long a day must have been hidden before its chunks are deleted: by then every reader hides it.
const SweepAfter = retentionLead

// Sweep returns the next pass at now, given the last one, and its days, none before from. Days that only the current
// retention covers are left to their time to live.
func (t Tenant) Sweep(was Sweep, from telemetry.Day, now int64) (pass Sweep, due []telemetry.Day) {
	if len(t.policies) < 2 {
		return was, nil
	}
	upTo := now - SweepAfter.Milliseconds()
	change := retentionPolicy{until: t.lastChange(upTo)}
	if upTo < change.until {
		return was, nil
	}
	if pass = was; pass.Change != change.until {
		pass = Sweep{Change: change.until, tenant: was.tenant, etag: was.etag}
	}
	if pass.UpTo == 0 {
		pass.UpTo = upTo
	}
	pass.of = t.asOf(pass.UpTo)
	for day := max(from, pass.Next); day <= change.lastDay() && pass.of.HidesAny(day, pass.UpTo); day++ {
		if pass.of.hidesSince(day, pass) {
			due = append(due, day)
		}
	}
	return pass, due
}

// lastChange returns when the current retention came into force, or when the last device came to a shorter one by tag,
// as far as that was by at, ms since 1970 UTC.
func (t Tenant) lastChange(at int64) int64 {
	last, now := t.policies[len(t.policies)-2].until, t.policies[len(t.policies)-1]
	for _, c := range now.classes {
		for device, times := range t.tagged[c.Devices] {
			for _, x := range times {
				if x <= at && keepsLonger(now.at(device, x-1).Keep, now.at(device, x).Keep) {
					last = max(last, x)
				}
			}
		}
	}
	return last
}

// asOf returns a tenant that hides what it hid at a time: without classes by tag that devices came to later, and
// without the first visible days, which are of when the retention was set last.
func (t Tenant) asOf(at int64) Tenant {
	t.known, t.policies = at, slices.Clone(t.policies)
	for i := range t.policies {
		t.policies[i].classes = slices.Clone(t.policies[i].classes)
		for k := range t.policies[i].classes {
			t.policies[i].classes[k].First = 0
		}
	}
	return t
}

// Hides reports whether the pass deletes a device's chunks of a day.
func (s Sweep) Hides(device string, day telemetry.Day) bool { return s.of.Hides(device, day, s.UpTo) }

// hidesSince reports whether some device's day was hidden between two passes.
func (t Tenant) hidesSince(day telemetry.Day, pass Sweep) bool {
	return slices.ContainsFunc(t.policies, func(p retentionPolicy) bool {
		return slices.ContainsFunc(p.classes, func(c RetentionClass) bool {
			return day < p.firstVisible(c, pass.UpTo) && (pass.Done == 0 || day >= p.firstVisible(c, pass.Done))
		})
	})
}

// ReadSweep returns how far the hidden days of a tenant were deleted.
func ReadSweep(ctx context.Context, docs store.Documents, tenant string) (Sweep, error) {
	s := Sweep{tenant: tenant}
	d, found, err := docs.Read(ctx, KindSweep, tenant)
	if err != nil || !found {
		return s, err
	}
	s.etag = d.ETag
	return s, d.Decode(&s)
}

// Store stores how far the days were deleted. Where another process was faster it fails.
func (s *Sweep) Store(ctx context.Context, docs store.Documents) (err error) {
	d := store.NewDocument(KindSweep, s.tenant, *s)
	d.ETag = s.etag
	if s.etag, err = store.Put(ctx, docs, d); err != nil {
		return fmt.Errorf("store the sweep of %s: %w", s.tenant, err)
	}
	return nil
}
