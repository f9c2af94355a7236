package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"binnacle/internal/duration"
)

// IngestLimits are what the readings of one tenant may take. Its tags are package settings's, and those of the tenant
// document. A rate that is passed delays readings, or refuses them where Over says so; a number or a size that is
// passed refuses them.
type IngestLimits struct {
	Readings       Bound `name:"ingest-readings" json:"readingsPerSecond,omitempty" help:"Readings a second of one tenant: a number, or none." default:"${tenantlimit=none}"`
	Values         Bound `name:"ingest-values" json:"valuesPerSecond,omitempty" help:"Values a second of one tenant." default:"${tenantlimit=none}"`
	DeviceReadings Bound `name:"ingest-device-readings" json:"deviceReadingsPerSecond,omitempty" help:"Readings a second of one device." default:"${tenantlimit=none}"`
	DeviceValues   Bound `name:"ingest-device-values" json:"deviceValuesPerSecond,omitempty" help:"Values a second of one device." default:"${tenantlimit=none}"`
	Burst          Lapse `name:"ingest-burst" json:"burstSeconds,omitempty" help:"How much may come at once above the rates: what they let through in so much time." default:"${tenantlimit=1m}"`
	Over           Over  `name:"ingest-over" json:"over,omitempty" help:"What becomes of readings above the rates: delay has them wait in Kafka, for --held-for at most, refuse makes dead letters of them." default:"${tenantlimit=delay}"`

	Devices     Bound `name:"ingest-devices" json:"devices,omitempty" help:"Devices of one tenant that report within a day." default:"${tenantlimit=none}"`
	NewDevices  Bound `name:"ingest-new-devices" json:"newDevicesPerHour,omitempty" help:"Devices of one tenant that report for the first time, an hour." default:"${tenantlimit=none}"`
	Series      Bound `name:"ingest-series" json:"series,omitempty" help:"Series of one device in a day: metrics, those of different labels apart." default:"${tenantlimit=none}"`
	TotalSeries Bound `name:"ingest-total-series" json:"totalSeries,omitempty" help:"Series of all devices of one tenant in a day." default:"${tenantlimit=none}"`
	Payload     Bound `name:"ingest-payload" json:"payloadBytes,omitempty" help:"Bytes of a record that has readings of the tenant." default:"${tenantlimit=none}"`
	Labels      Bound `name:"ingest-labels" json:"labels,omitempty" help:"Labels of one reading." default:"${tenantlimit=none}"`

	LabelValues Bound `name:"ingest-label-values" json:"labelValues,omitempty" help:"Values that one label has among all devices of the tenant, as the catalog lists them." default:"${tenantlimit=none}"`
}

// Or is the limits of a tenant, where nothing is said those by default.
func (l IngestLimits) Or(byDefault IngestLimits) IngestLimits {
	return IngestLimits{
		Readings: l.Readings.Or(byDefault.Readings), Values: l.Values.Or(byDefault.Values),
		DeviceReadings: l.DeviceReadings.Or(byDefault.DeviceReadings),
		DeviceValues:   l.DeviceValues.Or(byDefault.DeviceValues),
		Burst:          l.Burst.Or(byDefault.Burst), Over: l.Over.or(byDefault.Over),
		Devices: l.Devices.Or(byDefault.Devices), NewDevices: l.NewDevices.Or(byDefault.NewDevices),
		Series:      l.Series.Or(byDefault.Series),
		TotalSeries: l.TotalSeries.Or(byDefault.TotalSeries), Payload: l.Payload.Or(byDefault.Payload),
		Labels: l.Labels.Or(byDefault.Labels), LabelValues: l.LabelValues.Or(byDefault.LabelValues),
	}
}

// Any reports whether there is a bound to anything.
func (l IngestLimits) Any() bool {
	for _, b := range []Bound{l.Readings, l.Values, l.DeviceReadings, l.DeviceValues, l.Devices, l.NewDevices, l.Series,
		l.TotalSeries, l.Payload, l.Labels, l.LabelValues} {
		if b > 0 {
			return true
		}
	}
	return false
}

// TenantIngest is what a tenant document says of readings.
type TenantIngest struct {
	IngestLimits `kong:"embed"`

	Past   Lapse `name:"ingest-past" json:"pastSeconds,omitempty" help:"How old a reading may be, such as 400d, within the retention: a duration, none for any age, or default for --past of the roles." default:"${tenantlimit=default}"`
	Future Lapse `name:"ingest-future" json:"futureSeconds,omitempty" help:"How far an event time may lie after its record's Kafka timestamp, default for --future of the roles." default:"${tenantlimit=default}"`
}

// Changes are what has to be set so that this is what a tenant document says, but for what nothing is said of.
func (l TenantIngest) Changes() (out []Change) {
	for _, one := range []struct {
		name string
		is   Bound
	}{
		{"readingsPerSecond", l.Readings}, {"valuesPerSecond", l.Values},
		{"deviceReadingsPerSecond", l.DeviceReadings}, {"deviceValuesPerSecond", l.DeviceValues},
		{"burstSeconds", Bound(l.Burst)}, {"devices", l.Devices}, {"newDevicesPerHour", l.NewDevices},
		{"series", l.Series}, {"totalSeries", l.TotalSeries}, {"payloadBytes", l.Payload}, {"labels", l.Labels},
		{"labelValues", l.LabelValues},
		{"pastSeconds", Bound(l.Past)}, {"futureSeconds", Bound(l.Future)},
	} {
		if c, said := BoundChange(one.is, "limits", "ingest", one.name); said {
			out = append(out, c)
		}
	}
	switch l.Over {
	case "":
	case overUnset:
		out = append(out, Change{path: []string{"limits", "ingest", "over"}, named: "over"})
	default:
		out = append(out, Change{path: []string{"limits", "ingest", "over"}, named: "over", value: string(l.Over)})
	}
	return out
}

// String is what is set, in the order of the flags; empty for nothing.
func (l TenantIngest) String() string {
	var parts []string
	for _, c := range l.Changes() {
		parts = append(parts, c.String())
	}
	return strings.Join(parts, ", ")
}

// Lapse is a Bound that is a length of time, in seconds.
type Lapse Bound

// LapseOf is a length of time as a Lapse.
func LapseOf(d time.Duration) Lapse { return Lapse(d.Seconds()) }

var errLapse = errors.New("a length of time such as 90s or 30d, none, or default is needed")

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Lapse) UnmarshalText(text []byte) error {
	switch string(text) {
	case "unchanged", "none", "default":
		return (*Bound)(l).UnmarshalText(text)
	}
	d, err := duration.Parse(string(text))
	if err != nil || d < time.Second {
		return errLapse
	}
	*l = LapseOf(d)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (l Lapse) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// String is l as it is spelt.
func (l Lapse) String() string {
	if d, bounded := l.Of(); bounded {
		return duration.String(d)
	}
	return Bound(l).String()
}

// MarshalJSON implements json.Marshaler.
func (l Lapse) MarshalJSON() ([]byte, error) { return Bound(l).MarshalJSON() }

// UnmarshalJSON implements json.Unmarshaler.
func (l *Lapse) UnmarshalJSON(text []byte) error { return (*Bound)(l).UnmarshalJSON(text) }

// Or is l, or what there is by default.
func (l Lapse) Or(byDefault Lapse) Lapse { return Lapse(Bound(l).Or(Bound(byDefault))) }

// Of returns the length of time, and whether there is one.
func (l Lapse) Of() (d time.Duration, bounded bool) {
	if l <= 0 {
		return 0, false
	}
	if float64(l) >= float64(math.MaxInt64/time.Second) {
		return math.MaxInt64, true
	}
	return time.Duration(float64(l) * float64(time.Second)), true
}

// Over is what becomes of readings above a rate.
type Over string

// What may become of them; empty is what the role is set to.
const (
	Delay  Over = "delay"  // they wait in Kafka
	Refuse Over = "refuse" // they are dead letters

	overUnset Over = "default"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *Over) UnmarshalText(text []byte) error {
	switch s := Over(text); s {
	case Delay, Refuse, overUnset:
		*o = s
	case "unchanged":
		*o = ""
	default:
		return fmt.Errorf("%q: %s, %s or default is needed", text, Delay, Refuse)
	}
	return nil
}

// UnmarshalJSON implements json.Unmarshaler. What no version writes counts as nothing said.
func (o *Over) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	if *o = Over(s); *o != Delay && *o != Refuse {
		*o = ""
	}
	return nil
}

// String is o as it is spelt.
func (o Over) String() string {
	if o == "" {
		return string(overUnset)
	}
	return string(o)
}

func (o Over) or(byDefault Over) Over {
	if o == "" || o == overUnset {
		return byDefault
	}
	return o
}
