package simulation_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/provision"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/sharding"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// written is what is stored of one tenant's day.
type written struct {
	gb    float64
	in    *container
	until int64 // ms, when the last of its chunks vanishes
}

// world is one run.
type world struct {
	*fleet
	policy     provision.Policy
	random     *rand.Rand
	now        time.Time
	minute     int
	retention  [tenants]time.Duration
	places     [3]*sharding.Placement // of the tenant that moves: before, with its own, and back
	shared     [tenants]*sharding.Placement
	containers map[string]*container
	all        []*container // those that are gone as well
	hot        []*container
	months     map[string]control.Month
	changes    []time.Time
	today      [tenants]*container
	yesterday  [tenants]*container
	scale      [tenants]float64
	asks       [tenants]float64
	days       [tenants][]written
	moves      []float64 // RU/s by minute of the tenant that moves
	sum        bill
	faults     []string
}

func newWorld(policy provision.Policy, seed uint64) *world {
	random := rand.New(rand.NewPCG(seed, 19))
	w := &world{fleet: newFleet(random), policy: policy, random: random, now: begin,
		containers: map[string]*container{}, months: map[string]control.Month{}}
	for i := range tenants {
		w.retention[i] = time.Duration(30+random.IntN(370)) * 24 * time.Hour
		w.days[i] = make([]written, years)
		w.shared[i] = placement(i)
	}
	w.retention[0] = 400 * 24 * time.Hour
	first := telemetry.DayOf(begin.UnixMilli())
	own := sharding.Epoch{From: first + telemetry.Day(w.own), Slots: []sharding.Slot{1, 77, 140, 200}, Dedicated: true}
	back := sharding.Epoch{From: first + telemetry.Day(w.back), Slots: []sharding.Slot{1, 77, 140, 200}}
	w.places = [3]*sharding.Placement{placement(moving), placement(moving, own), placement(moving, own, back)}
	return w
}

func placement(i int, later ...sharding.Epoch) *sharding.Placement {
	name := fmt.Sprintf("tenant-%d", i)
	p, err := sharding.NewPlacement(name, append(later, sharding.FirstEpoch(name, 4)))
	if err != nil {
		panic(err)
	}
	return p
}

// tenant returns what is stored about a tenant. Epochs are stored two days ahead.
func (w *world) tenant(i int) tenant.Tenant {
	p := w.shared[i]
	if day := w.minute / dayMinutes; i == moving && day >= w.back-2 {
		p = w.places[2]
	} else if i == moving && day >= w.own-2 {
		p = w.places[1]
	}
	return tenant.Tenant{Name: p.Tenant(), Retention: w.retention[i], Placement: p, Created: begin}
}

func (w *world) fault(format string, args ...any) {
	w.faults = append(w.faults, w.now.Format("2006-01-02 15:04 ")+fmt.Sprintf(format, args...))
}

// round does what a round of the provisioner does: it sees what is there, plans, and applies what need not wait.
func (w *world) round() {
	found := provision.Found{Loads: map[string]provision.Load{}, Changed: map[string]time.Time{}}
	for _, c := range w.containers {
		found.Containers = append(found.Containers, c.state)
		found.Changed[c.state.Name] = c.changed
	}
	for _, c := range w.hot {
		if len(c.used) > 0 {
			found.Loads[c.state.Name] = c.load()
		}
	}
	for _, m := range w.months {
		found.Months = append(found.Months, m)
	}
	for i := range tenants {
		found.Tenants = append(found.Tenants, w.tenant(i))
	}
	if d := w.minute / dayMinutes; d > 0 && d >= w.own-2 && d < w.own {
		found.Moving = map[string]provision.Load{w.shared[moving].Tenant(): {RUs: w.moves, Stored: w.days[moving][d-1].gb}}
	}
	w.changes = slices.DeleteFunc(w.changes, func(at time.Time) bool { return w.now.Sub(at) >= w.policy.ChangesWithin })
	steps := w.policy.Limit(w.policy.Plan(w.now, found), w.policy.MaxContainers-1-len(w.containers),
		w.policy.MaxChanges-len(w.changes))
	for _, s := range steps {
		if s.Waits == "" {
			w.apply(s)
		}
	}
}

func (w *world) apply(s provision.Step) {
	name, state := s.Container, control.MonthState("")
	switch s.Action {
	case provision.Create:
		c := newContainer(name, s.Wanted, w.now)
		w.containers[name], w.all = c, append(w.all, c)
		state = control.MonthAsked
	case provision.Scale:
		w.scaleTo(w.containers[name], s.Wanted)
	case provision.Keep:
		state = control.MonthAsked
	case provision.Expire:
		state = control.MonthExpired
	case provision.Drop:
		state = control.MonthDropped
		if c := w.containers[name]; c != nil {
			c.gone = true
			delete(w.containers, name)
		}
	}
	if m := w.months[name]; state != "" && m.State != state {
		m.Container, m.State, m.Since = name, state, w.now
		if state == control.MonthAsked {
			m.Asked = w.now
		}
		w.months[name] = m
	}
}

func (w *world) scaleTo(c *container, t store.Throughput) {
	w.changes = append(w.changes, w.now)
	c.set(t.RUs, w.now)
}

// run runs two years.
func (w *world) run() {
	w.round()
	for w.minute = range years * dayMinutes {
		w.now = begin.Add(time.Duration(w.minute) * time.Minute)
		if w.minute%dayMinutes == 0 {
			w.newDay()
		}
		if w.minute%60 == 0 {
			w.newHour()
		}
		w.ask()
		w.follow()
		if w.minute%60 == 59 {
			for _, c := range w.containers {
				c.endHour(&w.sum)
			}
		}
	}
}

// newDay has readings of the new day go to their container, what is over vanish, and checks both.
func (w *world) newDay() {
	w.round() // what is needed by now must be there already; a fault says so below
	w.yesterday = w.today
	day := telemetry.DayOf(w.now.UnixMilli())
	for i := range tenants {
		t := w.tenant(i)
		name := t.Placement.ContainerOn(day)
		w.today[i] = w.containers[name]
		if c := w.today[i]; c == nil || c.changed.Equal(w.now) && c.hours == nil && w.minute > 0 {
			w.fault("container %s is not there when its first reading comes", name)
		}
		for d := range w.minute / dayMinutes {
			w.checkDay(i, d, &t)
		}
	}
	for _, c := range w.all {
		w.checkGone(c)
	}
	if w.minute == 0 {
		w.yesterday = w.today
	}
	w.startLate()
}

// checkDay has a day vanish when its retention is over, and reports what is missing before that, or there after.
func (w *world) checkDay(i, d int, t *tenant.Tenant) {
	x := &w.days[i][d]
	if x.in == nil {
		return
	}
	of := telemetry.DayOf(begin.UnixMilli()) + telemetry.Day(d)
	over := t.Expired(of, w.now.UnixMilli())
	switch {
	case !over && x.in.gone:
		w.fault("%s of %s is in %s, which was dropped", of, t.Name, x.in.state.Name)
	case !over && x.until <= w.now.UnixMilli():
		w.fault("%s of %s vanished before its retention was over", of, t.Name)
	case over && x.until > w.now.UnixMilli()+1000:
		w.fault("%s of %s is still answered after its retention", of, t.Name)
	case over:
		x.in.gb = max(0, x.in.gb-x.gb)
		x.in = nil
	}
}

// checkGone reports a container that should have been dropped.
func (w *world) checkGone(c *container) {
	if c.gone {
		return
	}
	kept := time.Duration(0)
	for i := range tenants {
		if c.owner == "" || c.owner == w.shared[i].Tenant() {
			kept = max(kept, w.retention[i])
		}
	}
	last := time.UnixMilli(c.span.Range().To).Add(kept + w.policy.Grace + 24*time.Hour)
	if w.now.After(last) {
		w.fault("container %s is expired and still there", c.state.Name)
	}
}

// startLate has a storm of readings of three older months come, and end.
func (w *world) startLate() {
	for _, c := range w.all {
		c.lateNow, c.stored, c.gbOfDay = 0, c.gbOfDay, 0
	}
	day := w.minute / dayMinutes
	if day < w.lateFrom/dayMinutes || day > w.lateTo/dayMinutes {
		return
	}
	for back := 2; back <= 4; back++ {
		d := day - 31*back
		if c := w.days[0][d].in; c != nil {
			c.lateNow = w.late
			w.store(0, d, w.late*86400*bytesPerRU/1e9, c)
		}
	}
}

// store has a part of a tenant's day stored now.
func (w *world) store(i, d int, gb float64, in *container) {
	of := telemetry.DayOf(begin.UnixMilli()) + telemetry.Day(d)
	x, t := &w.days[i][d], tenant.Tenant{Retention: w.retention[i]}
	x.gb, x.in = x.gb+gb, in
	x.until = max(x.until, w.now.UnixMilli()+1000*int64(t.TTL(of, w.now.UnixMilli())))
	in.gb += gb
	in.gbOfDay += gb
}

// newHour has the plan made, and what bins tell of the hours that come.
func (w *world) newHour() {
	day := w.now.Day()
	if w.minute%360 == 0 || day < 3 || day > 27 || w.minute/dayMinutes >= w.own-3 && w.minute/dayMinutes < w.own+2 {
		w.round()
	}
	w.hot = w.hot[:0]
	for _, c := range w.all {
		c.writes, c.next = 0, 0
		if !c.gone && (w.policy.Tier(c.span, w.now) == provision.Hot || c.lateNow > 0 || c.late > 0) {
			w.hot = append(w.hot, c)
			w.remember(c)
		}
	}
	const seconds = 3600
	for i := range tenants {
		t := &w.tenants[i]
		w.scale[i], w.asks[i] = t.scale(w.minute), t.asks(w.minute)
		for h := range 2 {
			at := w.minute + 60*h
			if at/dayMinutes != w.minute/dayMinutes {
				break
			}
			full, rest, _ := w.inHour(i, at)
			error := 1 + 0.05*w.random.NormFloat64()
			if h == 0 {
				w.today[i].writes, w.yesterday[i].writes = w.today[i].writes+full*error, w.yesterday[i].writes+rest
			} else {
				w.today[i].next, w.yesterday[i].next = w.today[i].next+full*error, w.yesterday[i].next+rest
			}
		}
		full, rest, _ := w.inHour(i, w.minute)
		w.store(i, w.minute/dayMinutes, full*seconds*bytesPerRU/1e9, w.today[i])
		if d := w.minute/dayMinutes - 1; d >= 0 && w.days[i][d].in != nil && rest > 0 {
			w.store(i, d, rest*seconds*bytesPerRU/1e9, w.yesterday[i])
		}
	}
}

// inHour returns a tenant's mean RU/s of an hour.
func (w *world) inHour(i, at int) (full, rest, queries float64) {
	for m := at; m < at+60; m += 1 {
		a, b, c := w.at(i, m, w.scale[i], w.asks[i])
		full, rest, queries = full+a/60, rest+b/60, queries+c/60
	}
	return full, rest, queries
}

// remember gives a new container the load of the one before it, of the days that were not its own.
func (w *world) remember(c *container) {
	if len(c.used) > 0 || w.now.Before(time.UnixMilli(c.span.Range().From)) {
		return
	}
	for _, before := range w.hot {
		if before != c && before.owner == c.owner && before.span.Next() == c.span && len(before.used) > 0 {
			c.used = append(c.used, before.used[max(0, len(before.used)-window):]...)
			c.throttled = make([]int64, len(c.used))
		}
	}
}

// ask has all tenants ask, and the containers serve.
func (w *world) ask() {
	boom := &w.tenants[exploding]
	if w.minute == boom.explodes || w.minute == boom.calms {
		w.scale[exploding] = boom.scale(w.minute)
	}
	for i := range tenants {
		full, rest, queries := w.at(i, w.minute, w.scale[i], w.asks[i])
		w.today[i].asked += full + queries
		w.yesterday[i].asked += rest
		if d := w.minute / dayMinutes; i == moving && d >= w.own-4 && d < w.own {
			w.moves = append(w.moves, full+queries+rest)
		}
	}
	excused := w.minute >= boom.explodes && w.minute < boom.explodes+60
	for _, c := range w.hot {
		if len(c.used) > 0 || c.asked > 0 || c.lateNow > 0 {
			c.minute(excused)
		}
	}
}

// follow has the throughput of hot containers follow their load, by the rule that Plan has. It is asked where it can
// tell something new: a plan by the minute takes longer than all else.
func (w *world) follow() {
	if w.policy.Follow == nil {
		return
	}
	now := w.now.Add(time.Minute) // when the minute is over
	for _, c := range w.hot {
		n := len(c.used)
		if n == 0 || now.UnixMilli() >= c.span.Range().To+w.policy.HotFor.Milliseconds() || c.lateNow > 0 {
			continue
		}
		busy := c.throttled[n-1] > 0 || c.used[n-1] > 0.9*float64(c.state.Throughput.RUs)
		if at := now.Minute(); !busy && at%10 != 1 && at < 58 {
			continue
		}
		if rus, _ := w.policy.Follow.Wanted(now, c.state, c.load(), c.changed); rus != c.state.Throughput.RUs {
			c.set(rus, now)
		}
	}
}
