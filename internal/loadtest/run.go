package loadtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"binnacle/internal/progress"

	"golang.org/x/sync/errgroup"
)

// Run puts the load on every layout, in every scenario, has Binnacle take each pace, and floods it. It returns
// when that is done, or ctx has ended.
func Run(ctx context.Context, cfg Config) (Report, error) {
	if err := cfg.Validate(); err != nil {
		return Report{}, err
	}
	cfg = cfg.withDefaults()
	report := Report{
		Devices: cfg.Devices, IntervalSeconds: cfg.Interval.Seconds(), HoldSeconds: cfg.Hold.Seconds(),
		WindowSeconds: cfg.Window.Seconds(),
		SampleSeconds: cfg.measured(ByDate).Seconds(),
		Seed:          cfg.Seed, Model: cfg.Model.String(), OtherModel: cfg.Model.Other().String(),
		Factors: cfg.Factors, PhysicalPartitions: cfg.Partitions,
		Paces: make([]PaceResult, len(cfg.Paces)),
	}
	bar := progress.New(cfg.Progress, "seconds of fleet time", cfg.seconds())
	tick := func() { bar.Add(1) }
	defer bar.Clear()
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0)) // layouts do not know of each other, nor do paces
	for _, s := range cfg.Scenarios {
		layouts := cfg.layouts(s)
		results := make([]Result, len(layouts))
		report.Outcomes = append(report.Outcomes, Outcome{s, results})
		for i, l := range layouts {
			if l == Balanced {
				continue // it follows from what Binnacle has done
			}
			work.Go(func() (err error) {
				p := pass{cfg: cfg, scenario: s, layout: l, metrics: metrics, tick: tick}
				if err = p.fill(ctx, results[i:]); err != nil {
					return fmt.Errorf("scenario %s, layout %s: %w", s, l, err)
				}
				return nil
			})
		}
	}
	for i, p := range cfg.Paces {
		work.Go(func() (err error) {
			if report.Paces[i], err = measurePace(ctx, cfg, p, tick); err != nil {
				return fmt.Errorf("%d metrics every %s: %w", p.Metrics, p.Interval, err)
			}
			return nil
		})
	}
	if cfg.Floods {
		report.Flood = &FloodReport{Flood: cfg.Flood, Cases: make([]FloodResult, len(floodCases))}
		for i, of := range floodCases {
			work.Go(func() (err error) {
				report.Flood.Cases[i], err = measureFlood(ctx, cfg, of, tick)
				return err
			})
		}
	}
	if err := work.Wait(); err != nil {
		return Report{}, err
	}
	return report, nil
}

// fill measures the layout of the pass, and Binnacle, where Balanced follows, once more as the balancer then places its
// tenants.
func (p pass) fill(ctx context.Context, results []Result) error {
	free, err := p.free(ctx)
	if err != nil {
		return err
	}
	if results[0], err = p.measure(ctx, free); err != nil || p.layout != Binnacle || len(results) == 1 {
		return err
	}
	p.layout, p.placed = Balanced, free.decision.Changes
	if free, err = p.free(ctx); err != nil {
		return err
	}
	results[1], err = p.measure(ctx, free)
	results[1].Epochs, results[1].Keys = len(p.placed), largest(p.placed)
	return err
}

// free runs the pass without budgets, to see what the load asks for.
func (p pass) free(ctx context.Context) (totals, error) {
	t, err := p.run(ctx)
	if err == nil {
		err = t.check()
	}
	return t, err
}

// measure runs the pass with what is bought for a load.
func (p pass) measure(ctx context.Context, free totals) (Result, error) {
	p.rus, p.traced = int(buy(free.need())), p.cfg.Traced
	bound, err := p.run(ctx)
	if err == nil {
		err = bound.whole()
	}
	return newResult(p.layout, free, bound), err
}

var errNothing = errors.New("nothing was written in the time that was measured: measure longer")

// check reports what is wrong with a pass without budgets.
func (t totals) check() error {
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
