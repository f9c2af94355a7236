package decode

import (
	"encoding/binary"
	"fmt"
	"mime"
	"slices"
	"strings"
	"unicode/utf8"

	"binnacle/internal/wire/jsonscan"
)

// Format names how a payload is written. As Options.Format it reads the records of a topic that don't say it
// themselves.
type Format string

// The formats. docs/reference/payloads.md has a section for each.
const (
	ByLook       Format = ""               // recognized by the first bytes
	JSON         Format = "json"           // messages, or OTLP in JSON
	FlatJSON     Format = "json-flat"      // objects of any shape: a property without another role is a value
	Line         Format = "influx"         // line protocol
	OTLP         Format = "otlp_proto"     // OpenTelemetry metrics in protobuf
	OTLPJSON     Format = "otlp_json"      // OpenTelemetry metrics in JSON
	RemoteWrite  Format = "remote-write"   // a body of Prometheus remote write 1.0
	RemoteWrite2 Format = "remote-write-2" // a body of Prometheus remote write 2.0
	Registry     Format = "registry"       // Avro or JSON with a schema in a registry
	SenML        Format = "senml"          // SenML in JSON
	SenMLCBOR    Format = "senml-cbor"     // SenML in CBOR
)

// format is a row of the table of formats.
type format struct {
	name      Format
	media     []media
	sniff     func(payload []byte) bool // recognizes a payload without a content type; nil: none
	newReader func(*Decoder) reader
}

// reader reads the payloads of one format for a Decoder. It holds what successive records of the format share.
type reader interface {
	// read adds the content of a payload that is not blank to the Decoder's result. params are its content type's.
	read(r Record, params map[string]string)
}

// media is a content type that means a format.
type media struct {
	name         string
	param, value string                      // a parameter that it must have; an empty value: that it must not have
	when         func(headers []Header) bool // condition on the record's headers; nil for none
}

// formats returns the table of formats. Content types and payloads take the first row that fits.
func formats() []format {
	const protobuf, json = "application/x-protobuf", "application/json"
	return []format{
		{Registry, []media{{name: "application/vnd.confluent.avro"}, {name: "application/vnd.confluent.json"}},
			looksRegistered, newRegistryReader},
		{SenMLCBOR, []media{{name: "application/senml+cbor"}, {name: "application/sensml+cbor"}},
			looksLikeCBOR, newSenMLCBORReader},
		{SenML, []media{{name: "application/senml+json"}, {name: "application/sensml+json"}}, nil, newSenMLReader},
		{RemoteWrite, []media{{name: protobuf, param: "proto", value: "prometheus.WriteRequest"},
			{name: protobuf, param: "proto", when: isRemoteWrite}}, nil, newWriteReader},
		{RemoteWrite2, []media{{name: protobuf, param: "proto", value: "io.prometheus.write.v2.Request"}},
			nil, newWrite2Reader},
		{OTLP, []media{{name: protobuf, param: "proto",
			value: "opentelemetry.proto.collector.metrics.v1.ExportMetricsServiceRequest"}, {name: protobuf, param: "proto"}},
			looksLikeOTLP, newOTLPReader},
		{FlatJSON, []media{{name: json, param: "format", value: "flat"}}, nil, newFlatReader},
		{JSON, []media{{name: json}}, looksLikeJSON, newJSONReader},
		{OTLPJSON, nil, nil, func(d *Decoder) reader { return d.readerOf(JSON) }},
		{Line, []media{{name: "text/plain", param: "format", value: "influx"}}, looksLikeLine, newLineReader},
	}
}

// Formats returns all formats but ByLook.
func Formats() (names []Format) {
	for _, f := range formats() {
		names = append(names, f.name)
	}
	return names
}

// Check reports what is wrong with a format's name, nil if nothing is.
func (f Format) Check() error {
	if f == ByLook || slices.Contains(Formats(), f) {
		return nil
	}
	return fmt.Errorf("format %q is none of %q", f, Formats())
}

// chosen is what a content type means.
type chosen struct {
	contentType string
	candidates  []candidate // rows in the order of the table; only the last one has no condition
	params      map[string]string
	fault       *fault
}

type candidate struct {
	row  int
	when func(headers []Header) bool
}

func (d *Decoder) read(r Record) {
	if blanks(r.Value) == len(r.Value) {
		d.addBad(Whole, faultf(Empty, "the record has no payload"))
		return
	}
	if r.ContentType != d.chosen.contentType {
		d.chosen = d.choose(r.ContentType)
	}
	c := &d.chosen
	if c.fault != nil {
		d.addBad(Whole, c.fault)
		return
	}
	row := -1
	switch {
	case len(c.candidates) > 0:
		for _, x := range c.candidates {
			if row = x.row; x.when == nil || x.when(r.Headers) {
				break
			}
		}
	case d.opts.Format != ByLook:
		row = rowOf(d.formats, d.opts.Format)
	default:
		row = d.sniff(r.Value)
	}
	if row < 0 {
		d.addBad(Whole, faultf(ContentType, "no content-type, and the payload looks like no format that is recognized"))
		return
	}
	d.readerAt(row).read(r, c.params)
}

// sniff returns the row of the first format that recognizes a payload, -1 for none.
func (d *Decoder) sniff(payload []byte) int {
	for i := range d.formats { // a range over values would copy all rows for each record
		if sniff := d.formats[i].sniff; sniff != nil && sniff(payload) {
			return i
		}
	}
	return -1
}

func rowOf(formats []format, name Format) int {
	return slices.IndexFunc(formats, func(f format) bool { return f.name == name })
}

// readerOf returns the reader of a format, made when it is needed first.
func (d *Decoder) readerOf(name Format) reader { return d.readerAt(rowOf(d.formats, name)) }

func (d *Decoder) readerAt(row int) reader {
	if d.readers[row] == nil {
		d.readers[row] = d.formats[row].newReader(d)
	}
	return d.readers[row]
}

// choose returns what a content type means. Without candidates and fault it says nothing.
func (d *Decoder) choose(contentType string) chosen {
	c := chosen{contentType: contentType}
	if strings.TrimSpace(contentType) == "" {
		return c
	}
	name, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		c.fault = faultf(ContentType, "content-type %.80q: %v", contentType, err)
		return c
	}
	c.params = params
	for i, f := range d.formats {
		for _, m := range f.media {
			if m.name == name && (m.param == "" || params[m.param] == m.value) {
				c.candidates = append(c.candidates, candidate{i, m.when})
				if m.when == nil {
					return c
				}
			}
		}
	}
	c.fault = faultf(ContentType, "content-type %.80q is none that is read here", contentType)
	return c
}

// isText reports whether b is UTF-8 without control characters of ASCII but blanks.
func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && !jsonscan.Blank(c) {
			return false
		}
	}
	return valid(b)
}

// valid reports whether b is UTF-8. Nearly all payloads are of ASCII alone, which it finds four times as fast as
// utf8.Valid.
func valid(b []byte) bool {
	of, high := binary.LittleEndian.Uint64, uint64(0)
	for at, last := 0, len(b)-32; at <= last; at += 32 {
		x := b[at : at+32]
		high |= of(x) | of(x[8:]) | of(x[16:]) | of(x[24:])
	}
	if len(b) >= 32 {
		x := b[len(b)-32:]
		high |= of(x) | of(x[8:]) | of(x[16:]) | of(x[24:])
		if high&0x8080808080808080 == 0 {
			return true
		}
	}
	return utf8.Valid(b)
}

// blanks returns how many bytes of b are blanks before the first that is none.
func blanks(b []byte) int {
	for i, c := range b {
		if !jsonscan.Blank(c) {
			return i
		}
	}
	return len(b)
}
