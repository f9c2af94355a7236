package provision

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/sharding"
)

// Found is what a plan is made of.
type Found struct {
	// ReadAt is when the read of Months and Tenants began; zero: now.
	ReadAt     time.Time
	Containers []store.ContainerState // the account's
	// Months are the requested ones.
	Months  []control.Month
	Tenants []tenant.Tenant
	Comes   *tenant.Tenant // a tenant as it will be registered; nil where that is not known
	// Periods are in the order of their days.
	Periods []sharding.PeriodEpoch
	Base    []store.ContainerState // the containers that every account has
	// New are the containers of the account that this process has just made.
	New []string
	// Serverless says that the account is serverless: containers are made without throughput.
	Serverless bool
	// SharedPeak is the RU/s that containers which share throughput took in the busiest minute of the last day.
	SharedPeak float64
	// Loads are the loads of hot containers, by name.
	Loads map[string]Load
	// Moving are the loads of tenants that leave the shared containers, by name: their parts of these.
	Moving map[string]Load
	// Changed is when throughput was last changed, or when the process started.
	Changed map[string]time.Time
}

// Plan returns what to do with every container: the existing ones, the requested ones, and containers that the
// tenants will need soon. It is a pure function. The steps are in the order of months and names; Limit decides in
// which order they are done, and which must wait.
func (p Policy) Plan(now time.Time, of Found) []Step {
	pl := planner{now: now, policy: p, tenants: of.Tenants, of: of, seen: make(map[string]store.ContainerState),
		months: make(map[string]control.Month)}
	var names []string
	for _, s := range of.Containers {
		pl.seen[s.Name] = s
		names = append(names, s.Name)
	}
	for _, m := range of.Months {
		pl.months[m.Container] = m
		names = append(names, m.Container)
	}
	soon := pl.neededSoon()
	names = append(names, soon...)
	for _, b := range of.Base {
		names = append(names, b.Name)
	}
	if p.RollupsRUs > 0 {
		for _, name := range names[:len(names):len(names)] {
			if _, _, ok := sharding.ParseContainer(name); ok {
				names = append(names, sharding.RollupsContainer(name))
			}
		}
	}
	slices.Sort(names)

	var steps []Step
	for _, name := range slices.Compact(names) {
		if step, ok := pl.step(name, slices.Contains(soon, chunksOf(name))); ok {
			steps = append(steps, step)
		}
	}
	pl.boundShared(steps)
	first := firstDays(steps)
	slices.SortStableFunc(steps, func(a, b Step) int { return cmp.Compare(first[a.Container], first[b.Container]) })
	return steps
}

// chunksOf returns the container of the chunks that a container of rollups belongs to; any other is itself.
func chunksOf(container string) string {
	if owner, s, ok := sharding.ParseRollupsContainer(container); ok {
		return sharding.Container(owner, s)
	}
	return container
}

// firstDay returns the first day of a container, or one before all of them for a base container.
func firstDay(container string) telemetry.Day {
	_, s, ok := sharding.ParseContainer(chunksOf(container))
	if !ok {
		return math.MinInt32
	}
	return s.First
}

func firstDays(steps []Step) map[string]telemetry.Day {
	out := make(map[string]telemetry.Day, len(steps))
	for i := range steps {
		out[steps[i].Container] = firstDay(steps[i].Container)
	}
	return out
}

type planner struct {
	now     time.Time
	policy  Policy
	tenants []tenant.Tenant
	of      Found
	seen    map[string]store.ContainerState
	months  map[string]control.Month
}

// neededSoon returns the containers that readings of now and of the time ahead go to.
func (pl *planner) neededSoon() []string {
	at := pl.now.UnixMilli()
	ahead := telemetry.Range{From: at, To: at + max(pl.policy.Ahead.Milliseconds(), 1)}
	var names []string
	if len(pl.tenants) == 0 { // the first tenant will come to the shared ones
		period := sharding.Month
		if n := len(pl.of.Periods); n > 0 {
			period = pl.of.Periods[n-1].Period
		}
		for s := period.Of(telemetry.DayOf(ahead.From)); s.First.Start() < ahead.To; s = s.Next() {
			names = append(names, sharding.Container("", s))
		}
	}
	for _, t := range pl.tenants {
		for _, v := range t.Placement.Visits(nil, ahead) {
			names = append(names, v.Container)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (pl *planner) step(name string, soon bool) (step Step, ok bool) {
	seen, exists := pl.seen[name]
	month, known := pl.months[name]
	owner, of, ofChunks := sharding.ParseContainer(name)
	if _, _, ok := sharding.ParseRollupsContainer(name); ok {
		return pl.rollupsStep(name, chunksOf(name), soon)
	}
	if !ofChunks {
		return pl.baseStep(name), true
	}
	tier := pl.policy.Tier(of, pl.now)
	if !soon && pl.over(owner, of, month) {
		tier = Expired
	}
	step = Step{Container: name, Tier: tier, Action: None, Now: seen.Throughput, GB: seen.GB, month: month}
	step.month.Container = name
	gone := known && month.State == control.MonthDropped && !exists
	leaving := known && month.State != control.MonthAsked && !gone
	switch {
	case gone && !soon:
		return step, false
	case month.State == control.MonthDropping: // there is no way back
		step.Action, step.Why = Drop, nobodyKeeps
	case tier == Expired && leaving:
		step.Action, step.Why = Drop, nobodyKeeps
		if month.State == control.MonthExpired {
			step.Waits = pl.until(month.Since.Add(control.DropAfter))
		}
	case tier == Expired:
		step.Action, step.Why = Expire, nobodyKeeps
	case leaving, exists && !known:
		step.Action, step.Wanted, step.Why = Keep, seen.Throughput, "it is needed"
	case !exists:
		autoscale, why := pl.autoscales(owner, of)
		step.Action, step.Why = Create, why
		step.Wanted = pl.policy.birth(tier, pl.hotRUs(owner), autoscale)
		if pl.of.Serverless || pl.shares(of) {
			step.Wanted, step.Why = store.Throughput{Shared: !pl.of.Serverless, Serverless: pl.of.Serverless}, ""
		}
		if age := pl.age(tier, of); step.Why == "" {
			step.Why = age
		} else {
			step.Why = age + "; " + step.Why
		}
		if !month.Dropped.IsZero() {
			step.Waits = pl.until(month.Dropped.Add(control.ReopenAfter))
		}
	case seen.Throughput.Shared, seen.Throughput.Serverless:
		step.Wanted = seen.Throughput
	default:
		rus := 0
		rus, step.Why = pl.rus(owner, tier, seen)
		step.Wanted = pl.policy.wanted(rus, seen)
		if step.Wanted != step.Now {
			step.Action = Scale
			step.Why = cmp.Or(step.Why, pl.age(tier, of))
		}
		if seen.Pending && step.Action == Scale {
			step.Waits = "a change is under way"
		}
	}
	return step, true
}

// until returns why a step waits, empty if the containers were read at or later, with all changes made until then.
func (pl *planner) until(at time.Time) string {
	if read := cmp.Or(pl.of.ReadAt, pl.now); !read.Before(at) {
		return ""
	}
	return "until " + at.UTC().Format(time.RFC3339)
}

// nobodyKeeps is why a container goes.
const nobodyKeeps = "no tenant's retention covers it"

func (pl *planner) age(t Tier, of sharding.Span) string {
	switch t {
	case Next:
		return "readings come from " + time.UnixMilli(of.First.Start()).UTC().Format(time.DateOnly) + " on"
	case Hot:
		return "readings of now"
	}
	return fmt.Sprintf("its days ended %d days ago", telemetry.DayOf(pl.now.UnixMilli())-of.End()+1)
}

// baseStep returns what to do with a container that is not made of chunks, or with what containers share.
func (pl *planner) baseStep(name string) Step {
	seen, exists := pl.seen[name]
	step := Step{Container: name, Tier: Base, Action: None, Now: seen.Throughput, Wanted: seen.Throughput, GB: seen.GB}
	if name == store.Database {
		step = pl.sharedStep(seen)
	}
	made := store.Throughput{}
	for _, b := range pl.of.Base {
		if b.Name == name {
			made = b.Throughput
		}
	}
	if exists && !slices.Contains(pl.of.New, name) {
		pl.takeOver(&step, seen, made)
		return step
	}
	step.Action, step.Now, step.Why, step.Waits = Create, store.Throughput{}, "every account has it", ""
	if name == store.Database {
		step.Why = "containers share it"
	}
	if _, shared := pl.seen[store.Database]; shared && !exists {
		step.Wanted = store.Throughput{Shared: true}
	}
	if pl.of.Serverless {
		step.Wanted = store.Throughput{Serverless: true}
	}
	if step.Wanted == (store.Throughput{}) {
		step.Wanted = made
	}
	return step
}

// rus returns the throughput of a container that is there, and why it is that, where its load decides.
func (pl *planner) rus(owner string, t Tier, seen store.ContainerState) (rus int, why string) {
	switch {
	case t != Hot:
		return pl.policy.rus(t), ""
	case pl.policy.Follow == nil:
		return pl.policy.HotRUs, ""
	}
	_, of, _ := sharding.ParseContainer(seen.Name)
	begun := of.Range().From <= pl.now.UnixMilli()
	if load, known := pl.of.Loads[seen.Name]; known && begun {
		return pl.policy.Follow.Wanted(pl.now, seen, load, pl.of.Changed[seen.Name])
	}
	if hot := pl.hotRUs(owner); !begun && hot > seen.Throughput.RUs {
		return hot, "as the container before it"
	}
	return seen.Throughput.RUs, ""
}

// hotRUs returns the throughput with which a container of an owner becomes hot: that of the container now hot.
func (pl *planner) hotRUs(owner string) int {
	hot := 0
	for name, seen := range pl.seen {
		whose, of, ok := sharding.ParseContainer(name)
		if ok && whose == owner && of.Range().From <= pl.now.UnixMilli() && pl.now.UnixMilli() < of.Range().To {
			hot = max(hot, seen.Throughput.RUs)
		}
	}
	if pl.policy.Follow == nil || hot == 0 {
		return pl.policy.HotRUs
	}
	return hot
}

func (pl *planner) rollupsStep(name, chunks string, soon bool) (step Step, ok bool) {
	seen, exists := pl.seen[name]
	month, known := pl.months[chunks]
	step = Step{Container: name, Tier: Base, Action: None, Now: seen.Throughput, Wanted: seen.Throughput, GB: seen.GB,
		month: month}
	_, there := pl.seen[chunks]
	switch {
	case exists && !there && known && month.State == control.MonthDropped:
		step.Action, step.Wanted, step.Why = Drop, store.Throughput{}, "its chunks are gone"
	case exists:
		pl.takeOver(&step, seen, store.Throughput{RUs: pl.policy.RollupsRUs, Autoscale: true})
	case !pl.stays(chunks, soon):
		return step, false
	default:
		step.Action, step.Wanted = Create, store.Throughput{RUs: pl.policy.RollupsRUs, Autoscale: true}
		step.Why = "beside " + chunks
		if _, of, _ := sharding.ParseContainer(chunks); pl.of.Serverless || pl.shares(of) {
			step.Wanted = store.Throughput{Shared: !pl.of.Serverless, Serverless: pl.of.Serverless}
		}
	}
	return step, true
}

// stays reports whether a container of chunks is there, or about to be made, and not to be dropped.
func (pl *planner) stays(chunks string, soon bool) bool {
	s, ok := pl.step(chunks, soon)
	return ok && s.Action != Expire && s.Action != Drop && s.Waits == ""
}

// over reports whether a container belongs to no tenant any more: the retention of all tenants with an epoch in it is
// over, for its last day and the grace. Where no tenant has one the answer is no: a container is dropped for what is
// known, not for what is not. A tenant's own container is that tenant's alone: its retention decides even without an
// epoch, as when the container was made ahead and the tenant went back to the shared ones. One that was asked for
// lately is kept as well.
func (pl *planner) over(owner string, of sharding.Span, month control.Month) bool {
	grace := pl.policy.Grace
	if pl.now.Before(month.Asked.Add(grace)) {
		return false
	}
	lastDay := of.End() - 1
	name, any := sharding.Container(owner, of), false
	for _, t := range pl.tenants {
		if owner != "" && t.Name != owner {
			continue
		}
		expired := t.Expired(lastDay, pl.now.Add(-grace).UnixMilli())
		if expired && any || owner == "" && !has(t, name, of) {
			continue
		}
		if !expired {
			return false
		}
		any = true
	}
	return any
}

func has(t tenant.Tenant, name string, of sharding.Span) bool {
	return slices.ContainsFunc(t.Placement.Visits(nil, of.Range()),
		func(v sharding.Visit) bool { return v.Container == name })
}

// sharedStep returns what to do with the throughput that containers share: it follows the busiest minute of the last
// day, with headroom, and is lowered only where that saves a fifth.
func (pl *planner) sharedStep(seen store.ContainerState) Step {
	step := Step{Container: store.Database, Tier: Base, Action: None, Now: seen.Throughput, Wanted: seen.Throughput}
	need := rounded(seen, max(pl.of.SharedPeak*headroom, float64(pl.policy.SharedRUs)))
	if need > seen.Throughput.RUs || need*5 <= seen.Throughput.RUs*4 {
		step.Action, step.Wanted.RUs = Scale, need
		step.Why = fmt.Sprintf("%.0f RU/s in the busiest minute of a day", pl.of.SharedPeak)
		if seen.Pending {
			step.Waits = "a change is under way"
		}
	}
	return step
}

func (pl *planner) shares(of sharding.Span) bool {
	_, can := pl.seen[store.Database]
	return can && sharding.ShareThroughput(pl.of.Periods, of)
}

// boundShared has containers made with throughput of their own that are more than may share one.
func (pl *planner) boundShared(steps []Step) {
	sharing := 0
	for _, s := range pl.seen {
		if s.Throughput.Shared {
			sharing++
		}
	}
	for i := range steps {
		if s := &steps[i]; s.Action == Create && s.Wanted.Shared {
			if sharing++; sharing > maxShared {
				s.Wanted = store.Throughput{RUs: pl.policy.rus(s.Tier)}
			}
		}
	}
}
