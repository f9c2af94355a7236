package loadtest

import "strconv"

// Scenario says how the devices belong to the tenants.
type Scenario string

// The scenarios: ten tenants of the same size, or one of them with 80 % of the devices.
const (
	Uniform Scenario = "uniform"
	Whale   Scenario = "whale"
)

// AllScenarios returns the scenarios in the order in which they are shown.
func AllScenarios() []Scenario { return []Scenario{Uniform, Whale} }

const tenants = 10

// tenantOf returns the tenant of a device. Tenants take turns, so that their reports mix in time.
func (s Scenario) tenantOf(device int) string {
	n := device % tenants
	if s == Whale {
		n = 0 // four devices of five
		if device%5 == 4 {
			n = 1 + device/5%(tenants-1)
		}
	}
	return "tenant-" + strconv.Itoa(n)
}

// about describes the scenario in a line.
func (s Scenario) about() string {
	if s == Whale {
		return "one of ten tenants has 80 % of the devices"
	}
	return "ten tenants have the same number of devices"
}
