package query

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"binnacle/query/merge"
)

// Latest calls emit with the newest value for each series in the range, in the order of device, labels and metric. It
// fails as Readings does.
func (q *Querier) Latest(ctx context.Context, r Request, emit func(Last) error) (Result, error) {
	return collect(ctx, question{of: q, kind: "latest", Request: r}, merge.NewLatest, emit)
}

// latestLookBacks is how far Nearest looks back, step by step.
var latestLookBacks = []time.Duration{time.Hour, 24 * time.Hour, 31 * 24 * time.Hour}

// Nearest emits as Latest does, for a request that has only the end of a range and names its devices. It looks back an
// hour, and further only for metrics of devices that it has not found: those named, or any. Once a metric of a device
// is found, series of it with other labels are not looked for further back.
func (q *Querier) Nearest(ctx context.Context, r Request, emit func(Last) error) (Result, error) {
	type wanted struct{ device, metric string }
	var (
		all   []Last
		sum   Result
		found = make(map[wanted]bool)
		named = distinct(r.Metrics)
	)
	if named == nil {
		named = []string{""} // matches any metric
	}
	lacks := func(device, metric string) bool { return !found[wanted{device, metric}] }
	err := q.Admit(ctx, r.Tenant, func(ctx context.Context) error {
		to := r.Range.To
		for _, look := range latestLookBacks {
			asked := r
			asked.Range.From, asked.Range.To = max(0, r.Range.To-look.Milliseconds()), to
			asked.Devices = slices.DeleteFunc(distinct(r.Devices), func(device string) bool {
				return !slices.ContainsFunc(named, func(metric string) bool { return lacks(device, metric) })
			})
			asked.Metrics = slices.DeleteFunc(distinct(r.Metrics), func(metric string) bool {
				return !slices.ContainsFunc(asked.Devices, func(device string) bool { return lacks(device, metric) })
			})
			if len(asked.Devices) == 0 || asked.Range.Empty() {
				break
			}
			var now []wanted
			res, err := q.Latest(ctx, asked, func(l Last) error {
				is := wanted{l.Device, l.Metric}
				if r.Metrics == nil {
					is.metric = ""
				}
				if !found[is] {
					all, now = append(all, l), append(now, is)
				}
				return nil
			})
			sum.add(res)
			if err != nil {
				return err
			}
			for _, is := range now {
				found[is] = true
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
