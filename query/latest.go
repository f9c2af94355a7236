package query

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"binnacle/query/merge"
)

// Latest calls emit with the newest value of each series in the range, in the order of device, labels and metric.
// Errors are those of Readings.
func (q *Querier) Latest(ctx context.Context, r Request, emit func(Last) error) (Result, error) {
	return collect(ctx, question{of: q, kind: "latest", Request: r}, merge.NewLatest, emit)
}

// latestLookBacks is how far Nearest looks back, step by step.
var latestLookBacks = []time.Duration{time.Hour, 24 * time.Hour, 31 * 24 * time.Hour}

// Nearest emits as Latest does, for a request that has only the end of a range and names its devices. It looks back an
// hour, and further only for metrics of devices that it has not found: those named, or any. Once a metric of a device
// is found, series of it with other labels are not looked for further back.
func (q *Querier) Nearest(ctx context.Context, r Request, emit func(Last) error) (Result, error) {
	var (
		all []Last
		sum Result
	)
	err := q.Admit(ctx, r.Tenant, func(ctx context.Context) error {
		missing := newWantedMetrics(distinct(r.Devices), distinct(r.Metrics))
		to := r.Range.To
		for _, look := range latestLookBacks {
			asked := r
			asked.Range.From, asked.Range.To = max(0, r.Range.To-look.Milliseconds()), to
			asked.Devices, asked.Metrics = missing.ask(r.Metrics)
			if len(asked.Devices) == 0 || asked.Range.Empty() {
				break
			}
			before := missing.clone()
			res, err := q.Latest(ctx, asked, func(l Last) error {
				if before.has(l.Device, l.Metric) {
					all = append(all, l)
					missing.met(l.Device, l.Metric)
				}
				return nil
			})
			sum.add(res)
			if err != nil {
				return err
			}
			to = asked.Range.From
		}
		return nil
	})
	sum.Complete = err == nil && sum.Incomplete == nil
	if err != nil {
		return sum, err
	}
	slices.SortFunc(all, func(a, b Last) int {
		return cmp.Or(strings.Compare(a.Device, b.Device), a.Labels.Compare(b.Labels), strings.Compare(a.Metric, b.Metric))
	})
	for _, l := range all {
		if err := emit(l); errors.Is(err, ErrEnough) {
			break
		} else if err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// add adds another read of the same answer. Keys that both have asked count twice.
func (r *Result) add(x Result) {
	for _, why := range x.Incomplete {
		if !slices.Contains(r.Incomplete, why) {
			r.Incomplete = append(r.Incomplete, why)
		}
	}
	r.Stats = r.Stats.Plus(x.Stats)
}

// wantedMetrics is the metrics to be found yet, by device; "" stands for any.
type wantedMetrics map[string]map[string]bool

func newWantedMetrics(devices, metrics []string) wantedMetrics {
	w := make(wantedMetrics, len(devices))
	for _, d := range devices {
		w[d] = make(map[string]bool)
		for _, m := range metrics {
			w[d][m] = true
		}
		if metrics == nil {
			w[d][""] = true
		}
	}
	return w
}

func (w wantedMetrics) clone() wantedMetrics {
	out := make(wantedMetrics, len(w))
	for d, m := range w {
		out[d] = maps.Clone(m)
	}
	return out
}

func (w wantedMetrics) has(device, metric string) bool { return w[device][""] || w[device][metric] }

func (w wantedMetrics) met(device, metric string) {
	delete(w[device], "")
	delete(w[device], metric)
	if len(w[device]) == 0 {
		delete(w, device)
	}
}

// ask returns what to ask for next.
func (w wantedMetrics) ask(metrics []string) (devices, of []string) {
	seen := make(map[string]bool)
	for d, m := range w {
		devices = append(devices, d)
		for metric := range m {
			seen[metric] = true
		}
	}
	slices.Sort(devices)
	for _, m := range metrics {
		if seen[m] {
			of = append(of, m)
		}
	}
	return devices, of
}
