package loadtest

import (
	"time"

	"binnacle/internal/balance"
	"binnacle/internal/cosmosemu"
	"binnacle/internal/ru"
)

// totals is what a pass has counted. All but what its comment says otherwise is of the measured window.
type totals struct {
	seconds    float64 // fleet time measured
	offered    int     // readings that are due in it
	stored     int     // readings
	partitions []cosmosemu.PartitionStats
	chunks     int // written
	bytes      int // of their documents
	published  int // bytes of messages, with their keys
	journaled  int // bytes

	defaultIndex float64 // charge of a reading with every property in the index, RU; 0 when it was not asked
	base         float64 // charged to Binnacle's containers control and catalog, in the window and before, RU
	drained      int     // readings in the store after the last bin was cut, those before the window included
	taken        int     // readings offered until then

	trace    *Trace
	decision balance.Decision // of the balancer, by what a pass of Binnacle without budgets has written
}

// newTotals returns the totals of a period of load on a layout.
func newTotals(l *load, from, to time.Time) totals {
	return totals{seconds: to.Sub(from).Seconds(), offered: l.between(from, to)}
}

// need returns the RU/s that the load takes: the average over the utilisation.
func (t totals) need() float64 {
	rus, _, _ := t.sum()
	return rus.Likely / t.seconds / utilisation
}

// sum adds up what the physical partitions were charged and asked.
func (t totals) sum() (rus ru.Interval, writes, throttled int64) {
	for _, p := range t.partitions {
		rus = rus.Plus(p.Interval)
		writes += p.Requests
		throttled += p.Throttled
	}
	return rus, writes, throttled
}
