package loadtest

import (
	"math"
	"slices"
	"strconv"
	"time"
)

// Scenario says how the devices belong to the tenants, and what each reports.
type Scenario string

// The scenarios.
const (
	Uniform   Scenario = "uniform"         // ten tenants of the same size
	Whale     Scenario = "whale"           // one of ten has 80 % of the devices
	Zipf      Scenario = "zipf"            // a thousand tenants, the nth with a share of 1/n of the first one's
	HotDevice Scenario = "hot-device"      // ten of the same size, and one device reports half of the readings
	MonthRoll Scenario = "month-roll"      // ten of the same size, and a month ends
	Explodes  Scenario = "tenant-explodes" // one of 25 grows within three days from 4 % to 76 % of the devices
	Reconnect Scenario = "reconnect"       // a fleet with half of the devices sends two hours within half an hour
)

// MainScenarios returns the scenarios that run unless others are asked for.
func MainScenarios() []Scenario { return []Scenario{Uniform, Whale} }

// AllScenarios returns the scenarios in the order in which they are shown.
func AllScenarios() []Scenario {
	return append(MainScenarios(), Zipf, HotDevice, MonthRoll, Explodes, Reconnect)
}

const (
	tenants     = 10
	zipfTenants = 1000
	// hotDevice is the number of the device that reports every second reading in HotDevice.
	hotDevice = 1
)

// What happens in a scenario, and when.
const (
	eventAfter = 30 * time.Second // since the window opened: a fleet returns
	// A fleet was away for absence before it returns, and has sent its backlog by caughtUp after it.
	absence  = 2 * time.Hour
	caughtUp = 30 * time.Minute
	// A tenant explodes in as many steps a day, and has explodes times as many devices after each day.
	explodingDays  = 3
	explodingSteps = 8
	explodes       = 4.0
	explodingOf    = 25 // tenants
	// explodingFrom divides the devices: one in explodingFrom reports from the beginning.
	explodingFrom = 4
)

// roll is when the month ends.
var roll = time.Date(2026, time.December, 1, 0, 0, 0, 0, time.UTC)

func (c Config) of(s Scenario) Config {
	c.starting = midnight
	switch s {
	case MonthRoll:
		c.starting = roll.Add(-c.Hold - c.Window/2)
	case Reconnect:
		c.settling = max(c.Hold, absence+time.Minute)
		if c.Window < day {
			c.Window += c.Hold // until the late readings are written
		}
	case Explodes:
		c.Devices, c.Partitions, c.Window, c.sliced = c.Devices/2, 2*c.Partitions, explodingDays*day-c.Hold, true
	}
	return c
}

// outcome returns the outcome of a scenario, with the scenario's own devices and time, where it has them.
func (c Config) outcome(s Scenario, results []Result) Outcome {
	o, own := Outcome{Scenario: s, Results: results}, c.of(s)
	if own.Devices != c.Devices {
		o.Devices = own.Devices
	}
	if own.Window != c.Window {
		o.WindowSeconds = own.Window.Seconds()
	}
	if own.Sample != c.Sample {
		o.SampleSeconds = own.Sample.Seconds()
	}
	if own.Partitions != c.Partitions {
		o.Partitions = own.Partitions
	}
	return o
}

func (s Scenario) streams(cfg Config) []*truckStream {
	var turns, others []int
	for turn := range cfg.Devices {
		if s == Reconnect && s.tenantOf(turn) == largestTenant || s == Explodes && turn >= cfg.Devices/explodingFrom {
			others = append(others, turn)
			continue
		}
		turns = append(turns, turn)
	}
	live := newStream(cfg, s, turns)
	event := cfg.opens().Add(eventAfter).Sub(live.from)
	switch s {
	case Reconnect:
		back := newStream(cfg, s, others)
		away, until := event-absence, event+caughtUp
		back.late = true
		back.warps = []warp{{away, event, int64(until-away) / int64(time.Second), int64(until-event) / int64(time.Second)},
			{until, until, 1, 1}}
		return []*truckStream{live, back}
	case Explodes:
		return append([]*truckStream{live}, joining(cfg, s, others)...)
	}
	return []*truckStream{live}
}

// joining returns the streams of devices that join step by step, more each time.
func joining(cfg Config, s Scenario, turns []int) (out []*truckStream) {
	const steps = explodingDays * explodingSteps
	whole, joined := math.Pow(explodes, explodingDays)-1, 0
	for step := range steps {
		n := int(float64(len(turns)) * (math.Pow(explodes, float64(step+1)/explodingSteps) - 1) / whole)
		if n == joined {
			continue
		}
		late := cfg
		late.starting = cfg.starts().Add(time.Duration(step) * day / explodingSteps)
		some := newStream(late, s, turns[joined:n])
		for i := range some.tenants {
			some.tenants[i] = largestTenant
		}
		out, joined = append(out, some), n
	}
	return out
}

// surges reports whether more is reported for a time than is foreseen: throughput is bought for what the fleet reports
// at other times.
func (s Scenario) surges() bool { return s == Reconnect }

// placed reports whether the balancer has seen before what the scenario does: not a tenant that grows.
func (s Scenario) placed() bool { return s != Explodes }

// largestTenant is the tenant that a scenario is about.
const largestTenant = "tenant-0"

func (s Scenario) tenantOf(device int) string {
	n := tenants
	switch s {
	case Explodes:
		n = explodingOf
	case Zipf:
		n = zipfTenants
	}
	return "tenant-" + strconv.Itoa(s.law(n)(device))
}

// law returns which of n tenants a device belongs to. Tenants take turns, so that their reports mix in time.
func (s Scenario) law(n int) func(device int) int {
	switch s {
	case Whale:
		return func(device int) int {
			if device%5 < 4 || n == 1 {
				return 0
			}
			return 1 + device/5%(n-1)
		}
	case HotDevice:
		return func(device int) int { return device / 2 % n }
	case Reconnect:
		return func(device int) int {
			if device%2 == 0 {
				return 0
			}
			return 1 + device/2%(n-1)
		}
	case Zipf:
		sums := make([]float64, n)
		whole := 0.0
		for i := range sums {
			whole += 1 / float64(i+1)
			sums[i] = whole
		}
		// Multiples of the golden ratio are spread evenly, so that any number of devices has the law's shares.
		return func(device int) int {
			_, part := math.Modf(float64(device) * math.Phi)
			i, _ := slices.BinarySearch(sums, part*whole)
			return min(i, n-1)
		}
	}
	return func(device int) int { return device % n }
}

// deviceOf returns the device that reports in a turn: each has one turn in an interval, but for a hot one.
func (s Scenario) deviceOf(turn int) int {
	if s == HotDevice && turn%2 == 1 {
		return hotDevice
	}
	return turn
}

func (s Scenario) about() string {
	switch s {
	case Whale:
		return "one of ten tenants has 80 % of the devices"
	case Zipf:
		return "tenants have devices by Zipf's law, the largest of a thousand 13 %"
	case HotDevice:
		return "one device reports half of all readings"
	case MonthRoll:
		return "a month ends in the middle of the measured time"
	case Explodes:
		return "in three days one of 25 tenants grows from 4 % to 76 % of half as many trucks, on twice the partitions"
	case Reconnect:
		return "a tenant with half of the devices sends two hours of late readings within half an hour"
	}
	return "ten tenants have the same number of devices"
}
