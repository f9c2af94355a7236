package decode

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"binnacle/internal/telemetry"
	"binnacle/internal/wire/jsonscan"
)

// senmlLabel is a field of a SenML record, by its number in CBOR (RFC 8428, table 4).
type senmlLabel int8

const (
	baseSumLabel senmlLabel = iota - 6
	baseValueLabel
	baseUnitLabel
	baseTimeLabel
	baseNameLabel
	versionLabel
	nameLabel
	unitLabel
	valueLabel
	textLabel
	flagLabel
	sumLabel
	timeLabel
	updateLabel
	dataLabel
)

// senmlNames lists the names of labels, from baseSumLabel on.
var senmlNames = [...]string{"bs", "bv", "bu", "bt", "bn", "bver", "n", "u", "v", "vs", "vb", "s", "t", "ut", "vd"}

func senmlLabelOf(name []byte) (l senmlLabel, known bool) {
	if len(name) > 4 {
		return 0, false
	}
	for i, n := range senmlNames {
		if len(n) == len(name) && n == string(name) {
			return senmlLabel(i) + baseSumLabel, true
		}
	}
	return 0, false
}

// labelSet is a set of known labels.
type labelSet uint16

func (l senmlLabel) set() labelSet       { return 1 << (l - baseSumLabel) }
func (s labelSet) has(l senmlLabel) bool { return s&l.set() != 0 }

var (
	baseLabels  = versionLabel.set() - 1                                                 // all before it in the table
	oneOfLabels = valueLabel.set() | textLabel.set() | flagLabel.set() | dataLabel.set() // a record has at most one
	valueLabels = oneOfLabels | sumLabel.set()
)

// senmlRecord is a record of a SenML pack (RFC 8428), as it was written.
type senmlRecord struct {
	has                labelSet
	others             []string // its labels that are not known here
	baseName, name     string
	baseUnit, unit     string
	baseTime, time     int64 // nanoseconds
	baseValue, baseSum telemetry.Value
	value, sum         telemetry.Value
	fault              *fault // why the record is refused
	packFault          *fault // why the pack is refused
}

// senmlField reads the value of the current field, in JSON or CBOR. It passes faults to the record.
type senmlField interface {
	text(r *senmlRecord, label string) string
	data(r *senmlRecord, label string) string // bytes, in base64url
	flag(r *senmlRecord, label string) bool
	number(r *senmlRecord, label string) telemetry.Value // not a value where it is no number
	seconds(r *senmlRecord, label string) int64          // nanoseconds
	skip()
}

func (r *senmlRecord) clear() { *r = senmlRecord{others: r.others[:0]} }

// wrong records a fault. Of several it keeps the same one, in whatever order the fields come.
func (r *senmlRecord) wrong(f *fault) { keepLeast(&r.fault, f) }

func keepLeast(to **fault, f *fault) {
	if *to == nil || f.detail < (*to).detail {
		*to = f
	}
}

func (r *senmlRecord) refusePack(format string, args ...any) {
	keepLeast(&r.packFault, faultf(Undecodable, format, args...))
}

// other skips a field with a label that is not known here. A label that ends in "_" must be understood: it refuses the
// pack (RFC 8428, 4.4). So does a label that occurs twice: which of the two counts is not defined.
func (r *senmlRecord) other(name string, f senmlField) {
	if strings.HasSuffix(name, "_") {
		r.refusePack("the field %.80q must be understood, and is not known here", name)
	}
	switch {
	case slices.Contains(r.others, name):
		r.refusePack("a record has the field %.80q twice", name)
	case len(r.others) == maxOthers:
		r.refusePack("a record has more than %d fields that are not known here", maxOthers)
	default:
		r.others = append(r.others, name)
	}
	f.skip()
}

// maxOthers bounds the fields of a record that are not known here: each is compared with all of them.
const maxOthers = 64

func (r *senmlRecord) take(l senmlLabel, f senmlField) {
	label := senmlNames[l-baseSumLabel]
	if r.has.has(l) {
		r.refusePack("a record has the field %s twice", label)
	}
	r.has |= l.set()
	switch l {
	case baseNameLabel:
		r.baseName = f.text(r, label)
	case nameLabel:
		r.name = f.text(r, label)
	case baseUnitLabel:
		r.baseUnit = f.text(r, label)
	case unitLabel:
		r.unit = f.text(r, label)
	case baseTimeLabel:
		r.baseTime = f.seconds(r, label)
	case timeLabel:
		r.time = f.seconds(r, label)
	case baseValueLabel:
		r.baseValue = f.number(r, label)
	case baseSumLabel:
		r.baseSum = f.number(r, label)
	case valueLabel:
		r.value = f.number(r, label)
	case sumLabel:
		r.sum = f.number(r, label)
	case textLabel:
		r.value = telemetry.TextValue(f.text(r, label))
	case dataLabel:
		r.value = telemetry.TextValue(f.data(r, label))
	case flagLabel:
		r.value = telemetry.BoolValue(f.flag(r, label))
	case versionLabel:
		if v := asFloat(f.number(r, label)); !(v >= 1 && v <= maxVersion && v == math.Trunc(v)) {
			r.refusePack("bver is not a version of SenML from 1 to %d", maxVersion)
		}
	case updateLabel:
		f.skip()
	}
}

// pack is the state of reading a SenML pack: the base values that apply to the current record.
type pack struct {
	name, unit string
	time       int64 // nanoseconds
	value, sum telemetry.Value
	rest       int32    // nanoseconds of the current record after its millisecond
	refused    labelSet // base fields with their newest value in a refused record
	record     senmlRecord
	index      int
}

// senmlReader reads packs of SenML.
type senmlReader struct {
	*Decoder
	scan jsonscan.Scanner
	pack pack
}

func newSenMLReader(d *Decoder) reader { return &senmlReader{Decoder: d} }

func (d *senmlReader) read(r Record, _ map[string]string) { d.senmlJSON(r.Value) }

// senmlCBORReader reads packs in CBOR.
type senmlCBORReader struct{ *senmlReader }

func newSenMLCBORReader(d *Decoder) reader { return senmlCBORReader{d.readerOf(SenML).(*senmlReader)} }

func (d senmlCBORReader) read(r Record, _ map[string]string) { d.senmlCBOR(r.Value) }

func (p *pack) begin(d *Decoder) {
	d.groups.reset()
	*p = pack{record: p.record}
}

// maxVersion is the highest version of SenML that is read here.
const maxVersion = 10

// relative is the number of seconds below which a time is relative to the record's own: RFC 8428, 4.5.3.
const relative = 1 << 28

// maxSenMLName is the bytes of the longest device and metric, and what stands between them.
const maxSenMLName = 2*utf8.UTFMax*telemetry.MaxNameRunes + 1

// senml adds the values of the pack's current record. It reports what is wrong with the record in the Result; only a
// fault of the pack ends reading.
func (d *senmlReader) senml() *fault {
	p := &d.pack
	r, index := &p.record, p.index
	p.index++
	if r.packFault != nil {
		return r.packFault
	}
	if d.made.over {
		return d.made.tooMuch()
	}
	if f := p.base(r); f != nil {
		d.addBad(index, f)
		return nil
	}
	if r.has&valueLabels == 0 {
		if r.has&baseLabels == 0 {
			d.addBad(index, faultf(Empty, "the record has no value"))
		}
		return nil
	}
	if n := len(p.name) + len(r.name); n > maxSenMLName {
		d.addBad(index, faultf(Name, "the name has %d bytes, more than the longest device and metric", n))
		return nil
	}
	device, metric := senmlName(p.name + r.name)
	reading := telemetry.Reading{Device: device}
	var f *fault
	if reading.Time, f = d.senmlTime(r); f != nil {
		d.addBad(index, f)
		return nil
	}
	if device != "" {
		known, err := d.devices.get([]byte(device))
		if err != nil {
			d.addBad(index, faultf(Device, "%v", err))
			return nil
		}
		reading.Device = known
	}
	if f := d.resolveOrigin(&reading, "the record"); f != nil {
		d.addBad(index, f)
		return nil
	}
	if r.has&oneOfLabels != 0 {
		v := r.value
		if r.has.has(valueLabel) {
			v = plus(v, p.value)
		}
		d.senmlValue(&reading, metric, v)
	}
	if r.has.has(sumLabel) {
		d.senmlValue(&reading, metric+"_sum", plus(r.sum, p.sum))
	}
	return nil
}

// senmlValue adds a value of the pack's current record to the place and time of r.
func (d *senmlReader) senmlValue(r *telemetry.Reading, metric string, v telemetry.Value) {
	p, index := &d.pack, d.pack.index-1
	name, err := d.metrics.get([]byte(metric))
	if err != nil {
		d.addBad(index, faultf(Name, "%v", err))
		return
	}
	unit := p.record.unit
	if unit == "" {
		unit = p.unit
	}
	if len(unit) <= maxInternedBytes {
		d.unit(r.Tenant, name, []byte(unit))
	}
	source, _ := d.groups.sender(r.Tenant, r.Device)
	from := pointSource{index: index, source: source, sender: source, rest: p.rest}
	d.group(from, r, telemetry.Field{Metric: name, Value: v})
}

// base takes over the base values of a record, which apply to itself and all that follow. If the record is refused, so
// is every later one that would use them, until a record gives them again.
func (p *pack) base(r *senmlRecord) *fault {
	if r.fault == nil && bits.OnesCount16(uint16(r.has&oneOfLabels)) > 1 {
		r.fault = faultf(Value, "the record has more than one of v, vs, vb and vd")
	}
	if given := r.has & baseLabels; r.fault != nil {
		p.refused |= given
		return r.fault
	} else {
		p.refused &^= given
	}
	if p.refused&r.needs() != 0 {
		// Its own base fields are good by themselves: they stay.
		r.fault = faultf(Value, "the record needs base fields of an earlier record that is refused")
	}
	if r.has.has(baseNameLabel) {
		p.name = r.baseName
	}
	if r.has.has(baseUnitLabel) {
		p.unit = r.baseUnit
	}
	if r.has.has(baseTimeLabel) {
		p.time = r.baseTime
	}
	if r.has.has(baseValueLabel) {
		p.value = r.baseValue
	}
	if r.has.has(baseSumLabel) {
		p.sum = r.baseSum
	}
	return r.fault
}

// needs returns the base fields that the values of a record are made of.
func (r *senmlRecord) needs() (s labelSet) {
	if r.has&valueLabels == 0 {
		return 0
	}
	s = baseNameLabel.set() | baseTimeLabel.set()
	if !r.has.has(unitLabel) {
		s |= baseUnitLabel.set()
	}
	if r.has.has(valueLabel) {
		s |= baseValueLabel.set()
	}
	if r.has.has(sumLabel) {
		s |= baseSumLabel.set()
	}
	return s
}

// senmlTime returns the time of a record in milliseconds, and keeps the rest in nanoseconds.
func (d *senmlReader) senmlTime(r *senmlRecord) (millis int64, f *fault) {
	at := d.pack.time + r.time
	millis = telemetry.FloorDiv(at, 1e6)
	d.pack.rest = int32(at - millis*1e6)
	if at >= relative*1e9 {
		return millis, nil
	}
	now, f := d.recordTime("the record")
	return now + millis, f
}

// plus adds a base, if there is one, to a number: integers stay integers where they can.
func plus(v, base telemetry.Value) telemetry.Value {
	if base.Kind() == 0 {
		return v
	}
	if v.Kind() == telemetry.Int && base.Kind() == telemetry.Int {
		if sum := v.Int() + base.Int(); (sum > v.Int()) == (base.Int() > 0) {
			return telemetry.IntValue(sum)
		}
	}
	return telemetry.FloatValue(asFloat(v) + asFloat(base))
}

// asFloat returns a number as a float64, NaN for what is no number.
func asFloat(v telemetry.Value) float64 {
	switch v.Kind() {
	case telemetry.Int:
		return float64(v.Int())
	case telemetry.Float:
		return v.Float()
	}
	return math.NaN()
}

// senmlName splits a name into device and metric. SenML has one name for both, a base and the rest together, and where
// the base ended means nothing (RFC 8428, 4.6).
func senmlName(name string) (device, metric string) {
	end := -1
	switch slash := strings.IndexByte(name, '/'); {
	case slash == 0:
		return "", name[1:]
	case len(name) >= 4 && strings.EqualFold(name[:4], "urn:"):
		end = urnEnd(name)
	case slash > 0:
		end = slash
	default:
		if end = strings.LastIndexByte(name, ':'); end <= 0 {
			return "", name
		}
	}
	if end < len(name) {
		device, metric = name[:end], name[end+1:]
	} else {
		device = name
	}
	return device, cmp.Or(metric, "value")
}

// urn is how URNs that begin alike name a device: how many parts between colons they have, and what may follow.
type urn struct {
	begin string
	parts int
	ends  string
}

// urns takes the first that fits. In a URN of RFC 9039 an underscore begins a component of the device.
var urns = []urn{{"urn:dev:", 4, "/:_"}, {"urn:gsma:", 4, "/:"}, {"urn:epc:id:", 5, "/:"}, {"urn:", 3, "/:"}}

// urnEnd returns where the device ends in a name that begins with a URN.
func urnEnd(name string) int {
	i := slices.IndexFunc(urns, func(u urn) bool {
		return len(name) >= len(u.begin) && strings.EqualFold(name[:len(u.begin)], u.begin)
	})
	at := 0
	for range urns[i].parts - 1 {
		n := strings.IndexByte(name[at:], ':')
		if n < 0 {
			return len(name)
		}
		at += n + 1
	}
	if n := strings.IndexAny(name[at:], urns[i].ends); n >= 0 {
		return at + n
	}
	return len(name)
}

// maxSeconds bounds a time and a base time, so that their sum in nanoseconds is an int64. It is the year 2115.
const maxSeconds = 46e8
