package provision

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/retry"
	"binnacle/internal/settings"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/sharding"

	"github.com/prometheus/client_golang/prometheus"
)

// Containers manages the containers of the database. It is safe for any number of callers. An error other than
// those named leaves the outcome unknown; all of it may be asked again.
type Containers interface {
	// List returns the names of all containers.
	List(ctx context.Context) ([]string, error)
	// ReadThroughput returns what a container has, store.ErrNoContainer when it is missing.
	ReadThroughput(ctx context.Context, name string) (store.ContainerState, error)
	// Create makes a container of chunks; one that exists stays as it is. It fails with store.ErrAccountFull when
	// the account has no container left.
	Create(ctx context.Context, name string, t store.Throughput) error
	// SetThroughput changes RU/s; the mode stays.
	SetThroughput(ctx context.Context, name string, t store.Throughput) error
	// Delete drops a container and what is in it; a missing one is no error.
	Delete(ctx context.Context, name string) error
}

// Config is what a Provisioner needs. Containers, Directory and Policy have no default.
type Config struct {
	Containers Containers
	Directory  *control.Directory
	Policy     Policy
	// Period is the length of new containers; the zero one leaves it to Profile.
	Period sharding.Period
	// Comes is a tenant as it will be registered, for which there must be room too; nil where that is not known.
	Comes *tenant.Tenant
	// Profile is how throughput is bought; the zero one leaves all as it is.
	Profile Profile
	// Base are the containers that every account has, with the throughput that they have in profile Large.
	Base []store.ContainerState
	// New names the containers of Base, and the database, that were made a moment ago. The first round records that.
	New []string
	// Heat reads the load; by default the load is unknown.
	Heat Heat
	// Fresh says that there is no database yet, and that the profile decides on it: only a plan is shown.
	Fresh bool
	// Serverless says that the account is serverless. Once there are containers, they say it.
	Serverless bool

	Now func() time.Time // time.Now
	// Every is the time between two rounds.
	Every time.Duration `default:"1m"`
	// Poll is the time between reads of the control documents for containers that other processes request.
	// Callers in the same process call Wake.
	Poll time.Duration `default:"2s"`
	// Recheck is the age at which a container's throughput is read again: reading it takes three
	// requests of a scarce kind.
	Recheck time.Duration `default:"10m"`
	// Loads reads what hot containers are asked for, where Policy.Follow is set; nil for nothing.
	Loads interface {
		Of(ctx context.Context, names []string, now time.Time) (map[string]Load, error)
		// OfTenant returns the load of a tenant in a container, as of the last call of Of.
		OfTenant(tenant, container string, now time.Time) Load
	}
	// Actions records what is done to containers; nil for none.
	Actions    *control.Actions
	Lease      *control.Leases       // one process makes months and decides epochs; nil for none
	Logger     *slog.Logger          // none
	Registerer prometheus.Registerer // none
}

// Provisioner is the reconcile loop. One should run for an account; two do no harm but spend twice. Once and Run must
// not be called together; Wake may be called by anyone.
type Provisioner struct {
	cfg     Config
	metrics *metrics
	wake    chan struct{} // size 1: one unheard wish covers later ones

	// Owned by Run, or the caller of Once.
	known map[string]known
	// scaled is when the throughput of hot containers was last changed.
	scaled map[string]time.Time
	// hasReadActions reports whether scaled has the changes of the time before this process.
	hasReadActions bool
	heldAt         time.Time // when the last round of Run began that had the lease
	isBound        bool      // the last round wanted more than the ceiling lets it buy
	isServerless   bool      // the account, as of the last look
	// changed is when throughput was changed, within Policy.ChangesWithin.
	changed []time.Time
	// started holds the failed actions that are tried again, by action and container.
	started map[string]*control.StartedAction
	served  map[string]bool // containers that the last round saw or made, or has no room for
	shared  sharedLoad
	fresh   []string // Config.New, until they are recorded
}

type known struct {
	state store.ContainerState
	at    time.Time
}

// New makes a Provisioner; it fails when the policy has faults.
func New(cfg Config) (*Provisioner, error) {
	if err := cfg.Policy.Validate(); err != nil {
		return nil, fmt.Errorf("provision: %w", err)
	}
	if cfg.Containers == nil || cfg.Directory == nil {
		return nil, errors.New("provision: containers and directory must be set")
	}
	settings.Defaults(&cfg)
	if cfg.Policy.Follow != nil { // puts a round into the last minutes of each hour
		follow := *cfg.Policy.Follow
		follow.Before = max(follow.Before, cfg.Every+time.Minute)
		cfg.Policy.Follow = &follow
	}
	return &Provisioner{
		cfg: cfg, metrics: newMetrics(cfg.Registerer), wake: make(chan struct{}, 1),
		known: make(map[string]known), scaled: make(map[string]time.Time), served: make(map[string]bool),
		started: make(map[string]*control.StartedAction), fresh: slices.Clone(cfg.New), isServerless: cfg.Serverless,
	}, nil
}

// Wake makes Run look at once whether a container was asked for. It never blocks, and may be called before Run.
func (p *Provisioner) Wake() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run does a round at once, then regularly, and whenever a container is asked for, until ctx ends; then it
// returns nil. What goes wrong is logged and tried again in the next round.
func (p *Provisioner) Run(ctx context.Context) error {
	trouble := retry.Trouble{Log: p.cfg.Logger, Failing: "provision round not complete",
		Over: "provision round complete again"}
	for {
		every := retry.Paced(ctx, p.cfg.Every)
		if p.held(ctx) {
			_, err := p.Once(ctx)
			if ctx.Err() == nil {
				trouble.Report(err)
			}
			if err != nil {
				every = p.cfg.Every
			}
		}
		if !p.wait(ctx, every) {
			return nil
		}
	}
}

// held reports whether this process makes months. Where the lease can't be read it does: two that do are harmless.
func (p *Provisioner) held(ctx context.Context) bool {
	if p.cfg.Lease == nil {
		return true
	}
	held, err := p.cfg.Lease.Take(ctx, LeaseName, leaseLength)
	held = held || err != nil // a round with a wrong clock decides nothing, and reports so
	if now := p.cfg.Now(); held {
		if now.Sub(p.heldAt) >= leaseLength { // another process may have had it, and changed what is known here
			clear(p.known)
			p.hasReadActions = false
		}
		p.heldAt = now
	}
	return held
}

// keeps reports whether a round goes on: it renews the lease after half of its length, and ends with it.
func (p *Provisioner) keeps(ctx context.Context) bool {
	since := p.cfg.Now().Sub(p.heldAt)
	return p.heldAt.IsZero() || since < leaseLength/2 || since < leaseLength && p.held(ctx)
}

// leaseLength is how long another process waits for one that has died.
const leaseLength = 2 * time.Minute

// wait returns true when it is time for a round, false when ctx has ended.
func (p *Provisioner) wait(ctx context.Context, every time.Duration) bool {
	round, poll := time.NewTimer(every), time.NewTicker(retry.Paced(ctx, p.cfg.Poll))
	defer round.Stop()
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-round.C:
			return true
		case <-p.wake:
		case <-poll.C:
		}
		if p.asked(ctx) {
			return true
		}
	}
}

// asked reports whether a process has requested a container that the last round has not dealt with.
func (p *Provisioner) asked(ctx context.Context) bool {
	v, err := p.cfg.Directory.Refresh(ctx)
	if err != nil {
		return false // the next round will say so
	}
	return slices.ContainsFunc(v.Containers(), func(m control.Month) bool {
		return m.State == control.MonthAsked && !p.served[m.Container]
	})
}

// Plan observes and returns what a round would do now, in that order.
func (p *Provisioner) Plan(ctx context.Context) ([]Step, error) {
	// The snapshot is read before the containers: what it says to drop was marked long before that read began, and a
	// tenant that is not in it has read the mark (rule X4).
	v, err := p.cfg.Directory.Refresh(ctx)
	if err != nil {
		return nil, fmt.Errorf("provision: %w", err)
	}
	if err := p.cfg.Directory.CheckClock(); err != nil {
		return nil, fmt.Errorf("provision: %w", err)
	}
	seen, err := p.observe(ctx)
	if err != nil {
		return nil, fmt.Errorf("provision: %w", err)
	}
	now := p.cfg.Now()
	found := Found{ReadAt: v.ReadAt, Containers: seen, Months: v.Containers(), Tenants: v.Tenants(), Periods: v.Periods(),
		Base: p.cfg.Base, New: p.fresh, Comes: p.cfg.Comes, Serverless: p.isServerless}
	if found.SharedPeak, err = p.sharedPeak(ctx, seen, now); err != nil {
		p.cfg.Logger.WarnContext(ctx, "the load of containers that share throughput can't be read", "error", err)
	}
	if e, ok, err := p.nextPeriod(v, found.SharedPeak); err == nil && ok {
		found.Periods = append(slices.Clone(found.Periods), e)
	}
	found.Loads, found.Changed = p.loads(ctx, seen, now), p.scaled
	found.Moving = p.moving(found, now)
	steps := p.cfg.Policy.Plan(now, found)
	if p.cfg.Policy.MaxRUs <= 0 && !p.isServerless {
		p.cfg.Policy.MaxRUs = ceilingOf(steps)
	}
	if damage := v.Damage(); len(damage) > 0 {
		waitForRepair(steps, damage[0])
	}
	p.changed = slices.DeleteFunc(p.changed, func(at time.Time) bool { return now.Sub(at) >= p.cfg.Policy.ChangesWithin })
	const database = 1
	room := p.cfg.Policy.MaxContainers - database - len(seen) + len(p.fresh)
	if isShared(seen) {
		room++ // the database is among them
	}
	return p.cfg.Policy.Limit(steps, room, p.cfg.Policy.MaxChanges-len(p.changed)), nil
}

// waitForRepair makes expiries and drops wait: a tenant that is left out, as one of its documents is damaged, may be
// against them.
func waitForRepair(steps []Step, damage error) {
	for i := range steps {
		if a := steps[i].Action; a == Expire || a == Drop {
			steps[i].Waits = damage.Error()
		}
	}
}

// loads returns the loads of hot containers, nil where throughput does not follow them. Where they can't be read the
// containers stay as they are.
func (p *Provisioner) loads(ctx context.Context, seen []store.ContainerState, now time.Time) map[string]Load {
	if p.cfg.Policy.Follow == nil || p.cfg.Loads == nil {
		return nil
	}
	var hot []string
	for _, s := range seen {
		if !p.isServerless && p.cfg.Policy.follows(s, p.cfg.Base, now) {
			hot = append(hot, s.Name)
		}
	}
	p.readActions(ctx, hot, now)
	loads, err := p.cfg.Loads.Of(ctx, hot, now)
	if err != nil {
		p.cfg.Logger.WarnContext(ctx, "load of containers not read: their throughput stays", "error", err)
	}
	return loads
}

// moving returns the loads of tenants that leave the shared containers within Policy.Ahead.
func (p *Provisioner) moving(of Found, now time.Time) map[string]Load {
	out := map[string]Load{}
	today := telemetry.DayOf(now.UnixMilli())
	soon := telemetry.DayOf(now.Add(p.cfg.Policy.Ahead).UnixMilli())
	for i := range of.Tenants {
		t := &of.Tenants[i]
		from := t.Placement.ContainerOn(today)
		before, _, _ := sharding.ParseContainer(from)
		owner, _, _ := sharding.ParseContainer(t.Placement.ContainerOn(soon))
		if _, known := of.Loads[from]; known && before == "" && owner == t.Name {
			out[t.Name] = p.cfg.Loads.OfTenant(t.Name, from, now)
		}
	}
	return out
}

// readActions reads in the actions what other processes, and this one before its start, have changed. Where these can't
// be read, a container may have changed a moment ago.
func (p *Provisioner) readActions(ctx context.Context, hot []string, now time.Time) {
	var done []control.Action
	begin := now.Add(-actionsBack)
	if p.cfg.Actions != nil && !p.hasReadActions && !p.cfg.Fresh {
		var err error
		if done, err = p.cfg.Actions.List(ctx, begin); err != nil {
			p.cfg.Logger.WarnContext(ctx, "changes of throughput before this process not read", "error", err)
		}
		if p.hasReadActions = err == nil; err == nil {
			p.changed = nil // they have those of this process, too
		}
	}
	for _, a := range done {
		if a.Verb == verb(Scale) && a.Outcome == control.OutcomeDone {
			p.scaled[a.Object] = a.At
			p.changed = append(p.changed, a.At)
		}
	}
	for _, name := range hot {
		if p.scaled[name].IsZero() {
			p.scaled[name] = begin
			if !p.hasReadActions {
				p.scaled[name] = now
			}
		}
	}
}

// actionsBack is how far back actions are read: further back nothing depends on a change.
const actionsBack = time.Hour

// Once plans and applies. It returns the planned steps; one that failed is in the error, and the others were done.
func (p *Provisioner) Once(ctx context.Context) ([]Step, error) {
	var faults []error
	if err := p.SetPeriod(ctx); err != nil {
		faults = append(faults, fmt.Errorf("provision: %w", err)) // containers are needed all the same
	}
	steps, err := p.Plan(ctx)
	if err != nil {
		return nil, errors.Join(append(faults, err)...)
	}
	clear(p.served)
	for i := range steps {
		s := &steps[i]
		if s.Waits == "" && !p.keeps(ctx) {
			s.Waits = "the lease is over: the next round decides"
		}
		if s.Waits == "" {
			err = p.apply(ctx, s)
			p.metrics.step(*s, err)
			if err != nil && s.Waits == "" {
				faults = append(faults, err)
				continue
			}
		}
		p.fresh = slices.DeleteFunc(p.fresh, func(name string) bool { return name == s.Container })
		p.served[s.Container] = true
		p.report(ctx, *s)
	}
	p.metrics.round(steps)
	p.reportCeiling(ctx, steps)
	return steps, errors.Join(faults...)
}

// observe reads all containers of the database, and the throughput of those whose is not known or too old: of all where
// the account has become provisioned.
func (p *Provisioner) observe(ctx context.Context) ([]store.ContainerState, error) {
	seen, err := p.look(ctx)
	if err == nil && isMixed(seen) {
		clear(p.known)
		seen, err = p.look(ctx)
	}
	if err == nil {
		p.noteCapacity(seen)
	}
	return seen, err
}

func (p *Provisioner) look(ctx context.Context) ([]store.ContainerState, error) {
	names, err := p.cfg.Containers.List(ctx)
	if err != nil {
		return nil, err
	}
	if p.cfg.Fresh && p.cfg.Profile.Shares() && !p.isServerless {
		return []store.ContainerState{{Name: store.Database, MinRUs: p.cfg.Policy.SharedRUs,
			Throughput: store.Throughput{RUs: p.cfg.Policy.SharedRUs}}}, nil
	}
	if !p.shared.none && len(names) > 0 {
		names = append(names, store.Database)
	}
	now, fresh := p.cfg.Now(), make(map[string]known, len(names))
	var out []store.ContainerState
	for _, name := range names {
		k, ok := p.known[name]
		if !ok || k.state.Pending || now.Sub(k.at) >= p.cfg.Recheck {
			state, err := p.cfg.Containers.ReadThroughput(ctx, name)
			if errors.Is(err, store.ErrNoContainer) {
				p.shared.none = p.shared.none || name == store.Database
				continue // it was deleted a moment ago
			}
			if err != nil {
				return nil, err
			}
			k = known{state, now}
		}
		fresh[name] = k
		out = append(out, k.state)
	}
	p.known = fresh
	return out, nil
}
