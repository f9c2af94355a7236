package simulation_test

import (
	"math"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/provision"
	"binnacle/internal/store"
	"binnacle/sharding"
)

// uneven is the load of the hottest physical partition over the mean of all, where there are several:
// docs/reference/cost.md.
const uneven = 1.1

// hour is what the bill of one hour is made of, and what an oracle knows of it.
type hour struct {
	gb      float64
	minutes []float32 // RU/s that were asked for, by the minute; nil for none
	late    float64   // RU/s of late data, which may wait
	bought  float64
	excused bool // the first hour of an explosion
}

// container is one container as the service has it.
type container struct {
	state      store.ContainerState
	span       sharding.Span
	owner      string
	highest    float64
	gb         float64
	partitions int
	changed    time.Time
	gone       bool

	asked, waits, late float64 // of this minute; what did not fit; late data that waits, in RU
	lateNow            float64
	writes             float64 // what open bins tell of the next hour, mean RU/s of now and of then
	next               float64
	stored             float64 // GB of the last day
	gbOfDay            float64
	now                hour
	usedInHour         float64
	hours              []hour
	used               []float64
	throttled          []int64
	total, refused     float64
}

// newContainer makes a container, as the service does.
func newContainer(name string, t store.Throughput, now time.Time) *container {
	owner, span, _ := sharding.ParseContainer(name)
	return &container{state: store.ContainerState{Name: name, Throughput: t}, span: span, owner: owner,
		highest: float64(t.RUs), partitions: ru.Partitions(float64(t.RUs), t.Autoscale), changed: now,
		now: hour{bought: float64(t.RUs)}}
}

// set changes throughput. Beyond what the physical partitions take, the service would split them.
func (c *container) set(rus int, now time.Time) {
	c.state.Throughput.RUs = rus
	c.highest = max(c.highest, float64(rus))
	c.now.bought = max(c.now.bought, float64(rus))
	c.partitions = max(c.partitions, ru.Partitions(float64(rus)*0.6, false)) // 10,000 RU/s each
	c.changed = now
}

// minute serves what was asked for. What does not fit is answered 429 and asked for again in the next minute.
func (c *container) minute(excused bool) {
	factor := 1.0
	if c.partitions > 1 {
		factor = uneven
	}
	x, have := c.asked*factor, float64(c.state.Throughput.RUs)
	c.asked = 0
	if c.now.minutes == nil && x > 0 {
		c.now.minutes = make([]float32, 0, 60)
	}
	if c.now.minutes != nil {
		c.now.minutes = append(c.now.minutes, float32(x))
	}
	used := min(x+c.waits, have)
	c.waits += x - used
	var refusals int64
	if c.waits > 1e-9 {
		refusals = int64(c.waits*60/13) + 1
		if !excused {
			c.refused += c.waits
		}
	} else {
		c.waits = 0
	}
	c.now.excused = c.now.excused || excused
	c.total += x
	// Late data has what is left, and a tenth in any case.
	c.late += c.lateNow
	late := min(c.late, max(have-used, 0))
	c.late -= late
	c.now.late = max(c.now.late, c.lateNow, late)
	c.usedInHour = max(c.usedInHour, used+late)
	c.used, c.throttled = append(c.used, used+late), append(c.throttled, refusals)
	if len(c.used) > 4*window {
		c.used = append(c.used[:0], c.used[len(c.used)-window:]...)
		c.throttled = append(c.throttled[:0], c.throttled[len(c.throttled)-window:]...)
	}
}

const window = 26 * 60

// load returns what the provisioner knows of the container after a minute.
func (c *container) load() provision.Load {
	others := 0.0
	hour := c.used[max(0, len(c.used)-60):]
	for _, x := range hour {
		others += x / float64(len(hour))
	}
	others = max(0, others-c.writes)
	return provision.Load{RUs: c.used[max(0, len(c.used)-window):],
		Throttled: c.throttled[max(0, len(c.throttled)-window):],
		Expected:  []float64{c.writes + others, c.next + others}, Most: c.partitions * ru.PartitionRUs, Stored: c.stored}
}

// floor returns the lowest throughput that the service accepts.
func (c *container) floor() int {
	return int(ru.Floor(c.gb, c.highest, c.state.Throughput.Autoscale))
}

// endHour bills an hour.
func (c *container) endHour(bill *bill) {
	c.now.gb = c.gb
	c.hours = append(c.hours, c.now)
	if t := c.state.Throughput; t.Autoscale {
		bill.add(max(c.usedInHour, c.now.bought/10), true, c.gb)
	} else {
		bill.add(c.now.bought, false, c.gb)
	}
	for c.gb > float64(c.partitions*ru.PartitionGB) { // each is full at about the same time
		c.partitions *= 2
	}
	c.now, c.usedInHour = hour{bought: float64(c.state.Throughput.RUs)}, 0
	c.state.MinRUs = c.floor()
	if c.state.Throughput.RUs < c.state.MinRUs { // the service raises it
		c.state.Throughput.RUs = c.state.MinRUs
		c.now.bought = max(c.now.bought, float64(c.state.MinRUs))
	}
}

// bill is dollars by list prices.
type bill struct{ throughput, storage float64 }

func (b *bill) add(rus float64, autoscale bool, gb float64) {
	b.throughput += ru.Price(ru.Priced{RUs: rus, Autoscale: autoscale}).Most / ru.HoursPerMonth
	b.storage += ru.Price(ru.Priced{Container: true, GB: gb}).Most / ru.HoursPerMonth
}

func (b bill) all() float64 { return b.throughput + b.storage }

func (b *bill) plus(o bill) { b.throughput, b.storage = b.throughput+o.throughput, b.storage+o.storage }

func roundUp(x, step float64) float64 { return math.Ceil(x/step-1e-9) * step }
