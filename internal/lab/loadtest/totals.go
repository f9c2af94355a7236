package loadtest

import (
	"binnacle/internal/lab/emulator"
	"binnacle/sharding"
	"binnacle/sharding/balance"
)

// totals is what a pass has counted. All but what its comment says otherwise is of the measured window.
type totals struct {
	seconds    float64 // fleet time measured
	offered    int     // readings that are due in it
	stored     int     // readings
	partitions []emulator.PartitionStats
	chunks     int // written
	// bytes is the size of the chunks' documents.
	bytes int

	drained int // readings in the store after the last bin was cut, those before the window included
	taken   int // readings offered until then

	// calm is the least RU/s of the layout's containers with which nothing would be answered 429, so that the pass would
	// be the same; 0: other containers refuse.
	calm float64

	// panels holds the panels that dashboards have asked.
	panels *Panels
	needed float64 // RU/s that the load takes

	trace *Trace
	// written lists the chunks that Binnacle wrote, from the opening of the window on.
	written []writtenChunk
	// keys is how many keys the largest tenant has, by day.
	keys []int
	// changes lists the balancer's changes while the pass ran.
	changes []sharding.EpochChange
	// decision is the balancer's decision, based on the chunks of a pass of Binnacle without budgets.
	decision balance.Decision
}

// charged returns what the layout's containers were charged, in RU.
func (t totals) charged() (rus float64) {
	for _, p := range t.partitions {
		rus += p.RUs
	}
	return rus
}

// requests adds up what the physical partitions have served and refused.
func (t totals) requests() (served, throttled int64) {
	for _, p := range t.partitions {
		served += p.Requests
		throttled += p.Throttled
	}
	return served, throttled
}
