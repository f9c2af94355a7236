package loadtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"binnacle/internal/charges/ru"
	"binnacle/internal/text/progress"
	"binnacle/sharding"

	"golang.org/x/sync/errgroup"
)

// Run puts the load on every layout, in every scenario. It returns when that is done, or ctx has ended.
func Run(ctx context.Context, cfg Config) (Report, error) {
	if err := cfg.Validate(); err != nil {
		return Report{}, err
	}
	cfg = cfg.withDefaults()
	report := Report{
		Devices: cfg.Devices, IntervalSeconds: cfg.Interval.Seconds(), HoldSeconds: cfg.Hold.Seconds(),
		WindowSeconds: cfg.Window.Seconds(),
		SampleSeconds: min(cfg.Sample, cfg.Window).Seconds(),
		Seed:          cfg.Seed, Model: cfg.Model.String(),
		Factors: cfg.Factors, PhysicalPartitions: cfg.Partitions,
	}
	bar := progress.New(cfg.Progress, "layouts", int64(cfg.steps()))
	defer bar.Clear()
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0)) // layouts are independent of each other
	for _, s := range cfg.Scenarios {
		layouts := cfg.layouts(s)
		results := make([]Result, len(layouts))
		report.Outcomes = append(report.Outcomes, cfg.outcome(s, results))
		for i, l := range layouts {
			if l == Balanced {
				continue // it follows from what Binnacle has done
			}
			work.Go(func() (err error) {
				p := pass{cfg: cfg.of(s), scenario: s, layout: l}
				if l == Binnacle {
					err = p.fillBoth(ctx, layouts, results, bar)
				} else {
					_, err = p.fill(ctx, &results[i])
				}
				if err != nil {
					return fmt.Errorf("scenario %s, layout %s: %w", s, l, err)
				}
				bar.Add(1)
				return nil
			})
		}
	}
	if err := work.Wait(); err != nil {
		return Report{}, err
	}
	return report, nil
}

// fillBoth measures Binnacle, and Balanced where it is among the layouts, as the balancer then places its tenants.
func (p pass) fillBoth(ctx context.Context, layouts []Layout, results []Result, bar progress.Bar) error {
	free, err := p.fill(ctx, &results[slices.Index(layouts, Binnacle)])
	i := slices.Index(layouts, Balanced)
	if err != nil || i < 0 {
		return err
	}
	p.layout = Balanced
	if p.scenario != Explodes { // there it decides as the days pass
		p.placed = free.decision.Changes
	}
	t, err := p.fill(ctx, &results[i])
	if err != nil {
		return err
	}
	bar.Add(1)
	changes := append(t.changes, p.placed...)
	results[i].Epochs = len(changes)
	if p.scenario == Explodes { // the last epoch of the tenant that grows
		other := func(c sharding.EpochChange) bool { return c.Tenant != largestTenant }
		changes = slices.DeleteFunc(changes, other)
		changes = changes[max(0, len(changes)-1):]
	}
	results[i].Keys = largest(changes)
	return nil
}

// fill measures the layout of the pass: without budgets, to see what the load asks for, and with what is bought for
// that. Where no second of a physical partition takes more than is bought, the second pass would be the first again.
func (p pass) fill(ctx context.Context, result *Result) (free totals, err error) {
	if free, err = p.run(ctx); err == nil {
		err = p.check(free)
	}
	if err != nil {
		return free, err
	}
	free.needed = p.need(free)
	p.rus = int(ru.Sold(free.needed, false))
	bound := free
	if free.calm == 0 || free.calm > float64(p.rus) {
		if bound, err = p.run(ctx); err == nil {
			err = bound.whole()
		}
	}
	if err == nil {
		*result = newResult(p.layout, free, bound)
		result.Foreseen, result.Days = round(p.foreseen(free)), p.days(free)
		err = p.tryEnough(ctx, result)
	}
	return free, err
}

// tryEnough measures a layout that refuses readings with the mean needs of its hottest physical partition, and
// with half as much again where the mean is not enough because the load moves, if such throughput is sold.
func (p pass) tryEnough(ctx context.Context, r *Result) error {
	if p.layout.chunked() || r.lost() < hardlyAny {
		return nil
	}
	for rus, tries := r.enough(r.Offered), 0; tries < 5 && rus/float64(len(r.Spread)) <= ru.PartitionRUs; tries++ {
		p.rus = int(rus)
		t, err := p.run(ctx)
		if err != nil {
			return err
		}
		r.Enough = &Enough{rus, round(ru.Price(ru.Priced{RUs: rus}).Most), round(float64(t.stored) / t.seconds)}
		if r.Enough.missing(*r) < hardlyAny {
			return nil
		}
		rus = ru.Sold(1.5*rus, false)
	}
	return nil
}

// need returns the RU/s that the load takes: the average over the utilisation. It leaves out readings beyond
// the foreseen ones.
func (p pass) need(t totals) float64 {
	return t.charged() / float64(t.stored) * p.foreseen(t) / utilisation
}

// foreseen returns how many readings a second throughput is bought for.
func (p pass) foreseen(t totals) float64 {
	if p.scenario.surges() {
		return p.cfg.perSecond()
	}
	return float64(t.offered) / t.seconds
}

var errNothing = errors.New("nothing was written in the time that was measured: measure longer")

// check reports what is wrong with a pass without budgets.
func (p pass) check(t totals) error {
	if t.stored == 0 {
		return errNothing
	}
	return t.whole()
}

// whole reports readings that are not stored though all bins were cut.
func (t totals) whole() error {
	if t.drained != t.taken {
		return fmt.Errorf("%d readings were taken and %d are stored", t.taken, t.drained)
	}
	return nil
}
