package box_test

import (
	"path"
	"slices"
	"strings"
	"time"

	"binnacle/binning/chunk"
	"binnacle/ingest/decode"
	"binnacle/internal/store"
	"binnacle/internal/stream/deadletter"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// keeping is how long the readings of a tenant are kept, by what was stored when: what rules X1, X5 and X6 say.
type keeping struct {
	policies []keepPolicy // in the order in which they come into force; the first one is that of the registration
	tags     tagTimes
	set      time.Time // when a retention was set first
}

// keepPolicy is the classes that were set at one time.
type keepPolicy struct {
	begins  int64 // ms since 1970 UTC
	classes []keepClass
}

// keepClass is how long some devices are kept: of a pattern or a tag; 0 is without end.
type keepClass struct {
	devices string
	keep    time.Duration
}

// tagTimes has, by class and device, when the device got and lost the tag, in turns.
type tagTimes map[string]map[string][]int64

// Times of rule X5, in ms.
const (
	noticed   = int64(2 * time.Hour / time.Millisecond)
	underWay  = int64(orphanLife / time.Millisecond) // for how long a change may be under way to the store
	clocksOff = int64(3 * time.Second / time.Millisecond)
	feltAfter = int64(10 * time.Minute / time.Millisecond) // an ingester lists changes, which may fail, and stands still
)

// String returns the class as `tenant set --retention` has it.
func (c keepClass) String() string {
	name, keep := c.devices, "forever"
	if name == "*" {
		name = "default"
	}
	if c.keep > 0 {
		keep = c.keep.String()
	}
	return name + "=" + keep
}

// keep returns how long a device is kept at a time under a policy.
func (k *keeping) keep(p *keepPolicy, device string, at int64) time.Duration {
	for _, c := range p.classes {
		matches, _ := path.Match(c.devices, device)
		had := 0
		for _, t := range k.tags[c.devices][device] {
			if t <= at {
				had++
			}
		}
		if matches || had%2 == 1 {
			return c.keep
		}
	}
	return 0
}

// hides reports whether a day of a device is hidden at a time: each class that the device has had counts for the days
// that may have been written with it.
func (k *keeping) hides(device string, day telemetry.Day, at int64) bool {
	for i := range k.policies {
		p := &k.policies[i]
		if p.begins > at {
			break
		}
		ends := []int64{at + 1}
		if i+1 < len(k.policies) {
			ends[0] = min(at+1, k.policies[i+1].begins)
		}
		for _, devices := range k.tags {
			for _, t := range devices[device] {
				if t > p.begins && t < ends[0] {
					ends = append(ends, t)
				}
			}
		}
		for _, end := range ends {
			keep := k.keep(p, device, max(p.begins, end-1))
			if keep > 0 && day.End()+keep.Milliseconds() <= at && (end > at || day <= telemetry.DayOf(end+noticed)) {
				return true
			}
		}
	}
	return false
}

// due returns the times after now at which changes come into force, days are hidden, and sweeps may delete those.
func (o *oracle) due(now int64) (all []int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range o.b.tenants {
		for _, p := range o.keepings[name].policies {
			all = append(all, p.begins, p.begins+noticed)
			for _, c := range p.classes {
				for day := telemetry.DayOf(now) - 3; c.keep > 0 && day <= telemetry.DayOf(now); day++ {
					hidden := day.End() + c.keep.Milliseconds()
					all = append(all, hidden, hidden+noticed)
				}
			}
		}
	}
	all = slices.DeleteFunc(all, func(at int64) bool { return at <= now })
	slices.Sort(all)
	return slices.Compact(all)
}

// registered takes a tenant that is there from the beginning.
func (o *oracle) registered(name string) {
	o.keepings[name] = &keeping{policies: []keepPolicy{{classes: []keepClass{{"*", o.b.services.retention}}}}}
}

// mayHide reports whether an answer may lack the day of a reading by now, and an ingester may refuse it. The caller
// holds mu.
func (o *oracle) mayHide(s series) bool {
	k := o.keepings[s.tenant]
	return k != nil && k.hides(s.device, telemetry.DayOf(s.time), time.Now().UnixMilli()+clocksOff)
}

// mustHide reports whether a day was hidden at a time, so that no answer has it that begins later. Of a tenant with the
// retention of its registration nothing has to be hidden. The caller holds mu.
func (o *oracle) mustHide(s series, at time.Time) bool {
	k := o.keepings[s.tenant]
	return k != nil && !k.set.IsZero() && k.set.Before(at) &&
		k.hides(s.device, telemetry.DayOf(s.time), at.UnixMilli())
}

// keptDocument is what a tenant's document says of retention.
type keptDocument struct {
	Retention []struct {
		Until   int64
		Classes []struct {
			Devices string
			Seconds int64
		}
	}
	Tagged tagTimes
}

// keeps takes a tenant's document that was stored, and holds that it says what was set, and what rules X5 and X6 allow.
func (o *oracle) keeps(from *actor, d store.Document) {
	var doc keptDocument
	if err := d.Decode(&doc); err != nil {
		o.b.fail("the document of %s can't be read: %v", d.ID, err)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	k, now := o.keepings[d.ID], time.Now().UnixMilli()
	if k == nil {
		return
	}
	var said []keepPolicy
	begins := int64(0)
	for _, p := range doc.Retention {
		x := keepPolicy{begins: begins}
		for _, c := range p.Classes {
			x.classes = append(x.classes, keepClass{c.Devices, time.Duration(c.Seconds) * time.Second})
		}
		said, begins = append(said, x), p.Until
	}
	if len(said) == 0 {
		return
	}
	command := from.sets
	before, wasTagged := slices.Clone(k.policies), k.tags
	for n := len(k.policies); n > 1 && k.policies[n-1].begins > now-clocksOff; n-- {
		is := k.policies[n-1]
		if slices.ContainsFunc(said, func(p keepPolicy) bool {
			return p.begins == is.begins && slices.Equal(p.classes, is.classes)
		}) {
			break
		}
		k.policies = k.policies[:n-1] // it is taken back
	}
	last := said[len(said)-1]
	had := k.policies[len(k.policies)-1]
	if command != nil && !command.isAbout(last.classes, had.classes) || command == nil && len(k.policies) < len(before) {
		o.b.fail("%s stores %v of %s, which nobody set: it was %v", from.name, said, d.ID, before)
		return
	}
	if last.begins != had.begins && len(said) > 1 || !slices.Equal(last.classes, had.classes) {
		k.policies = append(k.policies, last)
	}
	if k.set.IsZero() {
		k.set = time.Now()
	}
	k.tags = doc.Tagged
	was := keeping{policies: before, tags: wasTagged}
	for _, device := range append(o.b.devicesOf(d.ID), "x", "x-0") {
		o.checkNotice(from, &was, k, device, now)
	}
}

// isAbout reports whether classes are those that a command sets: its own, and the default before where it has none.
func (c *setting) isAbout(classes, before []keepClass) bool {
	own := c.classes
	if n := len(own); n == 0 || own[n-1].devices != "*" {
		own = append(slices.Clone(own), before[len(before)-1])
	}
	return c.confirms || slices.Equal(own, classes)
}

// checkNotice holds that a change hides days of a device two hours later at the earliest, and because an operator said
// so. The caller holds mu.
func (o *oracle) checkNotice(from *actor, was, is *keeping, device string, now int64) {
	notice := now + noticed - underWay - clocksOff
	if from.sets == nil {
		notice = now + 1000*noticed
	}
	today := telemetry.DayOf(now)
	for day := today - 4; day <= today; day++ {
		for _, at := range []int64{now, now + noticed/2, notice - 1} {
			if is.hides(device, day, at) && !was.hides(device, day, at) {
				o.b.fail("%s has %s of %s hidden by %s: it was %v, and is %v", from.name, day, device, telemetry.Instant(at),
					was.policies, is.policies)
				return
			}
		}
	}
}

// expires takes a dead letter of readings whose retention is over. The caller holds mu.
func (o *oracle) expires(a *actor, l *deadletter.DeadLetter) bool {
	if l.Reason != decode.Expired || int(l.Offset) >= len(o.expected[l.Partition]) {
		return false
	}
	x := o.expected[l.Partition][l.Offset]
	for i, s := range x.series {
		if l.Elements != nil && !l.Elements.Has(i) {
			continue
		}
		if !o.mayHide(s) {
			o.b.fail("%s refuses %v (record %d of partition %d), which is kept: %s", a.name, s, l.Offset, l.Partition, l.Detail)
		}
		o.verdict(x.first + int64(i)).isRefused = true
	}
	return len(x.series) > 0
}

// tookExpired holds that a reading of a chunk had not to be refused when it was published. The caller holds mu.
func (o *oracle) tookExpired(a *actor, s series, x version) {
	published := o.record(place{x.partition, x.offset}).time
	if o.mustHide(s, time.UnixMilli(published-feltAfter)) {
		o.b.fail("%s stores %v (record %d of partition %d), which was hidden when it was published", a.name, s, x.offset,
			x.partition)
	}
}

// clockError is by how much an actor's idea of the service's time may be wrong, and two roundings to a second.
const clockError = 4 * time.Second

// lives holds that a chunk lives until its day is hidden. The caller holds mu.
func (o *oracle) lives(a *actor, h *chunk.Header) {
	tenant, _, _ := strings.Cut(h.TenantShard, "~")
	ends := time.Now().UnixMilli() + 1000*int64(h.TTL) + clockError.Milliseconds()
	if h.TTL > 0 && !o.keepings[tenant].hides(h.Device, h.ID.Day, ends) {
		o.b.fail("%s stores chunk %s of %s with a time to live until %s, and it is kept for longer", a.name, h.ID, h.Device,
			telemetry.Instant(ends))
	}
}

// deletes holds rule X3: the chunk's day was hidden two hours ago, and its chain has no chunk before it.
func (o *oracle) deletes(a *actor, key sharding.Key, name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	id, err := chunk.ParseID(name)
	tenant, _, _ := strings.Cut(key.TenantShard, "~")
	if err != nil || !o.keepings[tenant].hides(key.Device, id.Day, time.Now().UnixMilli()-noticed+clocksOff) {
		o.b.fail("%s deletes chunk %s of %s, which was kept two hours ago", a.name, name, key.Device)
	}
	isThere := false
	least := id.Number
	for _, h := range o.b.stores.Headers() {
		of := h.ID
		of.Number = id.Number
		if of == id && h.Device == key.Device {
			isThere, least = isThere || h.ID.Number == id.Number, min(least, h.ID.Number)
		}
	}
	if isThere && least < id.Number {
		o.b.fail("%s deletes chunk %s of %s before number %d", a.name, name, key.Device, least)
	}
}

// isKeptChunk reports whether a document of a container is a chunk that must be kept.
func (o *oracle) isKeptChunk(key sharding.Key, name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	id, err := chunk.ParseID(name)
	tenant, _, _ := strings.Cut(key.TenantShard, "~")
	k := o.keepings[tenant]
	return err != nil || k == nil || !k.hides(key.Device, id.Day, time.Now().UnixMilli())
}
