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
		Factors: cfg.Factors, PhysicalPartitions: physicalPartitions,
		Paces: make([]PaceResult, len(cfg.Paces)),
	}
	bar := progress.New(cfg.Progress, "seconds of fleet time", cfg.seconds())
	tick := func() { bar.Add(1) }
	defer bar.Clear()
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0)) // layouts do not know of each other, nor do paces
	for _, s := range cfg.Scenarios {
		results := make([]Result, len(layouts))
		report.Outcomes = append(report.Outcomes, Outcome{s, results})
		for i, l := range layouts {
			work.Go(func() (err error) {
				p := pass{cfg: cfg, scenario: s, layout: l, metrics: metrics, tick: tick}
				if results[i], err = p.measure(ctx); err != nil {
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

// measure runs the pass twice: without budgets, to see what the load asks for, and with what is then bought.
func (p pass) measure(ctx context.Context) (Result, error) {
	free, err := p.run(ctx)
	if err != nil {
		return Result{}, err
	}
	if err := free.check(); err != nil {
		return Result{}, err
	}
	p.rus = int(buy(free.need()))
	bound, err := p.run(ctx)
	if err != nil {
		return Result{}, err
	}
	if err := bound.whole(); err != nil {
		return Result{}, err
	}
	return newResult(p.layout, free, bound), nil
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
