package tenant

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"binnacle/internal/text/duration"
)

// IngestLimits are the limits of one tenant's readings. The tags serve package settings and the tenant document. A rate
// that is passed delays readings, or refuses them where Over says so; a number or a size that is passed refuses them.
type IngestLimits struct {
	Readings       Limit    `name:"ingest-readings" json:"readingsPerSecond,omitempty" help:"Readings a second of a tenant." default:"${tenantlimit=none}"`
	Values         Limit    `name:"ingest-values" json:"valuesPerSecond,omitempty" help:"Values a second of a tenant." default:"${tenantlimit=none}"`
	DeviceReadings Limit    `name:"ingest-device-readings" json:"deviceReadingsPerSecond,omitempty" help:"Readings a second of a device." default:"${tenantlimit=none}"`
	DeviceValues   Limit    `name:"ingest-device-values" json:"deviceValuesPerSecond,omitempty" help:"Values a second of a device." default:"${tenantlimit=none}"`
	Burst          Period   `name:"ingest-burst" json:"burstSeconds,omitempty" help:"Burst above the rates, as the time in which the rate lets it through." default:"${tenantlimit=1m}"`
	OnExcess       OnExcess `name:"ingest-over" json:"over,omitempty" help:"Action on readings above the rates. delay: they wait in Kafka, for --held-for at most; refuse: they become dead letters." default:"${tenantlimit=delay}"`

	Devices     Limit `name:"ingest-devices" json:"devices,omitempty" help:"Devices of a tenant that report within a day." default:"${tenantlimit=none}"`
	NewDevices  Limit `name:"ingest-new-devices" json:"newDevicesPerHour,omitempty" help:"New devices of a tenant in an hour." default:"${tenantlimit=none}"`
	Series      Limit `name:"ingest-series" json:"series,omitempty" help:"Series of a device in a day." default:"${tenantlimit=none}"`
	TotalSeries Limit `name:"ingest-total-series" json:"totalSeries,omitempty" help:"Series of a tenant in a day." default:"${tenantlimit=none}"`
	Payload     Limit `name:"ingest-payload" json:"payloadBytes,omitempty" help:"Size of a record with readings of the tenant, in bytes." default:"${tenantlimit=none}"`
	Labels      Limit `name:"ingest-labels" json:"labels,omitempty" help:"Labels of a reading." default:"${tenantlimit=none}"`

	LabelValues Limit `name:"ingest-label-values" json:"labelValues,omitempty" help:"Values of a label among all devices of the tenant." default:"${tenantlimit=none}"`
}

// Or returns the limits of a tenant: where l says nothing, the limit of byDefault.
func (l IngestLimits) Or(byDefault IngestLimits) IngestLimits {
	out := Ingest{IngestLimits: l}
	ingestLimits.fill(&out, &Ingest{IngestLimits: byDefault})
	return out.IngestLimits
}

// Any reports whether there is a limit to anything.
func (l IngestLimits) Any() bool {
	return max(l.Readings, l.Values, l.DeviceReadings, l.DeviceValues, l.Devices, l.NewDevices, l.Series, l.TotalSeries,
		l.Payload, l.Labels, l.LabelValues) > 0
}

// Ingest is what a tenant document says of readings.
type Ingest struct {
	IngestLimits `kong:"embed"`

	Past   Period `name:"ingest-past" json:"pastSeconds,omitempty" help:"Greatest age of a reading within the retention, such as 400d; none for any age, default for --past of the ingesters." default:"${tenantlimit=default}"`
	Future Period `name:"ingest-future" json:"futureSeconds,omitempty" help:"Furthest that an event time may lie after the Kafka timestamp of its record; default for --future of the ingesters." default:"${tenantlimit=default}"`
}

var ingestLimits = limitTable[Ingest]{
	{"ingest-readings", func(l *Ingest) limitField { return &l.Readings }},
	{"ingest-values", func(l *Ingest) limitField { return &l.Values }},
	{"ingest-device-readings", func(l *Ingest) limitField { return &l.DeviceReadings }},
	{"ingest-device-values", func(l *Ingest) limitField { return &l.DeviceValues }},
	{"ingest-burst", func(l *Ingest) limitField { return &l.Burst }},
	{"ingest-over", func(l *Ingest) limitField { return &l.OnExcess }},
	{"ingest-devices", func(l *Ingest) limitField { return &l.Devices }},
	{"ingest-new-devices", func(l *Ingest) limitField { return &l.NewDevices }},
	{"ingest-series", func(l *Ingest) limitField { return &l.Series }},
	{"ingest-total-series", func(l *Ingest) limitField { return &l.TotalSeries }},
	{"ingest-payload", func(l *Ingest) limitField { return &l.Payload }},
	{"ingest-labels", func(l *Ingest) limitField { return &l.Labels }},
	{"ingest-label-values", func(l *Ingest) limitField { return &l.LabelValues }},
	{"ingest-past", func(l *Ingest) limitField { return &l.Past }},
	{"ingest-future", func(l *Ingest) limitField { return &l.Future }},
}

// Bounds returns the limits that the tenant document sets, as QueryLimits.Bounds does, without those of the ingesters.
func (l Ingest) Bounds() map[string]any { return ingestLimits.bounds(&l) }

// Period is a Limit to a duration, in seconds.
type Period Limit

// PeriodOf returns a duration as a Period.
func PeriodOf(d time.Duration) Period { return Period(d.Seconds()) }

var errPeriod = errors.New("a length of time such as 90s or 30d, none, or default is needed")

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Period) UnmarshalText(text []byte) error {
	switch string(text) {
	case "unchanged", "none", "default":
		return (*Limit)(l).UnmarshalText(text)
	}
	d, err := duration.Parse(string(text))
	if err != nil || d < time.Second {
		return errPeriod
	}
	*l = PeriodOf(d)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (l Period) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// String returns l as flags have it.
func (l Period) String() string {
	if d, bounded := l.Of(); bounded {
		return duration.String(d)
	}
	return Limit(l).String()
}

// MarshalJSON implements json.Marshaler.
func (l Period) MarshalJSON() ([]byte, error) { return Limit(l).MarshalJSON() }

// UnmarshalJSON implements json.Unmarshaler.
func (l *Period) UnmarshalJSON(text []byte) error { return (*Limit)(l).UnmarshalJSON(text) }

func (l *Period) says() Limit { return Limit(*l) }

func (l *Period) value() any { return Limit(*l) }

func (l *Period) take(from limitField) { (*Limit)(l).take((*Limit)(from.(*Period))) }

// Or returns l, or byDefault where l says nothing.
func (l Period) Or(byDefault Period) Period { return Period(Limit(l).Or(Limit(byDefault))) }

// Of returns the length of time, and whether there is one.
func (l Period) Of() (d time.Duration, bounded bool) {
	if l <= 0 {
		return 0, false
	}
	if float64(l) >= float64(math.MaxInt64/time.Second) {
		return math.MaxInt64, true
	}
	return time.Duration(float64(l) * float64(time.Second)), true
}

// OnExcess is what becomes of readings above a rate.
type OnExcess string

// What may become of them; empty is what the role is set to.
const (
	Delay  OnExcess = "delay"  // they wait in Kafka
	Refuse OnExcess = "refuse" // they are dead letters

	excessUnset OnExcess = "default"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *OnExcess) UnmarshalText(text []byte) error {
	switch s := OnExcess(text); s {
	case Delay, Refuse, excessUnset:
		*o = s
	case "unchanged":
		*o = ""
	default:
		return fmt.Errorf("%q: %s, %s or default is needed", text, Delay, Refuse)
	}
	return nil
}

// UnmarshalJSON implements json.Unmarshaler. What no version writes counts as nothing said.
func (o *OnExcess) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	if *o = OnExcess(s); *o != Delay && *o != Refuse {
		*o = ""
	}
	return nil
}

// String returns o as flags have it.
func (o OnExcess) String() string {
	if o == "" {
		return string(excessUnset)
	}
	return string(o)
}

func (o *OnExcess) says() Limit {
	switch *o {
	case "":
		return Default
	case excessUnset:
		return Unset
	}
	return 1
}

func (o *OnExcess) value() any { return string(*o) }

func (o *OnExcess) take(from limitField) {
	if *o = *from.(*OnExcess); *o == excessUnset {
		*o = ""
	}
}
