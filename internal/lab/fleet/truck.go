package fleet

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"binnacle/internal/telemetry"
)

// Truck is one simulated device: ten metrics that walk at random, and the tags that describe it. It is
// not safe for concurrent use.
//
// Metrics, ranges and steps follow the IoT case of the Time Series Benchmark Suite (github.com/timescale/tsbs,
// pkg/data/usecases/iot: its readings and its diagnostics, joined). Only the load differs: there all trucks
// share one, here each truck has a load.
type Truck struct {
	id     string
	tags   telemetry.Labels
	random *rand.Rand
	last   time.Time

	currentLoad     float64
	elevation       walk
	fuelConsumption walk
	fuelState       walk
	grade           walk
	heading         walk
	latitude        walk
	longitude       walk
	status          walk
	velocity        walk
}

const (
	maxLoad    = 5000.0
	loadChange = 0.05 // the chance that a report finds another load
	maxFuel    = 1.0
)

// model is a make of truck, with its capacities as TSBS gives them.
type model struct {
	name                                           string
	loadCapacity, fuelCapacity, nominalConsumption int
}

// NewTruck returns truck number index of a fleet, index >= 0. Its tags, and every value it will report, follow from
// seed, index and the number of reports; start is the instant of its first state.
func NewTruck(seed uint64, index int, start time.Time) *Truck {
	r := rand.New(rand.NewPCG(seed, uint64(index)))
	id := fmt.Sprintf("truck-%04d", index)
	return &Truck{
		id:     id,
		tags:   tagsOf(id, r),
		random: r,
		last:   start,

		elevation:       walk{at: r.Float64() * 500, step: 10, max: 5000},
		fuelConsumption: walk{at: 25, step: 5, max: 50},
		fuelState:       walk{at: maxFuel, max: maxFuel},
		grade:           walk{step: 5, max: 100},
		heading:         walk{at: r.Float64() * 360, step: 5, max: 360},
		latitude:        walk{at: r.Float64() * 90, step: 0.005, min: -90, max: 90},
		longitude:       walk{at: r.Float64() * 180, step: 0.005, min: -180, max: 180},
		status:          walk{max: 5},
		velocity:        walk{step: 10, max: 100},
	}
}

func tagsOf(id string, r *rand.Rand) telemetry.Labels {
	models := []model{{"F-150", 2000, 200, 15}, {"G-2000", 5000, 300, 19}, {"H-2", 1500, 150, 12}}
	m := models[r.IntN(len(models))]
	return telemetry.LabelsOf(map[string]string{
		"name":                     id,
		"fleet":                    choose(r, "East", "West", "North", "South"),
		"driver":                   choose(r, "Derek", "Rodney", "Albert", "Andy", "Seth", "Trish"),
		"model":                    m.name,
		"device_version":           choose(r, "v1.0", "v1.5", "v2.0", "v2.3"),
		"load_capacity":            strconv.Itoa(m.loadCapacity),
		"fuel_capacity":            strconv.Itoa(m.fuelCapacity),
		"nominal_fuel_consumption": strconv.Itoa(m.nominalConsumption),
	})
}

func choose(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

// ID returns the device id: truck-0000, truck-0001 and so on.
func (t *Truck) ID() string { return t.id }

// Tags returns the tags that describe the truck: name, fleet, driver, model, device_version, load_capacity,
// fuel_capacity and nominal_fuel_consumption. Callers must not change them.
func (t *Truck) Tags() telemetry.Labels { return t.tags }

// Next returns what the truck measures at an instant: its ten metrics, sorted by name, in a slice that is the
// caller's. All are floats but status, an int. An instant later than the last one takes one step,
// however far it is, as in TSBS; any other repeats the last values.
func (t *Truck) Next(at time.Time) []telemetry.Field {
	t.Skip(at)
	return []telemetry.Field{
		{Metric: "current_load", Value: cut(t.currentLoad, 1)},
		{Metric: "elevation", Value: cut(t.elevation.at, 1)},
		{Metric: "fuel_consumption", Value: cut(t.fuelConsumption.at, 10)},
		{Metric: "fuel_state", Value: cut(t.fuelState.at, 10)},
		{Metric: "grade", Value: cut(t.grade.at, 1)},
		{Metric: "heading", Value: cut(t.heading.at, 1)},
		{Metric: "latitude", Value: cut(t.latitude.at, 100_000)},
		{Metric: "longitude", Value: cut(t.longitude.at, 100_000)},
		{Metric: "status", Value: telemetry.IntValue(int64(t.status.at))},
		{Metric: "velocity", Value: cut(t.velocity.at, 1)},
	}
}

// Skip does what Next does, and returns nothing.
func (t *Truck) Skip(at time.Time) {
	if at.After(t.last) {
		t.last = at
		t.move()
	}
}

func (t *Truck) move() {
	if t.random.Float64() < loadChange {
		t.currentLoad = t.random.Float64() * maxLoad
	}
	for _, w := range []*walk{
		&t.elevation, &t.fuelConsumption, &t.grade, &t.heading, &t.latitude, &t.longitude, &t.velocity,
	} {
		w.by(w.step * (2*t.random.Float64() - 1))
	}
	t.fuelState.by(-0.001 * t.random.Float64())
	if t.fuelState.at == 0 {
		t.fuelState.at = maxFuel
	}
	t.status.by(t.random.NormFloat64())
}

// walk is a random walk that stops at its bounds; a step goes up to step, up or down.
type walk struct{ at, step, min, max float64 }

func (w *walk) by(d float64) { w.at = min(max(w.at+d, w.min), w.max) }

// cut drops the digits that the sensor doesn't show: toward zero, scale being a power of ten.
func cut(f, scale float64) telemetry.Value {
	return telemetry.FloatValue(float64(int64(f*scale)) / scale)
}
