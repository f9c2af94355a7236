package loadtest

import (
	"errors"
	"fmt"
	"io"
	"time"

	"binnacle/internal/ru"
	"binnacle/internal/settings"
)

// Config says what load is put on the layouts. DefaultConfig is a good one. Its tags are package settings's.
type Config struct {
	Scenarios []Scenario    `kong:"-"`
	Devices   int           `help:"Simulated trucks of all tenants together." default:"800"`
	Interval  time.Duration `help:"Time between two readings of a truck." default:"10s"`
	Window    time.Duration `kong:"-" default:"1h"` // fleet time that is measured
	Sample    time.Duration `help:"How much of that the layouts with a document per reading take." default:"2m"`
	// Hold is also the fleet time that Binnacle is given to settle before the window.
	Hold  time.Duration `help:"Longest time that a reading waits in Binnacle's memory." default:"1h"`
	Seed  uint64        `help:"The same readings for the same number." default:"1"`
	Model ru.Model      `name:"ru-model" help:"How the size of a document is charged: table, the service's published table, or linear." default:"table"`

	Progress io.Writer `kong:"-"` // a terminal that is shown how far it is; nil for none
}

// DefaultConfig is a load that takes well under a minute and is large enough that 429s are no chance.
func DefaultConfig() Config {
	c := Config{Scenarios: AllScenarios()}
	settings.Defaults(&c)
	return c
}

// physicalPartitions is how many every layout's container has.
const physicalPartitions = 5

// midnight is when the fleet starts to report. Hold and Window end before the next one: the layout by date
// then has one key all the time, and Binnacle one container.
var midnight = time.Date(2026, time.November, 20, 0, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// Validate reports every fault at once.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for _, s := range c.Scenarios {
		if s != Uniform && s != Whale {
			fault("scenario %q: %s and %s are known", s, Uniform, Whale)
		}
	}
	if c.Devices < minDevices || c.Devices > maxDevices {
		fault("%d devices: %d to %d are allowed", c.Devices, minDevices, maxDevices)
	}
	if c.Interval < time.Millisecond {
		fault("an interval of %s: 1ms or more is allowed", c.Interval)
	}
	for _, d := range []struct {
		name string
		time.Duration
	}{{"measured time", c.Window}, {"sample", c.Sample}, {"hold", c.Hold}} {
		if d.Duration < max(time.Second, c.Interval) || d.Duration%time.Second != 0 {
			fault("a %s of %s: whole seconds, and no less than the interval of %s, are allowed", d.name, d.Duration, c.Interval)
		}
	}
	if c.Hold+c.Window > day {
		fault("a hold of %s and a measured time of %s: together they must not exceed a day", c.Hold, c.Window)
	}
	return errors.Join(faults...)
}

// The bounds of a fleet: in the smallest one every tenant has some devices in either scenario.
const (
	minDevices = 100
	maxDevices = 100_000
)

// perSecond is how many readings the fleet reports in a second.
func (c Config) perSecond() float64 { return float64(c.Devices) / c.Interval.Seconds() }

// opens is when the measured window begins.
func (c Config) opens() time.Time { return midnight.Add(c.Hold) }

// measured is how long a layout is measured. A layout that keeps nothing back does the same in every interval
// of the fleet, so a sample of the window is as good as the whole; a bin takes its time to fill.
func (c Config) measured(l Layout) time.Duration {
	if l == Binnacle {
		return c.Window
	}
	return min(c.Sample, c.Window)
}
