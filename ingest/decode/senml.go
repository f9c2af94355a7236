package decode

import (
	"math"
	"strings"

	"binnacle/internal/telemetry"
)

// senmlRecord is a record of a SenML pack (RFC 8428), as it was written. A nil pointer is a field that is not there.
type senmlRecord struct {
	baseName, name      string
	baseUnit, unit      string
	baseTime, time      int64 // nanoseconds
	baseValue, baseSum  *telemetry.Value
	value, sum          *telemetry.Value // number
	text                *string          // a string, or bytes in base64url
	flag                *bool
	version             int64
	unknown             string // a field that must be understood, and is not
	hasBaseName, isBase bool
	fault               *fault
}

// pack is the place where the reader of a SenML pack stands: the base values that hold from a record on.
type pack struct {
	name, unit string
	time       int64 // nanoseconds
	value, sum *telemetry.Value
	record     senmlRecord
	sources    map[string]int32
	index      int
}

func (p *pack) begin(d *Decoder) {
	d.groups.reset()
	if p.sources == nil {
		p.sources = map[string]int32{}
	}
	clear(p.sources)
	*p = pack{sources: p.sources}
}

// maxVersion is the version of SenML that is read here.
const maxVersion = 10

// relative is the number of seconds below which a time is relative to the record's own: RFC 8428, 4.5.3.
const relative = 1 << 28

// senml takes a record of a pack. What is wrong with it is told in the Result: the records behind it are right by
// themselves.
func (d *Decoder) senml(r *senmlRecord) {
	p := &d.pack
	index := p.index
	p.index++
	if f := p.base(r); f != nil {
		d.bad(index, f)
		return
	}
	if r.value == nil && r.sum == nil && r.text == nil && r.flag == nil {
		if !r.isBase {
			d.bad(index, faultf(Empty, "the record has no value"))
		}
		return
	}
	device, metric := senmlName(p.name, r.name)
	reading := telemetry.Reading{Device: device, Time: p.at(r, d.origin.now)}
	if device != "" {
		known, err := d.devices.get([]byte(device))
		if err != nil {
			d.bad(index, faultf(Device, "%v", err))
			return
		}
		reading.Device = known
	}
	if f := d.place(&reading, "the record"); f != nil {
		d.bad(index, f)
		return
	}
	source, ok := p.sources[reading.Device]
	if !ok {
		source = int32(len(p.sources))
		p.sources[reading.Device] = source
	}
	add := func(metric string, v telemetry.Value) {
		name, err := d.metrics.get([]byte(metric))
		if err != nil {
			d.bad(index, faultf(Name, "%v", err))
			return
		}
		unit := r.unit
		if unit == "" {
			unit = p.unit
		}
		d.unit(reading.Tenant, name, []byte(unit))
		d.groups.add(index, source, &reading, telemetry.Field{Metric: name, Value: v})
	}
	switch {
	case r.value != nil:
		add(metric, plus(*r.value, p.value))
	case r.flag != nil:
		add(metric, telemetry.BoolValue(*r.flag))
	case r.text != nil:
		add(metric, telemetry.TextValue(*r.text))
	}
	if r.sum != nil {
		add(metric+"_sum", plus(*r.sum, p.sum))
	}
}

// base takes the base values of a record, which hold for itself and all behind it.
func (p *pack) base(r *senmlRecord) *fault {
	switch {
	case r.fault != nil:
		return r.fault
	case r.unknown != "":
		return faultf(Undecodable, "the field %.80q must be understood, and is not", r.unknown)
	case r.version > maxVersion:
		return faultf(Undecodable, "version %d of SenML; %d is read here", r.version, maxVersion)
	}
	if r.hasBaseName {
		p.name = r.baseName
	}
	if r.baseUnit != "" {
		p.unit = r.baseUnit
	}
	if r.baseTime != 0 {
		p.time = r.baseTime
	}
	if r.baseValue != nil {
		p.value = r.baseValue
	}
	if r.baseSum != nil {
		p.sum = r.baseSum
	}
	return nil
}

// at is the time of a record, in milliseconds.
func (p *pack) at(r *senmlRecord, now int64) int64 {
	at := p.time + r.time
	if at < relative*1e9 {
		return now + floorDiv(at, 1e6)
	}
	return floorDiv(at, 1e6)
}

// plus adds a base to a value: integers stay integers where they can.
func plus(v telemetry.Value, base *telemetry.Value) telemetry.Value {
	if base == nil {
		return v
	}
	if v.Kind() == telemetry.Int && base.Kind() == telemetry.Int {
		if sum := v.Int() + base.Int(); (sum > v.Int()) == (base.Int() > 0) {
			return telemetry.IntValue(sum)
		}
	}
	return telemetry.FloatValue(asFloat(v) + asFloat(*base))
}

func asFloat(v telemetry.Value) float64 {
	if v.Kind() == telemetry.Int {
		return float64(v.Int())
	}
	return v.Float()
}

// senmlName splits a name into device and metric. SenML has one name for both, put together from a base and the rest.
func senmlName(base, rest string) (device, metric string) {
	switch {
	case base == "" && !strings.HasPrefix(rest, "urn:"):
		return "", rest
	case base == "":
		device, metric, _ = strings.Cut(rest, "/")
	case base[0] == '/':
		return "", strings.Trim(base+rest, "/")
	default:
		var path string
		device, path, _ = strings.Cut(base, "/")
		metric = strings.Trim(path+rest, "/")
	}
	if metric == "" {
		metric = "value"
	}
	return strings.TrimRight(device, ":_.-"), metric
}

// maxSeconds bounds a time and a base time, so that their sum in nanoseconds is an int64. It is the year 2115.
const maxSeconds = 46e8

// seconds are a float64's, to the microsecond, in nanoseconds.
func seconds(f float64) (int64, *fault) {
	if !(math.Abs(f) < maxSeconds) {
		return 0, faultf(Time, "time %v is too far away", f)
	}
	return int64(math.Round(f*1e6)) * 1e3, nil
}
