package loadtest

import (
	"fmt"
	"time"

	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/internal/lab/fleet"
	"binnacle/internal/telemetry"
)

type floodLog struct {
	records []admit.Record
	// due holds the time at which each record enters the log, ns since 1970.
	due  []int64
	loud []bool
}

// newFloodLog returns all that is reported in the scenario; quiet leaves the loud tenant out.
func newFloodLog(cfg Config, quiet bool) *floodLog {
	l, f := &floodLog{}, cfg.Flood
	trucks := make([]*fleet.Truck, quietTrucks+loudTrucks)
	for i := range trucks {
		trucks[i] = fleet.NewTruck(cfg.Seed, i, midnight)
	}
	begin, end := floodCalm, floodCalm+f.For
	at := [2]time.Duration{0, time.Millisecond} // next reports of the neighbours and of the loud tenant
	var next [2]int
	for at[0] < f.window() {
		who, truck := 0, next[0]%quietTrucks
		if !quiet && at[1] <= at[0] {
			who, truck = 1, quietTrucks+next[1]%loudTrucks
		}
		tenant := fmt.Sprintf("quiet-%d", truck%neighbours)
		every := time.Second / quietTrucks
		if who == 1 {
			tenant, every = loudTenant, time.Second/loudTrucks
			if at[1] >= begin && at[1] < end {
				every = time.Duration(float64(time.Second) / f.Rate)
			}
		}
		l.append(trucks[truck], tenant, midnight.Add(at[who]))
		next[who]++
		at[who] += every
	}
	return l
}

func (l *floodLog) append(truck *fleet.Truck, tenant string, at time.Time) {
	r := telemetry.Reading{
		Tenant: tenant, Device: truck.ID(), Time: at.UnixMilli(), Fields: truck.Next(at)[:floodValues],
	}
	offset := int64(len(l.records))
	l.records = append(l.records, admit.Record{
		Offset: offset, Time: r.Time, Key: []byte(tenant + "/" + r.Device),
		Value: decode.AppendJSON(make([]byte, 0, messageBytes/2), r),
	})
	l.due = append(l.due, at.UnixNano())
	l.loud = append(l.loud, tenant == loudTenant)
}
