// Package decode turns the payload of a Kafka record into readings, and a reading into the payload of
// one. The formats are JSON and Influx line protocol; docs/format/message.md is their specification.
//
// It knows nothing of Kafka, clocks or limits: whether a reading's time is acceptable, its tenant
// known, or its record too large is for the caller to say.
package decode

import (
	"mime"
	"strings"

	"binnacle/internal/jsonscan"
	"binnacle/internal/telemetry"
)

// Options say how line protocol names tenant and device, and what stands in where a message names none.
type Options struct {
	DeviceTag string   // the line protocol tag that holds the device id
	TenantTag string   // the line protocol tag that holds the tenant
	Tags      []string // line protocol tags that describe the device; all others are labels
	BareField bool     // metric = field; else measurement_field

	Tenant, Device string // valid names, used where a message has none; empty: such a message is bad
}

// Record is what of a Kafka record bears on its readings.
type Record struct {
	Value       []byte
	ContentType string // of the header content-type, empty if there is none
	Timestamp   int64  // of the record, milliseconds since 1970: the event time of a line without one
}

// Result is what a record holds: every element of it is a reading or bad.
//
// The slices, and each reading's Fields, belong to the Decoder and are overwritten by its next Decode.
// Strings, Labels and Tags may be kept: they are never changed.
type Result struct {
	Readings []telemetry.Reading
	Index    []int // of each reading: its element of the array, or line of the payload, from 0
	Bad      []Bad
}

// Decoder reads records. It holds the buffers and names that successive records share, and serves one
// goroutine.
type Decoder struct {
	opts Options
	tags map[string]bool // of opts.Tags

	tenants, devices, metrics, labelNames, tagNames, texts interner
	labelSets                                              sets
	shape                                                  shape

	contentType string // the last one seen, and what it means
	format      format
	formatFault *fault

	// Of the current record.
	scan   jsonscan.Scanner
	fields []telemetry.Field
	pairs  []telemetry.Label // labels, or tags, of the current reading
	others []telemetry.Label // tags, while pairs holds labels
	key    []byte
	out    Result
}

// New makes a Decoder.
func New(opts Options) *Decoder {
	d := &Decoder{
		opts:       opts,
		tags:       make(map[string]bool, len(opts.Tags)),
		tenants:    newInterner(telemetry.CheckTenant),
		devices:    newInterner(telemetry.CheckDevice),
		metrics:    newInterner(checkName("metric")),
		labelNames: newInterner(checkName("label")),
		tagNames:   newInterner(checkName("tag")),
		texts:      newInterner(func(string) error { return nil }),
		labelSets:  sets{},
	}
	for _, t := range opts.Tags {
		d.tags[t] = true
	}
	return d
}

func checkName(what string) func(string) error {
	return func(name string) error { return telemetry.CheckName(what, name) }
}

// maxKept bounds the buffers that outlive a record: one huge record shall not cost memory for ever.
const maxKept = 1 << 14

// Decode reads one record. What is wrong with it is in the Result, never an error.
func (d *Decoder) Decode(r Record) Result {
	if cap(d.fields) > maxKept {
		d.fields = nil
	}
	d.fields = d.fields[:0]
	d.out = Result{d.out.Readings[:0], d.out.Index[:0], d.out.Bad[:0]}
	d.decode(r)
	return d.out
}

func (d *Decoder) decode(r Record) {
	first := firstByte(r.Value)
	if first == 0 {
		d.bad(Whole, faultf(Empty, "the record has no payload"))
		return
	}
	f, fault := d.formatOf(r.ContentType)
	if f.kind == unstated && (first == '{' || first == '[') {
		f.kind = jsonFormat
	}
	switch {
	case fault != nil:
		d.bad(Whole, fault)
	case f.kind == jsonFormat:
		d.json(r.Value)
	case f.kind == lineFormat:
		d.lines(r, f.millis)
	default:
		d.bad(Whole, faultf(ContentType, "no content-type, and the payload does not begin with { or ["))
	}
}

func (d *Decoder) bad(index int, f *fault) {
	d.out.Bad = append(d.out.Bad, Bad{index, f.reason, f.detail})
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

type formatKind uint8

const (
	unstated formatKind = iota
	jsonFormat
	lineFormat
)

type format struct {
	kind   formatKind
	millis func(units int64) (int64, bool) // line protocol times to milliseconds, rounded down
}

func (d *Decoder) formatOf(contentType string) (format, *fault) {
	if contentType != d.contentType {
		d.contentType = contentType
		d.format, d.formatFault = parseContentType(contentType)
	}
	return d.format, d.formatFault
}

func parseContentType(s string) (format, *fault) {
	if strings.TrimSpace(s) == "" {
		return format{}, nil
	}
	media, params, err := mime.ParseMediaType(s)
	switch {
	case err != nil:
		return format{}, faultf(ContentType, "content-type %.80q: %v", s, err)
	case media == "application/json":
		return format{kind: jsonFormat}, nil
	case media == "text/plain" && params["format"] == "influx":
		m, ok := precisions[params["precision"]]
		if !ok {
			return format{}, faultf(ContentType, "content-type %.80q: precision is ns, us, ms or s", s)
		}
		return format{kind: lineFormat, millis: m}, nil
	}
	return format{}, faultf(ContentType, "content-type %.80q is not application/json or text/plain; format=influx", s)
}

// firstByte is the first byte that is no blank, 0 if there is none.
func firstByte(b []byte) byte {
	for _, c := range b {
		if !jsonscan.Blank(c) {
			return c
		}
	}
	return 0
}
