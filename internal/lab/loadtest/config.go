package loadtest

import (
	"io"
	"slices"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/settings"
	"binnacle/internal/telemetry"
)

// Config sets the load that the layouts get. DefaultConfig is a good one. Package settings reads its tags.
type Config struct {
	Scenarios []Scenario `kong:"-"`
	// Layouts lists the layouts to compare, Balanced last and after Binnacle; empty: each scenario's own.
	Layouts []Layout `kong:"-"`
	Devices int      `help:"Number of simulated trucks of all tenants." default:"800"`
	// Partitions is the number of physical partitions in every container.
	Partitions int           `help:"Physical partitions of each container, 2 to 100." default:"5"`
	Interval   time.Duration `help:"Time between two readings of a truck." default:"10s"`
	Window     time.Duration `kong:"-"` // fleet time that is measured; 0: an hour, or a day where the hold is long
	Sample     time.Duration `help:"Part of that time for which the layouts with a document per reading run." default:"1m"`
	// Hold is also the fleet time that Binnacle is given to settle before the window.
	Hold    time.Duration `help:"Hold of Binnacle: longest time that a reading waits in memory, up to a day." default:"1h"`
	Seed    uint64        `help:"Seed of the readings." default:"1"`
	Model   ru.Model      `name:"ru-model" help:"Model of charges by document size: step, where a size between two rows of the table of the service is charged as the next row, or slope, on a line between both." default:"step"`
	Factors ru.Factors    `name:"ru-factors" help:"Output of binnacle doctor --measure --json, whose factors multiply modelled charges. Default: none." placeholder:"FILE"`

	Progress io.Writer `kong:"-"` // a terminal that is shown how far it is; nil for none

	// starting is the start of the fleet, if not midnight.
	starting time.Time
	settling time.Duration // until the window opens, if not a hold
	sliced   bool          // a document per reading is measured for a while in each column of the window
}

// DefaultConfig returns a load that takes well under a minute and is large enough that 429s are no chance.
func DefaultConfig() Config {
	c := Config{Scenarios: MainScenarios()}
	settings.Defaults(&c)
	return c
}

// midnight is when the fleet starts to report, but in MonthRoll. All else ends in the same month, so Binnacle has one
// container; a window that is shorter than a day ends before the next midnight.
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
	var faults settings.Faults
	for _, s := range c.Scenarios {
		faults.Check(slices.Contains(AllScenarios(), s), "scenario %q: %q are known", s, AllScenarios())
	}
	faults.Within("devices", c.Devices, minDevices, maxDevices)
	faults.Within("physical partitions", c.Partitions, minPartitions, maxPartitions)
	faults.Check(c.Interval >= time.Millisecond, "an interval of %s: 1ms or more is allowed", c.Interval)
	for _, d := range []struct {
		name string
		time.Duration
	}{{"measured time", c.Window}, {"sample", c.Sample}, {"hold", c.Hold}} {
		faults.Check(d.Duration >= max(time.Second, c.Interval) && d.Duration%time.Second == 0,
			"a %s of %s: whole seconds, and no less than the interval of %s, are allowed", d.name, d.Duration, c.Interval)
	}
	faults.Check(c.Hold <= day, "a hold of %s: a day is the longest", c.Hold)
	faults.Check(c.Hold+c.Window <= day && c.Hold < longHold || c.Window%day == 0, "a hold of %s and a measured time of "+
		"%s: whole days are to be measured with a hold of %s or more, and where both exceed a day", c.Hold, c.Window,
		longHold)
	faults.Check(c.Hold+c.Window <= maxRun, "a measured time of %s: with the hold, %s are the most", c.Window, maxRun)
	return faults.Err()
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

func (c Config) starts() time.Time {
	if c.starting.IsZero() {
		return midnight
	}
	return c.starting
}

// firstDay returns the day on which the fleet starts to report. The balancer's epochs begin on it.
func (c Config) firstDay() telemetry.Day { return telemetry.DayOf(c.starts().UnixMilli()) }

// settles returns how long the fleet reports until the window opens.
func (c Config) settles() time.Duration { return max(c.Hold, c.settling) }

// opens returns when the measured window begins.
func (c Config) opens() time.Time { return c.starts().Add(c.settles()) }

// stretch is a time from one instant until before another.
type stretch struct{ from, to time.Time }

func (c Config) spans(l Layout) []stretch {
	if !l.sampled() {
		return []stretch{{c.opens(), c.opens().Add(c.Window)}}
	}
	length := min(c.Sample, c.Window)
	if !c.sliced {
		from := c.opens()
		if from.Before(roll) && from.Add(c.Window).After(roll) {
			from = roll.Add(-length / 2)
		}
		return []stretch{{from, from.Add(length)}}
	}
	var out []stretch
	step := c.column()
	for from := c.opens(); from.Before(c.opens().Add(c.Window)); from = from.Add(step) {
		out = append(out, stretch{from, from.Add(min(c.Interval, step))})
	}
	return out
}

func (c Config) column() time.Duration {
	if c.sliced {
		return time.Hour
	}
	return max(time.Second, (c.Window/traceColumns + time.Second - 1).Truncate(time.Second))
}

// steps returns how many layouts are measured.
func (c Config) steps() (n int) {
	for _, s := range c.Scenarios {
		n += len(c.layouts(s))
	}
	return n
}
