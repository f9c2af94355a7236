// Package decode turns the payload of a Kafka record into readings, and a reading into the payload of
// one. docs/format/message.md specifies the formats.
//
// It knows nothing of Kafka, clocks or limits: whether a reading's time is acceptable, its tenant
// known, or its record too large is for the caller to say.
package decode

import (
	"fmt"
	"unicode/utf8"

	"binnacle/internal/jsonscan"
	"binnacle/internal/telemetry"
)

// Options say how the records of a topic are read where they don't say it themselves.
type Options struct {
	Format Format `kong:"-"` // of records without a content type; ByLook

	DeviceTag string   `name:"lp-device-tag" help:"Line protocol: the tag that holds the device id." default:"${lp_device_tag=}"`
	TenantTag string   `name:"lp-tenant-tag" help:"Line protocol: the tag that holds the tenant." default:"${lp_tenant_tag=}"`
	Tags      []string `name:"lp-tags" help:"Line protocol tags, and properties of JSON objects, that describe the device. Others are labels." placeholder:"TAG"`
	Metric    string   `name:"lp-metric" help:"Line protocol: name a metric measurement_field (full) or by the field alone (field)." enum:"full,field" default:"full"`

	Resource Names `kong:"-"` // OTLP: resource attributes
	Series   Names `kong:"-"` // remote write: labels
	Object   Names `kong:"-"` // flat JSON: properties
	Buckets  bool  `kong:"-"` // histograms give their buckets, too, each with the label le; else count, sum, min and max alone

	// Valid names, used where a message has none; empty: such a message is bad.
	Tenant string `kong:"-"`
	Device string `kong:"-"`
}

// ForTopic adds what is known of topics to which other systems write with their default settings: telegraf is line protocol with
// the device in the tag host, otlp_metrics is OTLP. What the options already say of the format stays.
func (o Options) ForTopic(topic string) Options {
	switch {
	case o.Format != ByLook:
	case topic == "telegraf":
		o.Format, o.DeviceTag = Line, "host"
	case topic == "otlp_metrics":
		o.Format = OTLP
	}
	return o
}

// Record is what of a Kafka record bears on its readings.
type Record struct {
	Value       []byte
	ContentType string   // of the header content-type, empty if there is none
	Headers     []Header // all of them
	Timestamp   int64    // of the record, milliseconds since 1970: the event time of what has none of its own
}

// Result is what a record holds: every element of it is a reading or bad.
//
// The slices, and each reading's Fields, belong to the Decoder and are overwritten by its next Decode.
// Strings, Labels and Tags may be kept: they are never changed.
type Result struct {
	Readings []telemetry.Reading
	Index    []int // of each reading: its element of the array, or line of the payload, from 0
	Bad      []Bad
	Units    []Unit // of metrics whose unit this Decoder has not told before, or told another
}

// Decoder reads records. It holds the buffers and names that successive records share, and serves one
// goroutine.
type Decoder struct {
	opts     Options
	tags     map[string]bool    // of opts.Tags
	callings map[string]calling // of the properties of objects

	tenants, devices, metrics, labelNames, tagNames interner
	texts                                           interner // of text that is known to be valid UTF-8
	checked                                         interner // of text that is not
	labelSets                                       sets
	shape                                           shape
	units                                           map[unitKey]string
	resources                                       resources

	contentType   string // the last one seen, and what it means
	encoding      encoding
	encodingFault *fault

	// Of the current record.
	origin     origin
	scan       jsonscan.Scanner
	source     []byte // what is scanned
	flat       bool   // JSON may have any shape
	properties properties
	fields     []telemetry.Field
	pairs      []telemetry.Label // labels, or tags, of the current reading
	others     []telemetry.Label // tags, while pairs holds labels
	key        []byte
	groups     groups
	export     export
	writes     writes
	refs       []uint64
	unpacked   []byte // of a packed payload
	out        Result
}

// New makes a Decoder.
func New(opts Options) *Decoder {
	opts.Resource = opts.Resource.or(resourceNames)
	opts.Series = opts.Series.or(seriesNames)
	opts.Object = opts.Object.or(objectNames)
	d := &Decoder{
		opts:       opts,
		tags:       make(map[string]bool, len(opts.Tags)),
		tenants:    newInterner(telemetry.CheckTenant),
		devices:    newInterner(telemetry.CheckDevice),
		metrics:    newInterner(checkName("metric")),
		labelNames: newInterner(checkName("label")),
		tagNames:   newInterner(checkName("tag")),
		texts:      newInterner(func(string) error { return nil }),
		checked:    newInterner(checkText),
		labelSets:  sets{},
		units:      map[unitKey]string{},
		callings:   callings(opts.Object, opts.Tags),
	}
	for _, t := range opts.Tags {
		d.tags[t] = true
	}
	return d
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

// maxKept bounds the buffers that outlive a record: one huge record shall not cost memory for ever.
const maxKept = 1 << 14

// maxDepth bounds the nesting of what is read here by recursion, and so the stack.
const maxDepth = 100

// Decode reads one record. What is wrong with it is in the Result, never an error.
func (d *Decoder) Decode(r Record) Result {
	if cap(d.fields) > maxKept {
		d.fields = nil
	}
	d.origin = origin{tenant: d.opts.Tenant, device: d.opts.Device, now: r.Timestamp}
	d.reset()
	d.payload(r)
	return d.out
}

// reset forgets what the record gave so far: half of a record that turns out to be broken is never taken.
func (d *Decoder) reset() {
	d.fields = d.fields[:0]
	d.out = Result{d.out.Readings[:0], d.out.Index[:0], d.out.Bad[:0], d.out.Units[:0]}
}

func (d *Decoder) payload(r Record) {
	if blanks(r.Value) == len(r.Value) {
		d.bad(Whole, faultf(Empty, "the record has no payload"))
		return
	}
	d.read(r)
}

func (d *Decoder) bad(index int, f *fault) {
	d.out.Bad = append(d.out.Bad, Bad{index, f.reason, f.detail})
}

// broken refuses the record as a whole.
func (d *Decoder) broken(f *fault) {
	d.reset()
	d.bad(Whole, f)
}

// take ends a reading whose fields are those from the given place on, and appends it or says what it lacks.
func (d *Decoder) take(index int, r telemetry.Reading, from int) *fault {
	r.Fields = d.shape.sort(d.fields[from:])
	d.fields = d.fields[:from+len(r.Fields)]
	r.Fields = r.Fields[:len(r.Fields):len(r.Fields)]
	if len(r.Fields) == 0 {
		return faultf(Empty, "the reading has no value")
	}
	d.out.Readings = append(d.out.Readings, r)
	d.out.Index = append(d.out.Index, index)
	return nil
}
