package loadtest

import (
	"context"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// Run puts the load on every layout, in every scenario. It returns when that is done, or ctx has ended.
func Run(ctx context.Context, cfg Config) (Report, error) {
	if err := cfg.Validate(); err != nil {
		return Report{}, err
	}
	report := Report{
		Devices: cfg.Devices, IntervalSeconds: cfg.Interval.Seconds(), HoldSeconds: cfg.Hold.Seconds(),
		WindowSeconds: cfg.Window.Seconds(),
		SampleSeconds: cfg.measured(ByDate).Seconds(),
		Seed:          cfg.Seed, Model: cfg.Model.String(), PhysicalPartitions: physicalPartitions,
	}
	bar := newProgress(cfg)
	defer bar.end()
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0)) // layouts do not know of each other
	for _, s := range cfg.Scenarios {
		results := make([]Result, len(layouts))
		report.Outcomes = append(report.Outcomes, Outcome{s, results})
		for i, l := range layouts {
			work.Go(func() (err error) {
				if results[i], err = measure(ctx, cfg, s, l, bar.tick); err != nil {
					return fmt.Errorf("scenario %s, layout %s: %w", s, l, err)
				}
				return nil
			})
		}
	}
	if err := work.Wait(); err != nil {
		return Report{}, err
	}
	return report, nil
}

// measure runs one layout twice: without budgets, to see what the load asks for, and with what is
// then bought.
func measure(ctx context.Context, cfg Config, s Scenario, l Layout, tick func()) (Result, error) {
	p := pass{cfg: cfg, scenario: s, layout: l, tick: tick}
	free, err := p.run(ctx)
	if err != nil {
		return Result{}, err
	}
	if free.stored == 0 {
		return Result{}, fmt.Errorf("nothing was written in %s: measure longer", cfg.measured(l))
	}
	p.rus = int(buy(free.need()))
	bound, err := p.run(ctx)
	if err != nil {
		return Result{}, err
	}
	for _, t := range []tally{free, bound} {
		if t.drained != t.taken {
			return Result{}, fmt.Errorf("%d readings were taken and %d are stored", t.taken, t.drained)
		}
	}
	return newResult(l, free, bound), nil
}
