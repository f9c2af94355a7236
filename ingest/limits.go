package ingest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"binnacle/ingest/worker"
)

// Limits is what readings have gone over limits of their tenants in the partitions that an ingester has, and which of
// them wait in Kafka for it.
type Limits struct {
	Now     time.Time        `json:"now"`
	Waiting []LimitWaiting   `json:"waiting"`
	Passed  []worker.Overrun `json:"passed"` // since the partitions came here
}

// LimitWaiting is readings that wait in a partition.
type LimitWaiting struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	worker.Waiting
}

// Limits returns what has gone over limits, of one tenant or, with "", of all. It is safe for any number of callers.
func (in *Ingester) Limits(ctx context.Context, tenant string) (Limits, error) {
	out := Limits{Now: in.cfg.Now().UTC(), Waiting: []LimitWaiting{}, Passed: []worker.Overrun{}}
	type of struct{ tenant, limit string }
	passed := map[of]*worker.Overrun{}
	for _, p := range in.held() {
		if err := ctx.Err(); err != nil {
			return Limits{}, err
		}
		for _, x := range p.worker.Waiting(tenant) {
			out.Waiting = append(out.Waiting, LimitWaiting{p.at.topic, int32(p.at.partition), x})
		}
		for _, x := range p.worker.Overruns(tenant) {
			all := passed[of{x.Tenant, x.Limit}]
			if all == nil {
				passed[of{x.Tenant, x.Limit}] = &x
				continue
			}
			all.Delayed, all.Refused = all.Delayed+x.Delayed, all.Refused+x.Refused
			all.Culprits = append(all.Culprits, x.Culprits...) // a device is in one partition, as a rule
			if x.Last.After(all.Last) {
				all.Last = x.Last
			}
		}
	}
	for _, x := range passed {
		slices.SortFunc(x.Culprits, func(a, b worker.Culprit) int {
			return cmp.Or(cmp.Compare(b.Readings, a.Readings), strings.Compare(a.Device, b.Device))
		})
		x.Culprits = x.Culprits[:min(len(x.Culprits), mostCulprits)]
		out.Passed = append(out.Passed, *x)
	}
	slices.SortFunc(out.Passed, func(a, b worker.Overrun) int {
		return cmp.Or(strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.Limit, b.Limit))
	})
	slices.SortFunc(out.Waiting, func(a, b LimitWaiting) int {
		return cmp.Or(strings.Compare(a.Tenant, b.Tenant), a.Since.Compare(b.Since), strings.Compare(a.Topic, b.Topic),
			cmp.Compare(a.Partition, b.Partition),
			strings.Compare(a.Device, b.Device))
	})
	return out, nil
}

// mostCulprits bounds the devices that are named for a limit.
const mostCulprits = 20
