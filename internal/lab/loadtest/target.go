package loadtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/cosmos"
	"binnacle/internal/kafka"
	"binnacle/internal/retry"
	"binnacle/internal/store"
	"binnacle/sharding/epk"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

// Target says how layouts are put on a real account. Its tags are package settings's.
type Target struct {
	RUs     int           `name:"target-rus" help:"Throughput of the container of each layout, in RU/s, 400 to 100000. From 6100 on there are several physical partitions." default:"1000" placeholder:"RU/S"`
	Time    time.Duration `name:"target-time" help:"Longest time for which a layout is written, 1s to 1h." default:"1m"`
	Layouts []Layout      `name:"target-layout" help:"Layouts to compare, by their names in --json." default:"tenant-device,hundred,binnacle" placeholder:"LAYOUT"`
}

// TargetPrefix is what names of containers begin with that are made in an account.
const TargetPrefix = "loadtest-"

// targetShare is the share of its throughput that a layout is offered on average.
const targetShare = utilisation

// leastBurst is the RU that may be offered at once: more than one document takes.
const leastBurst = 50

// mostInFlight bounds the writes that wait for an answer, or to be tried again.
const mostInFlight = 128

// TargetReport is what real servers have done with the readings.
type TargetReport struct {
	Scenario Scenario       `json:"scenario"`
	Devices  int            `json:"devices"`
	RUs      int            `json:"ru_per_second_bought"`
	Model    string         `json:"ru_model"`
	Dollars  float64        `json:"dollars"` // list price of the containers
	Seconds  float64        `json:"wall_seconds"`
	Layouts  []TargetResult `json:"layouts,omitempty"`
	Kafka    *KafkaResult   `json:"kafka,omitempty"`
}

// TargetResult is what was measured of a layout, by the clock on the wall. Nothing in it but Modelled is modelled.
type TargetResult struct {
	Layout     Layout    `json:"layout"`
	Partitions int       `json:"physical_partitions"`
	Documents  int       `json:"documents"`
	Readings   int       `json:"readings"`
	Offered    float64   `json:"offered_per_second"`  // readings
	Accepted   float64   `json:"accepted_per_second"` // readings
	Each       float64   `json:"ru_per_document"`
	Modelled   float64   `json:"ru_per_document_modelled"`
	PerMillion float64   `json:"ru_per_million_values"`
	Requests   int       `json:"requests"`
	Throttled  int       `json:"answered_429"`
	Lost       int       `json:"documents_not_stored"` // that were still refused when the time was over
	Hottest    float64   `json:"hottest_over_mean"`    // of physical partitions, by request units
	Latency    Quantiles `json:"latency_seconds"`      // of writes that were stored, each by its last attempt
	Longest    float64   `json:"longest_wait_seconds"` // from the first attempt until it was stored
	Seconds    float64   `json:"wall_seconds"`
}

// Quantiles are those of a distribution.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// TargetLayouts returns the layouts that can be put on a real account: what the balancer makes is for one with a load.
func TargetLayouts() []Layout {
	return slices.DeleteFunc(allLayouts(), func(l Layout) bool { return l == Balanced })
}

// ValidateTarget reports every fault of a run against an account at once.
func (c Config) ValidateTarget(t Target) error {
	faults := []error{c.Validate()}
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(c.Scenarios) != 1 || !slices.Contains([]Scenario{Uniform, Whale, Zipf, HotDevice}, c.Scenarios[0]) {
		fault("a target takes one of the scenarios uniform, whale, zipf and hot-device")
	}
	if t.RUs < 400 || t.RUs > 100_000 || t.RUs%100 != 0 {
		fault("--target-rus %d: 400 to 100000 in steps of 100 are allowed", t.RUs)
	}
	if t.Time < time.Second || t.Time > time.Hour {
		fault("--target-time %s: 1s to 1h are allowed", t.Time)
	}
	if len(t.Layouts) == 0 {
		fault("--target-layout is empty")
	}
	for i, l := range t.Layouts {
		if !slices.Contains(TargetLayouts(), l) || slices.Contains(t.Layouts[:i], l) {
			fault("--target-layout %q: each of %q is allowed once", l, TargetLayouts())
		}
	}
	return errors.Join(faults...)
}

// Dollars returns the list price of the containers of a run: each is billed for an hour at least.
func (t Target) Dollars() float64 {
	hours := max(1, t.Time.Hours())
	return float64(len(t.Layouts)) * hours * ru.Price(ru.Priced{RUs: float64(t.RUs)}).Most / ru.HoursPerMonth
}

// Servers are what a run is against; nil is left out.
type Servers struct {
	Cosmos *cosmos.Client
	Kafka  *kafka.Client
}

// Close closes the clients.
func (s Servers) Close() {
	if s.Cosmos != nil {
		s.Cosmos.Close()
	}
	if s.Kafka != nil {
		s.Kafka.Close()
	}
}

// WindowReadings returns how many readings a run publishes to Kafka at most.
func (c Config) WindowReadings() int {
	c = c.withDefaults()
	return newLoad(c, c.Scenarios[0], metrics).between(c.starts(), c.starts().Add(c.Window))
}

// RunTarget publishes the readings to a topic that it makes and deletes, and puts the layouts on an account, one after
// another, each in a container that it makes and deletes.
func RunTarget(ctx context.Context, cfg Config, t Target, on Servers) (report TargetReport, err error) {
	if err := cfg.ValidateTarget(t); err != nil {
		return report, err
	}
	cfg = cfg.withDefaults()
	report = TargetReport{Scenario: cfg.Scenarios[0], Devices: cfg.Devices, RUs: t.RUs, Model: cfg.Model.String()}
	r := targetRun{Target: t, cfg: cfg, client: on.Cosmos,
		name: TargetPrefix + strings.ToLower(rand.Text()[:8]) + "-"}
	began := time.Now()
	if on.Kafka != nil {
		if report.Kafka, err = r.publish(ctx, on.Kafka); err != nil {
			return report, err
		}
	}
	if on.Cosmos != nil {
		report.Dollars = t.Dollars()
		if report.Layouts, err = r.layouts(ctx); err != nil {
			return report, err
		}
	}
	report.Seconds = round(time.Since(began).Seconds())
	return report, nil
}

// layouts measures the layouts on the account.
func (r *targetRun) layouts(ctx context.Context) (out []TargetResult, err error) {
	if slices.ContainsFunc(r.Layouts, Layout.ofChunks) {
		p := pass{cfg: r.cfg, scenario: r.cfg.Scenarios[0], layout: Binnacle, metrics: metrics, tick: func() {}}
		of, err := p.run(ctx)
		if err != nil {
			return nil, fmt.Errorf("make the chunks: %w", err)
		}
		r.chunks = of.written
	}
	if err := r.client.EnsureShared(ctx, store.Throughput{}); err != nil {
		return nil, err
	}
	for i, l := range r.Layouts {
		if r.cfg.Progress != nil {
			fmt.Fprintf(r.cfg.Progress, "layout %s, %d of %d, for at most %s\n", l, i+1, len(r.Layouts), r.Time)
		}
		result, err := r.measure(ctx, l)
		if err != nil {
			return out, fmt.Errorf("layout %s: %w", l, err)
		}
		out = append(out, result)
	}
	return out, nil
}

// targetRun is a run against an account.
type targetRun struct {
	Target
	cfg    Config
	client *cosmos.Client
	name   string         // that names of containers begin with
	chunks []writtenChunk // that an ingester of Binnacle has made of the readings
}

// measure makes the container of a layout, writes to it, and deletes it.
func (r *targetRun) measure(ctx context.Context, l Layout) (out TargetResult, err error) {
	layout := l.container()
	layout.Name = r.name + string(l)
	containers := r.client.Containers()
	names, err := containers.List(ctx)
	if err != nil {
		return out, err
	}
	if slices.Contains(names, layout.Name) {
		return out, fmt.Errorf("container %s exists already", layout.Name)
	}
	if err := containers.CreateAs(ctx, layout, store.Throughput{RUs: r.RUs}); err != nil {
		return out, err
	}
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if gone := containers.Delete(bounded, layout.Name); gone != nil {
			err = errors.Join(err, fmt.Errorf("container %s is billed until it is deleted: %w", layout.Name, gone))
		}
	}()
	ranges, err := r.client.RangesOf(ctx, layout.Name)
	if err != nil {
		return out, err
	}
	w := &targetWriter{layout: l, model: r.cfg.Model, index: len(layout.Indexed) + 1,
		items: r.client.Items(layout.Name), ranges: ranges, byRange: make([]float64, len(ranges)),
		pace: rate.NewLimiter(rate.Limit(targetShare*float64(r.RUs)), max(leastBurst, r.RUs/20))}
	began := time.Now()
	if err := r.write(ctx, w); err != nil {
		return out, err
	}
	return w.result(time.Since(began)), nil
}

// write offers documents in the order of the readings, as fast as the throughput allows, until time is over.
func (r *targetRun) write(ctx context.Context, w *targetWriter) error {
	from := source{layout: w.layout, load: newLoad(r.cfg, r.cfg.Scenarios[0], metrics), bins: newJSONBins(r.cfg),
		chunks: r.chunks}
	opens := r.cfg.opens()
	if err := from.settle(opens, false); err != nil {
		return err
	}
	timed, cancel := context.WithTimeout(ctx, r.Time)
	defer cancel()
	work, sending := errgroup.WithContext(timed)
	work.SetLimit(mostInFlight)
	offer := func(d document) error {
		if err := w.wait(sending, &d); err != nil {
			return err
		}
		work.Go(func() error { return w.store(ctx, sending, d) })
		return nil
	}
	var err error
	for at := opens; err == nil && at.Before(opens.Add(r.cfg.Window)); at = at.Add(time.Second) {
		err = from.until(at.Add(time.Second), offer)
	}
	if failed := work.Wait(); failed != nil {
		return failed
	}
	if errors.Is(err, errOver) {
		return ctx.Err()
	}
	return err
}

// targetWriter writes the documents of a layout and counts.
type targetWriter struct {
	layout Layout
	model  ru.Model
	index  int // paths in the index
	items  *cosmos.Items
	ranges []epk.Range
	pace   *rate.Limiter // in RU

	mu        sync.Mutex // guards below
	counts    TargetResult
	offered   int
	rus       float64
	modelled  float64
	latencies []float64
	byRange   []float64
}

// modelledRUs returns the charge of a document by the model.
func (w *targetWriter) modelledRUs(d *document) float64 {
	index := w.index * ru.Scalar
	if len(d.key) > 1 {
		index = w.model.Levels(index, len(d.key))
	}
	return w.model.Write(len(d.body), index)
}

// errOver says that the time is over.
var errOver = errors.New("the time is over")

// wait waits until the throughput allows a further document, by what the account has charged so far.
func (w *targetWriter) wait(ctx context.Context, d *document) error {
	w.mu.Lock()
	each := w.modelledRUs(d)
	if w.modelled > 0 {
		each *= w.rus / w.modelled
	}
	w.mu.Unlock()
	if w.pace.WaitN(ctx, min(w.pace.Burst(), max(1, int(each+0.5)))) != nil {
		return errOver
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.offered += d.readings
	return nil
}

// store writes a document, again and again while it is answered 429 and sending is not over.
func (w *targetWriter) store(ctx, sending context.Context, d document) error {
	began := time.Now()
	for {
		asked := time.Now()
		receipt, err := w.items.Create(ctx, d.key, d.id, d.body)
		took := time.Since(asked)
		var answer *cosmos.Error
		throttled := errors.As(err, &answer) && answer.Status == http.StatusTooManyRequests
		switch {
		case err == nil:
			w.stored(&d, storedAs{receipt.RUs, took, time.Since(began)})
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !throttled:
			return err
		}
		w.mu.Lock()
		w.counts.Requests++
		w.counts.Throttled++
		w.mu.Unlock()
		if retry.Pause(sending, max(answer.RetryAfter, time.Millisecond)) != nil {
			w.mu.Lock()
			w.counts.Lost++
			w.mu.Unlock()
			return nil
		}
	}
}

// storedAs is what it took to store a document.
type storedAs struct {
	rus          float64
	took, waited time.Duration // of the last attempt, and from the first one on
}

// stored counts a document that was stored.
func (w *targetWriter) stored(d *document, as storedAs) {
	at := d.hash()
	w.mu.Lock()
	defer w.mu.Unlock()
	out := &w.counts
	out.Requests++
	out.Documents++
	out.Readings += d.readings
	out.Longest = max(out.Longest, as.waited.Seconds())
	w.rus += as.rus
	w.modelled += w.modelledRUs(d)
	w.latencies = append(w.latencies, as.took.Seconds())
	if i := slices.IndexFunc(w.ranges, func(x epk.Range) bool { return x.Contains(at) }); i >= 0 {
		w.byRange[i] += as.rus
	}
}

// result returns what was measured.
func (w *targetWriter) result(took time.Duration) TargetResult {
	out := w.counts
	out.Layout, out.Partitions, out.Seconds = w.layout, len(w.ranges), round(took.Seconds())
	out.Offered = round(float64(w.offered) / took.Seconds())
	out.Accepted = round(float64(out.Readings) / took.Seconds())
	out.Longest = round(out.Longest)
	if out.Documents == 0 {
		return out
	}
	n := float64(out.Documents)
	out.Each, out.Modelled = round(w.rus/n), round(w.modelled/n)
	out.PerMillion = round(w.rus / float64(out.Readings*metrics) * 1e6)
	if len(w.byRange) > 0 && w.rus > 0 {
		out.Hottest = round(slices.Max(w.byRange) / w.rus * float64(len(w.byRange)))
	}
	out.Latency = quantiles(w.latencies)
	return out
}

// quantiles returns those of at least one value. It sorts them.
func quantiles(values []float64) Quantiles {
	slices.Sort(values)
	at := func(q float64) float64 { return round(values[int(q*float64(len(values)-1)+0.5)]) }
	return Quantiles{at(0.5), at(0.95), at(0.99)}
}
