package loadtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/cosmos"
	"binnacle/internal/settings"
	"binnacle/internal/store"
	"binnacle/internal/text/progress"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

// Target says how layouts are put on a real account. Its tags are package settings's.
type Target struct {
	RUs     int           `name:"target-rus" help:"Throughput of the container of each layout, in RU/s, 400 to 100000. From 6100 on there are several physical partitions." default:"1000" placeholder:"RU/S"`
	Time    time.Duration `name:"target-time" help:"Longest time for which a layout is written, 1s to 1h." default:"1m"`
	Layouts []Layout      `name:"target-layout" help:"Layouts to compare, by their names in --json." default:"tenant-device,hundred,binnacle" placeholder:"LAYOUT"`
}

// TargetPrefix begins the names of the containers that a run makes on a real account.
const TargetPrefix = "loadtest-"

// leastBurst is the RU that may be offered at once: more than one document takes.
const leastBurst = 50

// mostInFlight bounds the writes that wait for an answer, or for their next attempt.
const mostInFlight = 128

// TargetReport is what an account has done with the readings. Dollars are the list price of the containers.
type TargetReport struct {
	Scenario Scenario       `json:"scenario"`
	Devices  int            `json:"devices"`
	RUs      int            `json:"ru_per_second_bought"`
	Model    string         `json:"ru_model"`
	Dollars  float64        `json:"dollars"`
	Seconds  float64        `json:"wall_seconds"`
	Layouts  []TargetResult `json:"layouts,omitempty"`
}

// targetLayouts returns the layouts that can be put on a real account: the balancer's needs a load that was measured.
func targetLayouts() []Layout {
	return slices.DeleteFunc(allLayouts(), func(l Layout) bool { return l == Balanced })
}

// ValidateTarget reports every fault of a run on an account at once.
func (c Config) ValidateTarget(t Target) error {
	faults := settings.Faults{c.Validate()}
	faults.Check(len(c.Scenarios) == 1 && slices.Contains([]Scenario{Uniform, Whale, Zipf, HotDevice}, c.Scenarios[0]),
		"a target takes one of the scenarios uniform, whale, zipf and hot-device")
	faults.Check(t.RUs >= 400 && t.RUs <= 100_000 && t.RUs%100 == 0,
		"--target-rus %d: 400 to 100000 in steps of 100 are allowed", t.RUs)
	faults.Check(t.Time >= time.Second && t.Time <= time.Hour, "--target-time %s: 1s to 1h are allowed", t.Time)
	faults.Check(len(t.Layouts) > 0, "--target-layout is empty")
	for i, l := range t.Layouts {
		faults.Check(slices.Contains(targetLayouts(), l) && !slices.Contains(t.Layouts[:i], l),
			"--target-layout %q: each of %q is allowed once", l, targetLayouts())
	}
	return faults.Err()
}

// Dollars returns the list price of the containers of a run: each is billed for an hour at least.
func (t Target) Dollars() float64 {
	hours := max(1, t.Time.Hours())
	return float64(len(t.Layouts)) * hours * ru.Price(ru.Priced{RUs: float64(t.RUs)}).Most / ru.HoursPerMonth
}

// targetRun is a run on an account. Its name begins the names of what it makes.
type targetRun struct {
	Target
	cfg    Config
	client *cosmos.Client
	name   string
}

// RunTarget puts the layouts on an account, one after another, each in a container that it makes and deletes.
func RunTarget(ctx context.Context, cfg Config, t Target, client *cosmos.Client) (report TargetReport, err error) {
	if err := cfg.ValidateTarget(t); err != nil {
		return report, err
	}
	cfg = cfg.withDefaults()
	report = TargetReport{Scenario: cfg.Scenarios[0], Devices: cfg.Devices, RUs: t.RUs, Model: cfg.Model.String(),
		Dollars: t.Dollars()}
	r := targetRun{Target: t, cfg: cfg, client: client, name: TargetPrefix + strings.ToLower(rand.Text()) + "-"}
	began := time.Now()
	if report.Layouts, err = r.layouts(ctx); err != nil {
		return report, err
	}
	report.Seconds = round(time.Since(began).Seconds())
	return report, nil
}

func (r *targetRun) layouts(ctx context.Context) (out []TargetResult, err error) {
	if err := r.client.EnsureShared(ctx, store.Throughput{}); err != nil {
		return nil, err
	}
	bar := progress.New(r.cfg.Progress, "layouts", int64(len(r.Layouts)))
	defer bar.Clear()
	for _, l := range r.Layouts {
		var chunks []writtenChunk
		if l == Binnacle {
			made, err := pass{cfg: r.cfg, scenario: r.cfg.Scenarios[0], layout: l}.run(ctx)
			if err != nil {
				return nil, fmt.Errorf("make the chunks: %w", err)
			}
			chunks = made.written
		}
		result, err := r.measure(ctx, l, chunks)
		if err != nil {
			return nil, fmt.Errorf("layout %s: %w", l, err)
		}
		out = append(out, result)
		bar.Add(1)
	}
	return out, nil
}

// measure makes the container of a layout, writes to it, and deletes it. It deletes it also where the creation has
// failed: the account may have made the container all the same, and no one else has one of this name.
func (r *targetRun) measure(ctx context.Context, l Layout, chunks []writtenChunk) (out TargetResult, err error) {
	layout, containers := l.container(), r.client.Containers()
	layout.Name = r.name + string(l)
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if gone := containers.Delete(bounded, layout.Name); gone != nil {
			err = errors.Join(err, fmt.Errorf("container %s is billed until it is deleted: %w", layout.Name, gone))
		}
	}()
	if err := containers.CreateAs(ctx, layout, store.Throughput{RUs: r.RUs}); err != nil {
		return out, err
	}
	ranges, err := r.client.RangesOf(ctx, layout.Name)
	if err != nil {
		return out, err
	}
	w := &targetWriter{layout: l, model: r.cfg.Model, index: len(layout.Indexed) + 1,
		items: r.client.Items(layout.Name), ranges: ranges, byRange: make([]float64, len(ranges)),
		pace: rate.NewLimiter(rate.Limit(utilisation*float64(r.RUs)), max(leastBurst, r.RUs/20))}
	began := time.Now()
	if err := r.write(ctx, w, chunks); err != nil {
		return out, err
	}
	return w.result(time.Since(began)), nil
}

// write offers documents in the order of the readings, as fast as the throughput allows, until time is over.
func (r *targetRun) write(ctx context.Context, w *targetWriter, chunks []writtenChunk) error {
	timed, cancel := context.WithTimeout(ctx, r.Time)
	defer cancel()
	work, sending := errgroup.WithContext(timed)
	work.SetLimit(mostInFlight)
	err := r.documents(w.layout, chunks, func(d document) error {
		if err := w.wait(sending, &d); err != nil {
			return err
		}
		work.Go(func() error { return w.store(ctx, sending, d) })
		return nil
	})
	if failed := work.Wait(); failed != nil {
		return failed
	}
	if errors.Is(err, errOver) {
		return ctx.Err()
	}
	return err
}

// documents calls yield with the documents of the window, or with the chunks that Binnacle has made of its readings.
func (r *targetRun) documents(l Layout, chunks []writtenChunk, yield func(document) error) error {
	if l == Binnacle {
		for _, c := range chunks {
			key := []string{c.key.TenantShard, c.key.Device}
			if err := yield(document{key: key, id: c.id, body: c.doc, readings: c.readings}); err != nil {
				return err
			}
		}
		return nil
	}
	from := source{layout: l, load: newLoad(r.cfg, r.cfg.Scenarios[0]), bins: newJSONBins(r.cfg)}
	if err := from.settle(r.cfg.opens(), false); err != nil {
		return err
	}
	return from.until(r.cfg.opens().Add(r.cfg.Window), yield)
}
