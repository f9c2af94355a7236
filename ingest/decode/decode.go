// Package decode turns the payload of a Kafka record into readings, and a reading into the payload of
// one. docs/reference/payloads.md specifies the formats.
//
// It knows nothing of Kafka, clocks or limits: whether a reading's time is acceptable, its tenant
// known, or its record too large is for the caller to say.
package decode

import (
	"cmp"
	"fmt"
	"unicode/utf8"

	"binnacle/internal/telemetry"
	"binnacle/internal/wire/jsonscan"
)

// Record is what of a Kafka record bears on its readings.
type Record struct {
	Value       []byte
	ContentType string   // value of the header content-type, empty without one
	Headers     []Header // all of them
	// Timestamp is the record's, in milliseconds since 1970: the event time of elements without a time.
	Timestamp int64
}

// Result is what a record holds: every element of it is a reading or bad.
//
// The slices, and each reading's Fields, belong to the Decoder and are overwritten by its next Decode.
// Strings, Labels and Tags may be kept: they are never changed.
type Result struct {
	Readings []telemetry.Reading
	Index    []int // index of every reading in the array, or line of the payload, from 0
	Bad      []Bad
	Units    []Unit // units of metrics that this Decoder has not reported before

	// Unknown is the schema missing to decode the record, nil for none. With one the Result has nothing else.
	Unknown *UnknownSchema
}

// Decoder reads records. It holds the buffers and names that successive records share, and serves one
// goroutine.
type Decoder struct {
	opts Options
	tags map[string]bool // names in opts.Tags

	tenants, devices, metrics, labelNames, tagNames interner
	texts                                           interner      // text that is known to be valid UTF-8
	checked                                         interner      // text that must be checked
	headers                                         cache[string] // texts of headers by their bytes
	labelSets                                       sets
	places                                          []string // metrics of the last reading that metric was asked for
	units                                           map[unitKey]string

	formats []format
	readers []reader // one for each row of formats; nil until it is needed
	chosen  chosen   // the choice for the last content type

	// Of the current record.
	origin origin
	made   made
	fields fields
	pairs  []telemetry.Label // labels, or tags, of the current reading
	others []telemetry.Label // tags, while pairs holds labels
	key    []byte
	groups groups
	out    Result
}

// New makes a Decoder.
func New(opts Options) *Decoder {
	opts.setDefaults()
	opts.Tenant = cmp.Or(opts.Set.Tenant, opts.Bound, opts.Tenant)
	opts.Device = cmp.Or(opts.Set.Device, opts.Device)
	d := &Decoder{
		opts:       opts,
		tags:       make(map[string]bool, len(opts.Tags)),
		metrics:    newInterner(nameBytes, checkName("metric")),
		labelNames: newInterner(nameBytes, checkName("label")),
		tagNames:   newInterner(nameBytes, checkName("tag")),
		texts:      newInterner(nameBytes, func(string) error { return nil }),
		checked:    newInterner(nameBytes, checkText),
		headers:    newCache[string](deviceBytes, 2),
		labelSets:  newSets(),
		units:      map[unitKey]string{},
		formats:    formats(),
	}
	d.made.meter = opts.Meter
	d.readers = make([]reader, len(d.formats))
	for _, t := range opts.Tags {
		d.tags[t] = true
	}
	d.tenants, d.devices = newInterner(nameBytes, d.checkTenant), newInterner(deviceBytes, d.checkDevice)
	return d
}

// checkTenant reports what is wrong with a tenant that a message names: little where another one counts anyway.
func (d *Decoder) checkTenant(name string) error {
	if d.opts.Set.Tenant != "" {
		return checkText(name)
	}
	return telemetry.CheckTenant(name)
}

// checkDevice does for devices what checkTenant does for tenants.
func (d *Decoder) checkDevice(id string) error {
	if d.opts.Set.Device != "" {
		return checkText(id)
	}
	return telemetry.CheckDevice(id)
}

func checkText(s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%.80q is not valid UTF-8", s)
	}
	return nil
}

func checkName(what string) func(string) error {
	return func(name string) error { return telemetry.CheckName(what, name) }
}

// maxKept bounds the buffers that outlive a record: one huge record must not occupy memory afterwards.
const maxKept = 1 << 14

// maxDepth is how many objects, arrays, records and the like may be nested, in every format.
const maxDepth = jsonscan.MaxDepth

// Decode reads one record. What is wrong with it is in the Result, never an error. A record on which a decoder panics
// is refused too, or it would end the process again after each restart.
func (d *Decoder) Decode(r Record) (out Result) {
	defer func() {
		if p := recover(); p != nil {
			*d = *New(d.opts)
			d.addBad(Whole, faultf(Undecodable, "%s: %.200v", panicked, p))
			out = d.out
		}
	}()
	if cap(d.fields.came) > maxKept || cap(d.fields.sorted) > maxKept {
		d.fields.release()
	}
	d.origin = origin{}
	d.origin.tenant, d.origin.device, d.origin.now = d.opts.Tenant, d.opts.Device, r.Timestamp
	d.reset()
	d.made.begin(len(r.Value))
	d.record(r)
	if d.origin.module != "" {
		d.labelModule()
	}
	if d.opts.Sequence != "" && len(r.Headers) > 0 {
		d.numberAll(r.Headers)
	}
	if d.made.over {
		d.refuseRecord(d.made.tooMuch())
	}
	if names := d.opts.Set; names != (Names{}) {
		for i := range d.out.Readings {
			r := &d.out.Readings[i]
			r.Tenant, r.Device = cmp.Or(names.Tenant, r.Tenant), cmp.Or(names.Device, r.Device)
		}
	}
	return d.out
}

// panicked begins the detail of a record on which a decoder has panicked: a fault of Binnacle.
const panicked = "the decoder has failed, please report it"

func (d *Decoder) record(r Record) {
	if len(r.ContentType) > 0 && r.ContentType[0] >= 0x80 {
		r.ContentType = amqpText([]byte(r.ContentType))
	}
	if enveloped(r.Headers) {
		if f := d.hubHeaders(&r); f != nil {
			d.addBad(Whole, f)
			return
		}
	}
	d.read(r)
}

// reset forgets what the record gave so far: half of a broken record is never taken.
func (d *Decoder) reset() {
	d.fields.sorted = d.fields.sorted[:0]
	o := &d.out
	o.Readings, o.Index, o.Bad, o.Units, o.Unknown = o.Readings[:0], o.Index[:0], o.Bad[:0], o.Units[:0], nil
}

// maxDetails is how many Bads of a record have a Detail of their own; a payload of zeros has half as many as bytes.
const maxDetails = 100

func (d *Decoder) addBad(index int, f *fault) {
	d.made.message = 0
	bad := Bad{Index: index, Reason: f.reason, Detail: f.detail}
	if n := len(d.out.Bad); n >= maxDetails {
		if last := &d.out.Bad[n-1]; last.Reason == f.reason && last.Index >= 0 && last.Index+last.More+1 == index {
			last.More++
			return
		}
		bad.Detail = "as others of the record"
	}
	d.made.add(faultBytes + len(bad.Detail))
	d.out.Bad = append(d.out.Bad, bad)
}

// refuseRecord refuses the record as a whole. Units of its metrics are reported again by later records.
func (d *Decoder) refuseRecord(f *fault) {
	for _, u := range d.out.Units {
		delete(d.units, unitKey{u.Tenant, u.Metric})
	}
	d.reset()
	d.addBad(Whole, f)
}

// addReading ends a reading with the values in d.fields, and appends it or returns what it lacks.
func (d *Decoder) addReading(index int, r *telemetry.Reading) *fault {
	var ambiguous string
	if r.Fields, ambiguous = d.fields.end(); ambiguous != "" {
		return faultf(Name, "the metric %q has two values", ambiguous)
	}
	if len(r.Fields) == 0 {
		return faultf(Empty, "the reading has no value")
	}
	d.append(index, r)
	return nil
}

// metric returns the name of the metric at a place in the reading. It is most often the last reading's there.
func (d *Decoder) metric(place int, raw []byte) (string, error) {
	if err := d.made.part(fieldBytes + len(raw)); err != nil {
		return "", err
	}
	if place < len(d.places) && d.places[place] == string(raw) {
		return d.places[place], nil
	}
	name, err := d.metrics.get(raw)
	if err != nil {
		return "", faultf(Name, "%v", err)
	}
	if place < len(d.places) {
		d.places[place] = name
	} else if place == len(d.places) && place < maxKept {
		d.places = append(d.places, name)
	}
	return name, nil
}

func (d *Decoder) append(index int, r *telemetry.Reading) {
	d.made.reading(r)
	if known := d.devices.last; d.opts.Slots && known.text == r.Device {
		r.Slot = &known.value
	}
	d.out.Readings = append(d.out.Readings, *r)
	d.out.Index = append(d.out.Index, index)
}

// Unit is what a metric is measured in, as its sender writes it: By, Cel, ms.
type Unit struct{ Tenant, Metric, Unit string }

// unit reports a metric's unit, once until the unit changes.
func (d *Decoder) unit(tenant, metric string, raw []byte) {
	if len(raw) == 0 || len(raw) > maxInternedBytes {
		return
	}
	key := unitKey{tenant, metric}
	if known, ok := d.units[key]; ok && known == string(raw) {
		return
	}
	unit, err := d.checked.get(raw)
	if err != nil {
		return
	}
	if len(d.units) >= maxUnits {
		clear(d.units)
	}
	d.units[key] = unit
	d.out.Units = append(d.out.Units, Unit{tenant, metric, unit})
}

// maxUnits bounds the remembered units.
const maxUnits = 1 << 13

type unitKey struct{ tenant, metric string }
