package loadtest

import (
	"context"
	"time"

	"binnacle/internal/tenant"
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
