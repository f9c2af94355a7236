package loadtest

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/cosmos"
	"binnacle/internal/retry"
	"binnacle/sharding/epk"

	"golang.org/x/time/rate"
)

// TargetResult is the measured result of a layout, by the clock on the wall. Nothing in it but Modelled is
// modelled. Offered and Accepted count readings. Lost counts the documents that were still refused when the
// time was over. Hottest is by physical partition and request units. Latency is the duration of the last
// attempt of each stored write, Longest is the longest time from the first attempt until the document was
// stored.
type TargetResult struct {
	Layout     Layout    `json:"layout"`
	Partitions int       `json:"physical_partitions"`
	Documents  int       `json:"documents"`
	Readings   int       `json:"readings"`
	Offered    float64   `json:"offered_per_second"`
	Accepted   float64   `json:"accepted_per_second"`
	Each       float64   `json:"ru_per_document"`
	Modelled   float64   `json:"ru_per_document_modelled"`
	PerMillion float64   `json:"ru_per_million_values"`
	Requests   int       `json:"requests"`
	Throttled  int       `json:"answered_429"`
	Lost       int       `json:"documents_not_stored"`
	Hottest    float64   `json:"hottest_over_mean"`
	Latency    Quantiles `json:"latency_seconds"`
	Longest    float64   `json:"longest_wait_seconds"`
	Seconds    float64   `json:"wall_seconds"`
}

// Quantiles summarizes a distribution.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

func quantiles(values []float64) Quantiles {
	return Quantiles{quantile(values, 0.5), quantile(values, 0.95), quantile(values, 0.99)}
}

// targetWriter writes the documents of a layout and counts. The pace is in RU.
type targetWriter struct {
	layout Layout
	model  ru.Model
	index  int // paths in the index
	items  *cosmos.Items
	ranges []epk.Range
	pace   *rate.Limiter

	mu        sync.Mutex // guards below
	counts    TargetResult
	offered   int
	rus       float64
	modelled  float64
	latencies []float64
	byRange   []float64
}

func (w *targetWriter) modelledRUs(d *document) float64 {
	return w.model.Write(len(d.body), w.index*ru.Scalar)
}

var errOver = errors.New("the time is over")

// wait waits until the throughput allows a further document, by what the account has charged so far.
func (w *targetWriter) wait(ctx context.Context, d *document) error {
	each := w.modelledRUs(d)
	w.mu.Lock()
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
		if err == nil {
			w.stored(&d, receipt.RUs, time.Since(asked))
			w.mu.Lock()
			defer w.mu.Unlock()
			w.counts.Longest = max(w.counts.Longest, time.Since(began).Seconds())
			return nil
		}
		var answer *cosmos.Error
		if ctx.Err() != nil || !errors.As(err, &answer) || answer.Status != http.StatusTooManyRequests {
			return err
		}
		lost := retry.Pause(sending, max(answer.RetryAfter, time.Millisecond)) != nil
		w.mu.Lock()
		w.counts.Requests++
		w.counts.Throttled++
		if lost {
			w.counts.Lost++
		}
		w.mu.Unlock()
		if lost {
			return nil
		}
	}
}

func (w *targetWriter) stored(d *document, rus float64, took time.Duration) {
	at := d.hash()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.Requests++
	w.counts.Documents++
	w.counts.Readings += d.readings
	w.rus += rus
	w.modelled += w.modelledRUs(d)
	w.latencies = append(w.latencies, took.Seconds())
	if i := slices.IndexFunc(w.ranges, func(x epk.Range) bool { return x.Contains(at) }); i >= 0 {
		w.byRange[i] += rus
	}
}

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

// quantile returns the least value that a share of values do not exceed.
func quantile(of []float64, share float64) float64 {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return round(of[int(math.Ceil(share*float64(len(of))))-1])
}
