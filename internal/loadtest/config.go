package loadtest

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"binnacle/internal/ru"
	"binnacle/internal/settings"
)

// Config says what load is put on the layouts. DefaultConfig is a good one. Its tags are package settings's.
type Config struct {
	Scenarios []Scenario `kong:"-"`
	Layouts   []Layout   `kong:"-"` // that are compared, Balanced last and after Binnacle; none: those of each scenario
	Paces     []Pace     `kong:"-"`
	Devices   int        `help:"Number of simulated trucks of all tenants." default:"800"`
	// Partitions are those of every container.
	Partitions int           `help:"Number of physical partitions of each layout's container, 2 to 100." default:"5"`
	Interval   time.Duration `help:"Time between two readings of a truck." default:"10s"`
	Window     time.Duration `kong:"-"` // fleet time that is measured; 0: an hour, or a day where the hold is long
	Sample     time.Duration `help:"Part of that time for which the layouts with a document per reading run." default:"2m"`
	// Hold is also the fleet time that Binnacle is given to settle before the window.
	Hold  time.Duration `help:"Hold of Binnacle: longest time that a reading waits in memory, up to a day." default:"1h"`
	Seed  uint64        `help:"Seed of the readings." default:"1"`
	Model ru.Model      `name:"ru-model" help:"Model of charges by document size: step, where a size between two rows of the table of the service is charged as the next row, or slope, on a line between both." default:"step"`
	// Factors correct the model.
	Factors ru.Factors `name:"ru-factors" help:"File with the output of binnacle doctor --measure --json. Its factors multiply modelled charges. Default: none." placeholder:"FILE"`

	Floods bool  `kong:"-"`
	Flood  Flood `kong:"embed,prefix='flood-'"`

	Traced   bool      `kong:"-"` // results have their Trace
	Progress io.Writer `kong:"-"` // a terminal that is shown how far it is; nil for none
}

// DefaultConfig returns a load that takes well under a minute and is large enough that 429s are no chance.
func DefaultConfig() Config {
	c := Config{Scenarios: MainScenarios(), Paces: AllPaces(), Floods: true}
	settings.Defaults(&c)
	return c
}

// midnight is when the fleet starts to report. All ends in the same month, so Binnacle has one container; a window that
// is shorter than a day ends before the next midnight.
var midnight = time.Date(2026, time.November, 20, 0, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// longHold is the shortest hold with which what is written differs from hour to hour of a day: then nothing but whole
// days is a fair window.
const longHold = 12 * time.Hour

func (c Config) withDefaults() Config {
	c.Model = c.Model.Corrected(c.Factors)
	if c.Window == 0 {
		c.Window = time.Hour
		if c.Hold >= longHold {
			c.Window = day
		}
	}
	return c
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	c = c.withDefaults()
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for _, s := range c.Scenarios {
		if !slices.Contains(AllScenarios(), s) {
			fault("scenario %q: %q are known", s, AllScenarios())
		}
	}
	if c.Devices < minDevices || c.Devices > maxDevices {
		fault("%d devices: %d to %d are allowed", c.Devices, minDevices, maxDevices)
	}
	if c.Partitions < minPartitions || c.Partitions > maxPartitions {
		fault("%d physical partitions: %d to %d are allowed", c.Partitions, minPartitions, maxPartitions)
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
	if c.Hold > day {
		fault("a hold of %s: a day is the longest", c.Hold)
	}
	if (c.Hold+c.Window > day || c.Hold >= longHold) && c.Window%day != 0 {
		fault("a hold of %s and a measured time of %s: whole days are to be measured with a hold of %s or more, and where "+
			"both exceed a day", c.Hold, c.Window, longHold)
	}
	if c.Hold+c.Window > maxRun {
		fault("a measured time of %s: with the hold, %s are the most", c.Window, maxRun)
	}
	for _, p := range c.Paces {
		if err := p.validate(); err != nil {
			faults = append(faults, err)
		}
	}
	if c.Floods {
		faults = append(faults, c.Flood.validate())
	}
	return errors.Join(faults...)
}

// maxRun ends before the month does.
const maxRun = 10 * day

// The bounds of a fleet: in the smallest one every tenant has some devices in either scenario.
const (
	minDevices = 100
	maxDevices = 100_000
)

// The bounds of physical partitions: from about 100 on ranges are narrower than slots.
const (
	minPartitions = 2
	maxPartitions = 100
)

// perSecond returns how many readings the fleet reports in a second.
func (c Config) perSecond() float64 { return float64(c.Devices) / c.Interval.Seconds() }

// opens returns when the measured window begins.
func (c Config) opens() time.Time { return midnight.Add(c.Hold) }

// measured returns how long a layout is measured. A layout that keeps nothing back does the same in every interval of
// the fleet, so a sample of the window is as good as the whole; a bin takes its time to fill.
func (c Config) measured(l Layout) time.Duration {
	if l.chunked() || l == Hundred {
		return c.Window
	}
	return min(c.Sample, c.Window)
}

// seconds returns the fleet time of all passes together.
func (c Config) seconds() int64 {
	seconds := 0.0
	for _, s := range c.Scenarios {
		for _, l := range c.layouts(s) {
			seconds += 2 * c.measured(l).Seconds()
			if l.chunked() {
				seconds += 2 * c.Hold.Seconds()
			}
		}
	}
	seconds += float64(len(c.Paces)) * (c.Hold + day).Seconds()
	if c.Floods {
		seconds += c.Flood.window().Seconds() * float64(len(floodCases))
	}
	return int64(seconds)
}
