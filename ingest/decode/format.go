package decode

import (
	"fmt"
	"mime"
	"slices"
	"strings"
	"unicode/utf8"

	"binnacle/internal/jsonscan"
)

// Format names how a payload is written. As Options.Format it reads the records of a topic that don't say it
// themselves.
type Format string

// The formats. docs/format/message.md has a section for each.
const (
	ByLook       Format = ""               // found out from the first bytes
	JSON         Format = "json"           // messages, or OTLP in JSON
	FlatJSON     Format = "json-flat"      // objects of any shape: what is not told to be something else is a value
	Line         Format = "influx"         // line protocol
	OTLP         Format = "otlp_proto"     // OpenTelemetry metrics in protobuf
	OTLPJSON     Format = "otlp_json"      // OpenTelemetry metrics in JSON
	RemoteWrite  Format = "remote-write"   // a body of Prometheus remote write 1.0
	RemoteWrite2 Format = "remote-write-2" // a body of Prometheus remote write 2.0
	Registry     Format = "registry"       // Avro or JSON whose schema is in a registry
	SenML        Format = "senml"          // SenML in JSON
	SenMLCBOR    Format = "senml-cbor"     // SenML in CBOR
)

// Formats are all formats but ByLook.
func Formats() []Format {
	return []Format{JSON, FlatJSON, Line, OTLP, OTLPJSON, RemoteWrite, RemoteWrite2, Registry, SenML, SenMLCBOR}
}

// Check reports what is wrong with a format's name, nil if nothing is.
func (f Format) Check() error {
	if f == ByLook || slices.Contains(Formats(), f) {
		return nil
	}
	return fmt.Errorf("format %q is none of %q", f, Formats())
}

// encoding is a format with its parameters.
type encoding struct {
	format Format
	millis func(units int64) (int64, bool) // line protocol times to milliseconds, rounded down
	proto  bool                            // a protobuf message that is not named: other headers tell which
}

// read reads a payload that is not blank.
func (d *Decoder) read(r Record) {
	e, fault := d.encodingOf(r.ContentType)
	if e.proto {
		e.format = protobufOf(r.Headers)
	}
	if e.format == ByLook && fault == nil {
		e = encoding{format: d.opts.Format, millis: byMagnitude}
		if e.format == ByLook {
			e.format = sniff(r.Value)
		}
	}
	switch {
	case fault != nil:
		d.addBad(Whole, fault)
	case e.format == JSON, e.format == OTLPJSON:
		d.json(r.Value, false)
	case e.format == FlatJSON:
		d.json(r.Value, true)
	case e.format == Line:
		d.lines(r.Value, e.millis)
	case e.format == OTLP:
		d.otlp(r.Value)
	case e.format == RemoteWrite:
		d.remoteWrite(r.Value)
	case e.format == RemoteWrite2:
		d.remoteWrite2(r.Value)
	case e.format == Registry:
		d.registered(r.Value)
	case e.format == SenML:
		d.senmlJSON(r.Value)
	case e.format == SenMLCBOR:
		d.senmlCBOR(r.Value)
	default:
		d.addBad(Whole, faultf(ContentType, "no content-type, and the payload looks like no format that is told by look"))
	}
}

// sniff tells a format by the payload's first bytes, ByLook if it is none of those that can be told.
func sniff(value []byte) Format {
	first := value[blanks(value)]
	switch {
	case looksRegistered(value):
		return Registry
	case looksLikeCBOR(value):
		return SenMLCBOR
	case looksLikeOTLP(value):
		return OTLP
	case first == '{', first == '[':
		return JSON
	case looksLikeLine(value):
		return Line
	}
	return ByLook
}

// encodingOf is what a content type means; the last one seen is remembered.
func (d *Decoder) encodingOf(contentType string) (encoding, *fault) {
	if contentType != d.contentType {
		d.contentType = contentType
		d.encoding, d.encodingFault = parseContentType(contentType)
	}
	return d.encoding, d.encodingFault
}

func parseContentType(s string) (encoding, *fault) {
	if strings.TrimSpace(s) == "" {
		return encoding{}, nil
	}
	media, params, err := mime.ParseMediaType(s)
	if err != nil {
		return encoding{}, faultf(ContentType, "content-type %.80q: %v", s, err)
	}
	switch media {
	case "application/json":
		if params["format"] == "flat" {
			return encoding{format: FlatJSON}, nil
		}
		return encoding{format: JSON}, nil
	case "text/plain":
		if params["format"] != "influx" {
			break
		}
		m, ok := precisions[params["precision"]]
		if !ok {
			return encoding{}, faultf(ContentType, "content-type %.80q: precision is ns, us, ms or s", s)
		}
		return encoding{format: Line, millis: m}, nil
	case "application/senml+json", "application/sensml+json":
		return encoding{format: SenML}, nil
	case "application/senml+cbor", "application/sensml+cbor":
		return encoding{format: SenMLCBOR}, nil
	case "application/vnd.confluent.avro", "application/vnd.confluent.json":
		return encoding{format: Registry}, nil
	case "application/x-protobuf":
		switch params["proto"] {
		case "":
			return encoding{proto: true}, nil
		case "prometheus.WriteRequest":
			return encoding{format: RemoteWrite}, nil
		case "io.prometheus.write.v2.Request":
			return encoding{format: RemoteWrite2}, nil
		case "opentelemetry.proto.collector.metrics.v1.ExportMetricsServiceRequest":
			return encoding{format: OTLP}, nil
		}
	}
	return encoding{}, faultf(ContentType, "content-type %.80q is none that is read here", s)
}

// protobufOf tells a body of remote write 1.0 from one of OTLP: both are sent as application/x-protobuf, but only the
// former is always packed.
func protobufOf(headers []Header) Format {
	if header(headers, "content-encoding") == "snappy" || header(headers, "x-prometheus-remote-write-version") != "" {
		return RemoteWrite
	}
	return OTLP
}

// isText reports whether b is UTF-8 without control characters of ASCII but blanks.
func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && !jsonscan.Blank(c) {
			return false
		}
	}
	return utf8.Valid(b)
}

// blanks is how many bytes of b are blanks before the first that is none.
func blanks(b []byte) int {
	for i, c := range b {
		if !jsonscan.Blank(c) {
			return i
		}
	}
	return len(b)
}
