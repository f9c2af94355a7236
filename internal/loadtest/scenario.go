package loadtest

import (
	"math"
	"strconv"
)

// Scenario says how the devices belong to the tenants, and what each reports.
type Scenario string

// The scenarios.
const (
	Uniform   Scenario = "uniform"    // ten tenants of the same size
	Whale     Scenario = "whale"      // one of ten has 80 % of the devices
	Zipf      Scenario = "zipf"       // a thousand tenants, the nth with a share of 1/n of the first one's
	HotDevice Scenario = "hot-device" // ten of the same size, and one device reports half of the readings
)

// MainScenarios returns the scenarios that run unless others are asked for.
func MainScenarios() []Scenario { return []Scenario{Uniform, Whale} }

// AllScenarios returns the scenarios in the order in which they are shown.
func AllScenarios() []Scenario { return append(MainScenarios(), Zipf, HotDevice) }

const (
	tenants     = 10
	zipfTenants = 1000
	// hotDevice is the number of the device that reports every second reading in HotDevice.
	hotDevice = 1
)

// tenantOf returns the tenant of a device. Tenants take turns, so that their reports mix in time.
func (s Scenario) tenantOf(device int) string {
	n := device % tenants
	switch s {
	case Whale:
		n = 0 // four devices of five
		if device%5 == 4 {
			n = 1 + device/5%(tenants-1)
		}
	case HotDevice:
		n = device / 2 % tenants
	case Zipf:
		// Multiples of the golden ratio are spread evenly, so that any number of devices has the law's shares.
		_, part := math.Modf(float64(device) * math.Phi)
		n = zipfTenant(part)
	}
	return "tenant-" + strconv.Itoa(n)
}

// zipfTenant returns the tenant that a part of the whole, from 0 to 1, belongs to.
func zipfTenant(part float64) int {
	whole, sum := 0.0, 0.0
	for n := range zipfTenants {
		whole += 1 / float64(n+1)
	}
	for n := range zipfTenants {
		if sum += 1 / float64(n+1); part*whole < sum {
			return n
		}
	}
	return zipfTenants - 1
}

// deviceOf returns the device that reports in a turn: each has one turn in an interval, but for a hot one.
func (s Scenario) deviceOf(turn int) int {
	if s == HotDevice && turn%2 == 1 {
		return hotDevice
	}
	return turn
}

// about describes the scenario in a line.
func (s Scenario) about() string {
	switch s {
	case Whale:
		return "one of ten tenants has 80 % of the devices"
	case Zipf:
		return "tenants have devices by Zipf's law, the largest of a thousand 13 %"
	case HotDevice:
		return "one device reports half of all readings"
	}
	return "ten tenants have the same number of devices"
}
