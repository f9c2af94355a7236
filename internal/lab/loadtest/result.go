// Package loadtest shows hot partitions, and how Binnacle avoids them: the same readings go through several
// layouts, each on a separate embedded Cosmos DB with several physical partitions, and the report puts the
// results side by side. docs/start/demonstrate.md explains how to read it.
//
// Nothing is imitated: the layouts that are compared with write through internal/cosmos, and Binnacle's own
// path is the product's, from the message to the stored chunk. Only time is not real. One clock, which
// emulator, adapter and ingest go by, moves as fast as the work is done, so an outcome follows from Config alone.
package loadtest

import (
	"cmp"
	"math"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator"
	"binnacle/sharding"
	"binnacle/sharding/balance"
)

// Report is what Run has found.
type Report struct {
	Devices            int        `json:"devices"`
	IntervalSeconds    float64    `json:"interval_seconds"`
	HoldSeconds        float64    `json:"hold_seconds"`
	WindowSeconds      float64    `json:"window_seconds"`
	SampleSeconds      float64    `json:"sample_seconds"`
	Seed               uint64     `json:"seed"`
	Model              string     `json:"ru_model"`
	Factors            ru.Factors `json:"ru_factors"`
	PhysicalPartitions int        `json:"physical_partitions"`
	Outcomes           []Outcome  `json:"scenarios,omitempty"`

	// Command is the command line that makes the report again.
	Command string `json:"-"`
}

// Outcome is one scenario's results, one for each layout.
type Outcome struct {
	Scenario Scenario `json:"scenario"`
	// Devices and what follows are the scenario's own, where they differ from the report's; else 0.
	Devices       int     `json:"devices,omitempty"`
	WindowSeconds float64 `json:"window_seconds,omitempty"`
	Partitions    int     `json:"physical_partitions,omitempty"`
	SampleSeconds float64 `json:"sample_seconds,omitempty"`

	Results []Result `json:"layouts"`
}

// Result is what one layout has done with the readings of one scenario. Request units are modelled.
//
// What the load asks for is measured with all budgets off: the request units, their spread, and so what is needed. What
// comes of it is measured with what is bought: readings accepted, and 429s.
type Result struct {
	Layout     Layout    `json:"layout"`
	Offered    float64   `json:"offered_per_second"`  // readings
	Foreseen   float64   `json:"foreseen_per_second"` // readings that throughput is bought for
	Accepted   float64   `json:"accepted_per_second"` // readings stored
	PerMillion float64   `json:"ru_per_million_values"`
	Spread     []float64 `json:"ru_share_by_partition"`
	// Hottest is the load of the hottest physical partition over the mean, by request units.
	Hottest float64 `json:"hottest_over_mean"`
	Needed  float64 `json:"ru_per_second_needed"`
	Bought  float64 `json:"ru_per_second_bought"`
	Dollars float64 `json:"dollars_per_month"`
	// Throttled is the share of all requests that were answered 429.
	Throttled float64 `json:"share_throttled"`
	// SecondHolds is the number of writes for which a second of one physical partition has budget.
	SecondHolds float64 `json:"writes_per_partition_second"`

	// Chunks is Binnacle's rate of chunks.
	Chunks        float64 `json:"chunks_per_second,omitempty"`
	DocumentBytes float64 `json:"bytes_per_chunk,omitempty"`

	// Enough is what the layout does with the throughput that is enough for its readings, where what is bought is not.
	Enough *Enough `json:"with_enough,omitempty"`
	Days   []Day   `json:"days,omitempty"`
	Epochs int     `json:"epochs_by_the_balancer,omitempty"`
	Trace  *Trace  `json:"-"`
	// Keys holds the keys of the largest tenant that the balancer's epoch changes.
	Keys *Keys `json:"keys_of_the_largest,omitempty"`
}

// Enough is measured with more throughput.
type Enough struct {
	RUs      float64 `json:"ru_per_second_bought"`
	Dollars  float64 `json:"dollars_per_month"`
	Accepted float64 `json:"accepted_per_second"` // readings
}

// utilisation is the share of what is bought that the load takes on average.
const utilisation = 0.8

// grainyBelow is the number of writes in a partition's second below which a single write decides over a 429.
const grainyBelow = 15

// Grainy reports whether a physical partition's second holds so few writes that the share of 429s is chance.
func (r Result) Grainy() bool { return r.SecondHolds < grainyBelow }

// foreseen returns how many readings a second throughput is bought for.
func (r Result) foreseen() float64 { return cmp.Or(r.Foreseen, r.Offered) }

// bears returns how many readings a second the layout takes with that many RU/s: as many as make the hottest physical
// partition as busy as all are meant to be.
func (r Result) bears(rus float64) float64 {
	return r.foreseen() * rus / (r.Needed * r.Hottest)
}

// enough returns the RU/s that accept rate readings a second: each physical partition gets the needs of the
// hottest one.
func (r Result) enough(rate float64) float64 {
	return ru.Sold(r.Needed*rate/r.foreseen()*r.Hottest, false)
}

// newResult combines both passes: free without budgets, bound with what is bought.
func newResult(l Layout, free, bound totals) Result {
	rus := free.charged()
	requests, _ := free.requests()
	admitted, throttled := bound.requests()
	r := Result{
		Layout:     l,
		Offered:    round(float64(bound.offered) / bound.seconds),
		Accepted:   round(float64(bound.stored) / bound.seconds),
		PerMillion: round(rus * 1e6 / float64(free.stored*metrics)),
		Needed:     round(free.needed),
		Trace:      bound.trace,
	}
	if free.chunks > 0 {
		r.Chunks = round(float64(free.chunks) / free.seconds)
		r.DocumentBytes = round(float64(free.bytes) / float64(free.chunks))
	}
	if n := admitted + throttled; n > 0 {
		r.Throttled = round(float64(throttled) / float64(n))
	}
	r.Bought = ru.Sold(r.Needed, false)
	r.Dollars = round(ru.Price(ru.Priced{RUs: r.Bought}).Most)
	r.SecondHolds = round(r.Bought / float64(len(free.partitions)) / (rus / float64(requests)))
	for _, p := range free.partitions {
		share := round(p.RUs / rus)
		r.Spread = append(r.Spread, share)
		r.Hottest = max(r.Hottest, round(share*float64(len(free.partitions))))
	}
	return r
}

// round cuts the noise of floating point off a figure: sums in another order end in other digits.
func round(f float64) float64 { return math.Round(f*1e4) / 1e4 }

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
