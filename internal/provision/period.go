package provision

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/tenant"
	"binnacle/sharding"
)

// ErrPeriod says that the period that is set is refused.
var ErrPeriod = errors.New("the period of containers can't be set")

// endless is the retention assumed for tenants that keep their readings without end.
const endless = 10 * 365 * 24 * time.Hour

// leastDays is the fewest days that a container of a period has.
var leastDays = map[sharding.Period]int{sharding.Year: 365, sharding.Quarter: 90, sharding.Month: 28, sharding.Week: 7,
	sharding.Day: 1}

// CheckPeriod returns an error if the containers of a period would be more than the account may have, once tenants
// have had them for the whole retention.
func (p Policy) CheckPeriod(period sharding.Period, tenants []tenant.Tenant, others int) error {
	room := p.MaxContainers - others
	if n := p.containers(period, tenants); n > room {
		return fmt.Errorf("%w: containers of a %s would be %d, for as long as tenants keep readings (for ever counts as ten "+
			"years): the account has room for %d; take a longer period, or a shorter retention", ErrPeriod, period, n, room)
	}
	return nil
}

// containers returns how many containers of a period there will be: containers for the longest retention among
// tenants that share them, containers of each tenant that has its own, and a container of rollups for each.
func (p Policy) containers(period sharding.Period, tenants []tenant.Tenant) int {
	shared, all := time.Duration(0), 0
	spans := func(retention time.Duration) int {
		const around = 3 // the one of now, the next one, and the one that the oldest day lies in
		return int((retention+p.Grace).Hours()/24)/leastDays[period] + around
	}
	for _, t := range tenants {
		kept := t.Retention
		if kept <= 0 {
			kept = endless
		}
		if epochs := t.Placement.Epochs(); epochs[len(epochs)-1].Dedicated {
			all += spans(kept)
		} else {
			shared = max(shared, kept)
		}
	}
	all += spans(shared)
	if p.RollupsRUs > 0 {
		all *= 2
	}
	return all
}

// NextPeriod returns the length that containers get, whether they share throughput, and the first day of both, if a
// round would change that now. It fails with ErrPeriod where it can't be. Containers of a serverless account are as if
// they shared throughput; once it is provisioned they don't.
func (p *Provisioner) NextPeriod(ctx context.Context) (e sharding.PeriodEpoch, ok bool, err error) {
	if p.cfg.Period == "" && p.cfg.Profile == "" && !p.isServerless && !p.cfg.Directory.Snapshot().Period().Shared {
		return e, false, nil
	}
	v, err := p.cfg.Directory.Refresh(ctx)
	if err != nil {
		return e, false, err
	}
	if p.cfg.Profile != Auto {
		if e, ok = p.nextLike(v, 0); !ok {
			return e, false, nil
		}
	}
	seen, err := p.observe(ctx)
	if err != nil {
		return e, false, err
	}
	peak, err := p.sharedPeak(ctx, seen, p.cfg.Now())
	if err != nil {
		return e, false, err
	}
	return p.nextPeriod(v, peak)
}

func (p *Provisioner) nextLike(v *control.Snapshot, peak float64) (sharding.PeriodEpoch, bool) {
	return p.cfg.Directory.NextPeriod(v, p.like(v, peak), p.cfg.Now().UTC())
}

func (p *Provisioner) nextPeriod(v *control.Snapshot, peak float64) (e sharding.PeriodEpoch, ok bool, err error) {
	if len(v.Damage()) > 0 {
		return e, false, nil // some tenants are not known
	}
	if e, ok = p.nextLike(v, peak); !ok {
		return e, false, nil
	}
	if e.Shared && p.shared.none && !p.isServerless {
		return e, true, fmt.Errorf("%w: --profile small needs a database with throughput for its containers to share, which "+
			"is chosen when it is made, and this one has none; --period year makes few containers here", ErrPeriod)
	}
	others := 1 // the database
	for name := range p.known {
		if owner, _, ok := sharding.ParseContainer(chunksOf(name)); !ok {
			others++
		} else if _, known := v.Tenant(owner); !known && owner != "" {
			others++
		}
	}
	tenants := v.Tenants()
	if p.cfg.Comes != nil {
		tenants = append(tenants, *p.cfg.Comes)
	}
	return e, true, p.cfg.Policy.CheckPeriod(e.Period, tenants, others)
}

// SetPeriod stores the period that is set, unless it was decided already. It fails with ErrPeriod if it can't be.
func (p *Provisioner) SetPeriod(ctx context.Context) error {
	e, ok, err := p.NextPeriod(ctx)
	if err != nil || !ok {
		return err
	}
	return p.cfg.Actions.Do(ctx, control.Action{Verb: "period set", Object: e.From.String(),
		Detail: map[string]string{"period": string(e.Period), "shared": strconv.FormatBool(e.Shared)},
	}, func(*control.Action) error { return p.cfg.Directory.SetPeriod(ctx, e) })
}
