package fleet

import (
	"fmt"
	"math/rand/v2"
	"time"

	"binnacle/internal/telemetry"
)

// Sensor is a simulated device of the service's page on partition keys for IoT: six values that change a little each
// second. It is not safe for concurrent use.
type Sensor struct {
	id     string
	random *rand.Rand
	last   time.Time

	airQuality, battery, humidity, noise, temperature walk
}

// NewSensor returns a sensor of a fleet. Every value that it will report follows from seed, index and the number of
// reports; start is the instant of its first state.
func NewSensor(seed uint64, index int, start time.Time) *Sensor {
	r := rand.New(rand.NewPCG(seed, uint64(index)))
	return &Sensor{id: fmt.Sprintf("truck-%04d", index), random: r, last: start,
		airQuality:  walk{at: 20 + 60*r.Float64(), step: 0.5, max: 500},
		battery:     walk{at: 50 + 50*r.Float64(), step: 0.002, max: 100},
		humidity:    walk{at: 30 + 40*r.Float64(), step: 0.1, max: 100},
		noise:       walk{at: 35 + 20*r.Float64(), step: 3, min: 25, max: 110},
		temperature: walk{at: 10 + 20*r.Float64(), step: 0.05, min: -40, max: 60},
	}
}

// ID returns the device id, that of a truck with its index.
func (s *Sensor) ID() string { return s.id }

// Next returns what the sensor measures at an instant, sorted by name, in a slice that is the caller's. An instant
// later than the last one takes one step, however far it is; any other repeats the last values.
func (s *Sensor) Next(at time.Time) []telemetry.Field {
	s.Skip(at)
	return []telemetry.Field{
		{Metric: "airQualityIndex", Value: telemetry.IntValue(int64(s.airQuality.at))},
		{Metric: "batteryLevel", Value: telemetry.IntValue(int64(s.battery.at))},
		{Metric: "humidity", Value: cut(s.humidity.at, 10)},
		{Metric: "noiseLevel", Value: telemetry.IntValue(int64(s.noise.at))},
		{Metric: "status", Value: telemetry.TextValue("active")},
		{Metric: "temperature", Value: cut(s.temperature.at, 10)},
	}
}

// Skip does what Next does, and returns nothing.
func (s *Sensor) Skip(at time.Time) {
	if !at.After(s.last) {
		return
	}
	s.last = at
	for _, w := range []*walk{&s.airQuality, &s.battery, &s.humidity, &s.noise, &s.temperature} {
		w.by(w.step * (2*s.random.Float64() - 1))
	}
}
