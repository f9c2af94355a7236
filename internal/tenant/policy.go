package tenant

import (
	"fmt"
	"slices"
	"time"

	"binnacle/internal/telemetry"
)

// retentionPolicy is the classes that were set at one time. A device belongs to the first one that matches; the last
// one matches all.
type retentionPolicy struct {
	until   int64 // ms since 1970 UTC: when the next one was set; 0 for the current one
	classes []RetentionClass
	// tagged holds the tags of the tenant's devices.
	tagged taggedTimes
	// began is when the first policy began, in ms since 1970 UTC, where one before it was dropped. Earlier releases
	// dropped what keeps as long as the last one, and so what devices had before they came to a class by tag.
	began int64
}

var errPolicies = fmt.Errorf("%w: its retention was changed too often", ErrTooMany)

func (p retentionPolicy) at(device string, at int64) RetentionClass {
	return classOf(p.classes, device, func(class string) bool { return p.tagged.has(class, device, at) })
}

// retentionSet is what was last set of a tenant's retention.
type retentionSet struct {
	classes []RetentionClass
	begins  int64 // ms since 1970 UTC: when the classes come into force
}

// setOf returns what was set last of all policies, which may be none.
func setOf(policies []retentionPolicy) (out retentionSet) {
	if n := len(policies); n > 0 {
		out.classes = policies[n-1].classes
		if n > 1 {
			out.begins = policies[n-2].until
		}
	}
	return out
}

// coversDay reports whether chunks of a day may have been written under the policy.
func (p retentionPolicy) coversDay(day telemetry.Day) bool { return p.until == 0 || day <= p.lastDay() }

func (p retentionPolicy) lastDay() telemetry.Day {
	return telemetry.DayOf(p.until + retentionLead.Milliseconds())
}

// firstVisible returns the first day that a class of the policy does not hide at now.
func (p retentionPolicy) firstVisible(c RetentionClass, now int64) telemetry.Day {
	first, since := c.First, now-c.Keep.Milliseconds()
	if c.Keep > 0 && since > 0 {
		first = max(first, telemetry.DayOf(since))
	}
	if p.until > 0 {
		// A device that has left a class by tag is not concerned by what the class hides later.
		first = min(first, p.lastDay()+1)
	}
	return first
}

// longest returns the longest retention of any class; 0 never ends.
func (p retentionPolicy) longest() (longest time.Duration) {
	for _, c := range p.classes {
		if c.Keep <= 0 {
			return 0
		}
		longest = max(longest, c.Keep)
	}
	return longest
}

// begunBy returns the policies that have begun by a time, in ms since 1970 UTC; the first one always has.
func begunBy(policies []retentionPolicy, at int64) []retentionPolicy {
	n := len(policies)
	for n > 1 && policies[n-2].until > at {
		n--
	}
	return policies[:n]
}

// withoutRepeats leaves out policies with the classes of the last one that has begun by a time that keep as long or
// longer: that one covers more days. Those by tag stay, since which devices they had depends on when, and those before
// them, which say when they began. The one before the last stays, since a sweep goes by when it ended.
func withoutRepeats(policies []retentionPolicy, begun int64) (out []retentionPolicy) {
	before := len(begunBy(policies, begun)) - 1
	last, former := policies[before], max(before-1, 0)
	for i, p := range policies[:former] {
		if len(tagsOf(policies[i+1].classes)) > 0 ||
			!slices.EqualFunc(p.classes, last.classes, RetentionClass.keepsAsLong) {
			out = append(out, p)
			continue
		}
		for k := range p.classes {
			last.classes[k].First = max(last.classes[k].First, p.classes[k].First)
		}
	}
	return append(out, policies[former:]...)
}

// policiesOf returns the policies of a tenant document, the current one last; nil if it has had only one.
func policiesOf(b tenantBody) (out []retentionPolicy, err error) {
	for i, p := range b.Retention {
		x := retentionPolicy{until: p.Until, tagged: b.Tagged}
		for _, c := range p.Classes {
			x.classes = append(x.classes, RetentionClass{c.Devices, time.Duration(c.Seconds) * time.Second, c.First})
		}
		isLast := i == len(b.Retention)-1
		if n := len(x.classes); n == 0 || x.classes[n-1].Devices != allDevices || isLast != (p.Until == 0) {
			return nil, fmt.Errorf("retention %d is damaged", i)
		}
		out = append(out, x)
	}
	if len(out) > 0 {
		out[0].began = b.Tagged.first(tagsOf(out[0].classes)) // no tenant is registered with classes by tag
	}
	return out, nil
}
