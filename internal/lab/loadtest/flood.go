package loadtest

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/internal/lab/fleet"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/internal/text/report"
)

// Flood is the scenario flood: one partition of the log that a loud tenant shares with neighbours, as one ingester
// reads it.
type Flood struct {
	// Rate is the loud tenant's load.
	Rate float64 `json:"readings_per_second"`
	// Limit is the loud tenant's limit.
	Limit   float64       `json:"limit_per_second"`
	For     time.Duration `json:"-"` // how long it is loud
	HeldFor time.Duration `json:"-"` // longest time that readings above the limit wait
	Takes   float64       `json:"partition_takes_per_second"`
}

// DefaultFlood returns a flood above what the partition takes.
func DefaultFlood() Flood {
	return Flood{Rate: 4800, Limit: 300, For: 30 * time.Second, HeldFor: 5 * time.Minute, Takes: 4000}
}

// The fleet of the flood, and what is the same for all its cases.
const (
	loudTenant = "loud"
	neighbours = 9
	// quietTrucks is the number of trucks of all neighbours together; each reports once a second.
	quietTrucks = 180
	loudTrucks  = 100 // so do these but for the flood
	// floodValues is the number of values in a reading.
	floodValues = 3
	floodBurst  = 10 * time.Second
	floodHold   = time.Minute
	floodCalm   = 30 * time.Second // before the flood, and at least after it
)

// What becomes of a reading takes a part of the time that it takes to take it, as BenchmarkLimits of ingest/worker has
// measured: one that is deferred, or that a pass over what waits leaves where it is, is decoded and hardly more; one
// that is refused becomes a dead letter.
const (
	deferredShare = 0.5
	refuseShare   = 0.75
)

// The cases of the flood, in the order in which they are shown.
const (
	floodQuiet  = "quiet alone"
	floodFree   = "no limit"
	floodDelay  = "limit, delay"
	floodRefuse = "limit, refuse"
	floodFair   = "no limit, fair"
)

var floodCases = []string{floodQuiet, floodFree, floodDelay, floodRefuse, floodFair}

// window returns the fleet time in which readings are reported: until all that waits must have been taken or refused.
func (f Flood) window() time.Duration { return 2*floodCalm + f.For + f.HeldFor }

// FloodResult is what one case of the flood has come to. Times are of the fleet's clock.
type FloodResult struct {
	Case string `json:"case"`

	// Of the neighbours, while the other one is loud:
	// P50 is the time from a reading's arrival in the log until a query shows it.
	P50 float64 `json:"neighbours_p50_seconds"`
	P99 float64 `json:"neighbours_p99_seconds"`

	// Of the neighbours, in all:
	DeadLetters int `json:"neighbours_dead_letters"`

	// Of the loud one:
	// Deferred counts the loud tenant's readings that were deferred.
	Deferred        int     `json:"loud_waited_readings"`
	DeferredSeconds float64 `json:"loud_waited_seconds"` // for which one of them has waited, at most
	Refused         int     `json:"loud_refused_readings"`
	Stored          int     `json:"loud_stored_readings"`
}

func (f Flood) limits(of string) tenant.IngestLimits {
	l := tenant.IngestLimits{Readings: tenant.Limit(f.Limit), Burst: tenant.Period(floodBurst.Seconds())}
	switch of {
	case floodDelay:
		l.OnExcess = tenant.Delay
	case floodRefuse:
		l.OnExcess = tenant.Refuse
	default:
		return tenant.IngestLimits{}
	}
	return l
}

// FloodReport is all cases of the flood.
type FloodReport struct {
	Flood `json:"flood"`
	Cases []FloodResult `json:"cases"`
}

func measureFlood(ctx context.Context, cfg Config, of string) (FloodResult, error) {
	a, err := open(ctx, cfg, true)
	if err != nil {
		return FloodResult{}, err
	}
	defer a.close()
	s, err := newFloodRun(ctx, cfg, of, a)
	if err != nil {
		return FloodResult{}, err
	}
	if err := s.run(ctx); err != nil {
		return FloodResult{}, err
	}
	return s.result(), nil
}

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

func flood(b *bytes.Buffer, f *FloodReport) {
	fmt.Fprintf(b, "\nFLOOD: what a loud tenant costs its neighbours in a partition\n\n")
	report.Paragraph(b, "", fmt.Sprintf("For %s it sends %s readings/s beside their %d and may have %s; the partition's "+
		"loop takes %s. What is deferred takes %s of the time of what is taken, what is refused %s.",
		seconds(f.For.Seconds()), number(f.Rate), quietTrucks, number(f.Limit), number(f.Takes), percent(deferredShare),
		percent(refuseShare)))
	b.WriteByte('\n')
	rows := [][]string{
		{"", "neighbours, from the log to a query", "", "dead", "the loud one's readings", "", "", "waited"},
		{"", "p50", "p99", "letters", "waited", "refused", "stored", "at most"},
	}
	for _, c := range f.Cases {
		rows = append(rows, []string{
			c.Case, lapse(c.P50), lapse(c.P99), report.Thousands(int64(c.DeadLetters)), report.Thousands(int64(c.Deferred)),
			report.Thousands(int64(c.Refused)), report.Thousands(int64(c.Stored)), held(c.DeferredSeconds),
		})
	}
	report.Grid(b, rows)
	report.Paragraph(b, "\n", "Without a limit a partition is one queue, and neighbours wait with the loud one. What "+
		"waits above a limit is taken as the limit allows, or refused after "+seconds(f.HeldFor.Seconds())+".")
}

// lapse returns a length of time with as many digits as mean something.
func lapse(s float64) string {
	switch {
	case s < 0.00095:
		return fmt.Sprintf("%.1f ms", 1000*s)
	case s < 0.9995:
		return fmt.Sprintf("%.0f ms", 1000*s)
	case s < 9.95:
		return fmt.Sprintf("%.1f s", s)
	}
	return (time.Duration(s+0.5) * time.Second).String()
}

// held returns how long something has waited, if anything did.
func held(s float64) string {
	if s == 0 {
		return "-"
	}
	return lapse(s)
}
