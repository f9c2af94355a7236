package ingest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"binnacle/ingest/admit"
)

// Limits is what readings have gone over limits of their tenants in the partitions that an ingester has, and which of
// them wait in Kafka for it.
type Limits struct {
	Now      time.Time          `json:"now"`
	Deferred []DeferredReadings `json:"waiting"`
	Exceeded []admit.Excess     `json:"passed"` // since the partitions came here
}

// DeferredReadings is readings that wait in a partition.
type DeferredReadings struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	admit.Deferral
}

// Limits returns what has gone over limits, of one tenant or, with "", of all. It is safe for any number of callers.
func (in *Ingester) Limits(ctx context.Context, tenant string) (Limits, error) {
	out := Limits{Now: in.cfg.Now().UTC(), Deferred: []DeferredReadings{}, Exceeded: []admit.Excess{}}
	type of struct{ tenant, limit string }
	passed := map[of]*admit.Excess{}
	for _, p := range in.held() {
		if err := ctx.Err(); err != nil {
			return Limits{}, err
		}
		for _, x := range p.worker.Deferred().Deferrals(tenant) {
			out.Deferred = append(out.Deferred, DeferredReadings{p.at.topic, int32(p.at.partition), x})
		}
		for _, x := range p.worker.Deferred().Excesses(tenant) {
			all := passed[of{x.Tenant, x.Limit}]
			if all == nil {
				passed[of{x.Tenant, x.Limit}] = &x
				continue
			}
			all.Delayed, all.Refused = all.Delayed+x.Delayed, all.Refused+x.Refused
			all.TopDevices = append(all.TopDevices, x.TopDevices...) // a device is in one partition, as a rule
			if x.Last.After(all.Last) {
				all.Last = x.Last
			}
		}
	}
	for _, x := range passed {
		slices.SortFunc(x.TopDevices, func(a, b admit.TopDevice) int {
			return cmp.Or(cmp.Compare(b.Readings, a.Readings), strings.Compare(a.Device, b.Device))
		})
		x.TopDevices = x.TopDevices[:min(len(x.TopDevices), mostCulprits)]
		out.Exceeded = append(out.Exceeded, *x)
	}
	slices.SortFunc(out.Exceeded, func(a, b admit.Excess) int {
		return cmp.Or(strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.Limit, b.Limit))
	})
	slices.SortFunc(out.Deferred, func(a, b DeferredReadings) int {
		return cmp.Or(strings.Compare(a.Tenant, b.Tenant), a.Since.Compare(b.Since), strings.Compare(a.Topic, b.Topic),
			cmp.Compare(a.Partition, b.Partition),
			strings.Compare(a.Device, b.Device))
	})
	return out, nil
}

// maxTopDevices bounds the devices that are named for a limit.
const mostCulprits = 20
