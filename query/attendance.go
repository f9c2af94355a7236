package query

import (
	"context"
	"maps"
	"slices"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/merge"
	"binnacle/query/read"
	"binnacle/query/read/piece"
)

// AttendanceRequest asks in which steps of a range each of a tenant's devices has readings.
type AttendanceRequest struct {
	Tenant string
	Prefix string // prefix of device ids
	Range  telemetry.Range
	Step   time.Duration
	Limit  int // devices, the first ones by id
}

// Attendee is a device.
type Attendee struct {
	Device  string
	Present []bool // one for each step
	Known   int64  // its first reading, ms; -1 for a device that the catalog lacks
}

// Attendance returns the devices that have readings in the range or are in the catalog. It fails as Readings does.
func (q *Querier) Attendance(ctx context.Context, r AttendanceRequest) (out []Attendee, res Result, err error) {
	err = q.admitAndObserve(ctx, "attendance", r.Tenant, func(ctx context.Context, spent *store.Meter) error {
		entries, list, err := q.entries(ctx, Search{Tenant: r.Tenant, Prefix: r.Prefix, Limit: r.Limit})
		if err != nil {
			return err
		}
		known := map[string]int64{}
		for _, e := range entries {
			known[e.Device] = e.First
		}
		res.Truncated = list.Truncated
		var devices []string // nil, for all, unless the catalog says which they are
		if r.Prefix != "" || res.Truncated {
			devices = slices.AppendSeq(make([]string, 0, len(known)), maps.Keys(known)) // none is not all
			slices.Sort(devices)
		}
		reading := q.newQuery(read.Request{
			Request: piece.Request{Tenant: r.Tenant, Devices: devices, Range: r.Range}})
		defer reading.Close()
		sink := merge.NewAttendance(merge.Config{Range: reading.Range(), Memory: reading.Memory()}, r.Step.Milliseconds())
		if err = reading.Run(ctx, sink); err == nil {
			for id := range known {
				if _, err = sink.Device(id); err != nil {
					break
				}
			}
		}
		err = reading.Explain(err)
		res.Incomplete = append(list.Incomplete, reading.Incomplete()...)
		res.Complete = err == nil && res.Incomplete == nil
		res.Stats = reading.Stats()
		res.Stats.RequestUnits = spent.Read().RUs
		q.metrics.answered(res, reading.Memory().Peak())
		for _, id := range slices.Sorted(maps.Keys(sink.Devices())) {
			since, listed := known[id]
			if !listed {
				since = -1
			}
			out = append(out, Attendee{id, sink.Devices()[id], since})
		}
		return err
	})
	return out, res, err
}
