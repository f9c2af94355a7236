package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"
)

const influxType = "text/plain; format=influx"

// absent replaces a tenant or device that a line does not name, in the decoder's answer only: no tenant and no device
// can be called so.
const absent = "\x00"

// influx is a file of line protocol.
type influx struct {
	text    *text
	decoder *decode.Decoder
	now     int64 // the event time of lines without one
}

func newInflux(cfg Config, t *text) *influx {
	opts := decode.Options{Lines: cfg.Messages.Lines}
	opts.Tenant, opts.Device = absent, absent
	if cfg.Tenant != "" {
		opts.Tenant = cfg.Tenant
	}
	if cfg.Device != "" {
		opts.Device = cfg.Device
	}
	return &influx{text: t, decoder: decode.New(opts), now: cfg.Now().UnixMilli()}
}

func (s *influx) next(e *element) error {
	head, err := s.text.head()
	if err != nil {
		return err
	}
	e.line = s.text.lines + 1
	first, whole := firstLine(head)
	if !whole {
		// A line that long is rare, and its strings are not looked into for line ends.
		line, ok, err := s.text.line()
		if err != nil {
			return err
		}
		if !ok {
			e.refuse("it is longer than %d bytes", maxLine)
			return nil
		}
		s.decode(e, line)
		return nil
	}
	entry := head[:decode.Entry(head)]
	s.decode(e, entry)
	if e.outcome == bad && len(first) < len(entry) {
		// A quote out of place has swallowed lines that may be right by themselves.
		entry = first
		s.decode(e, entry)
	}
	s.text.take(entry)
	return nil
}

func (s *influx) decode(e *element, entry []byte) {
	got := s.decoder.Decode(decode.Record{Value: entry, ContentType: influxType, Timestamp: s.now})
	switch {
	case len(got.Bad) > 0 && got.Bad[0].Reason != decode.Empty:
		e.refuse("%s", got.Bad[0].Detail)
		return
	case len(got.Readings) == 0:
		e.outcome = nothing
		return
	case len(got.Readings)+len(got.Bad) > 1:
		e.refuse("it holds several lines")
		return
	}
	e.outcome, e.reading = good, got.Readings[0]
	if e.reading.Tenant == absent {
		e.outcome, e.reading.Tenant = deadLetter, ""
	}
	if e.reading.Device == absent {
		e.outcome, e.reading.Device = deadLetter, ""
	}
}

// outcome is what becomes of an element of the file.
type outcome uint8

const (
	good       outcome = iota // published and, as far as is known here, accepted
	deadLetter                // published, and it will end in the dead letters
	bad                       // can't be parsed: not published
	nothing                   // a blank line, or a row without a value: not published
)

// element is what a line of the file holds.
type element struct {
	outcome outcome
	line    int               // its first line, from 1
	why     string            // a bad one can't be parsed
	reading telemetry.Reading // set for a good one, and for a dead letter that is not raw
	texts   int               // cells that begin like a number and are text
	text    string            // the first such cell, and its place
	raw     []byte            // the message as it is in the file; nil: reading is encoded
}

// refuse makes an element bad, for a reason.
func (e *element) refuse(format string, args ...any) {
	e.outcome, e.why = bad, fmt.Sprintf(format, args...)
}

// source gives the elements of a file in their order.
type source interface {
	// next fills e, which is valid until the next call. io.EOF is the end; any other error is one of reading the file,
	// and final.
	next(e *element) error
}

// newSource reads a file of a format from its start.
func newSource(cfg Config, f Format, t *text) (source, error) {
	switch f {
	case CSV:
		return newTable(cfg, t)
	case NDJSON:
		return newMessages(cfg, t), nil
	case LineProtocol:
		return newInflux(cfg, t), nil
	}
	return nil, fmt.Errorf("unknown format %q", f)
}

// Format is the format of a file.
type Format string

// The formats.
const (
	CSV          Format = "csv"
	NDJSON       Format = "ndjson"
	LineProtocol Format = "lp"
)

func parseFormat(s string) (Format, error) {
	switch f := Format(strings.ToLower(s)); f {
	case CSV, NDJSON, LineProtocol:
		return f, nil
	case "jsonl":
		return NDJSON, nil
	}
	return "", fmt.Errorf("--format %q is not csv, ndjson or lp", s)
}

// formatByName returns the format of a file's name, empty if it has none.
func formatByName(path string) Format {
	name := strings.TrimSuffix(strings.ToLower(filepath.Base(path)), ".gz")
	f, err := parseFormat(strings.TrimPrefix(filepath.Ext(name), "."))
	if err != nil {
		return ""
	}
	return f
}

// formatByText returns the format by the first line that is neither blank nor a comment of line protocol.
func formatByText(head []byte) Format {
	d := decode.New(decode.Options{Tenant: absent, Device: absent})
	for line := range bytes.Lines(head) {
		line = bytes.TrimSpace(line)
		switch {
		case len(line) == 0 || line[0] == '#':
		case line[0] == '{' || line[0] == '[':
			return NDJSON
		case len(d.Decode(decode.Record{Value: line, ContentType: influxType}).Readings) > 0:
			return LineProtocol
		default:
			return CSV
		}
	}
	return CSV
}

// messages is a file of messages, one a line. A line may also hold an array of messages; each one is published in a
// separate record, since a record goes to the Kafka partition of its device.
type messages struct {
	text    *text
	decoder *decode.Decoder
	encode  bool // messages are changed: a tenant or device is filled in, or times are shifted

	line  int
	queue []json.RawMessage // elements of the current line that have not been given out
}

func newMessages(cfg Config, t *text) *messages {
	return &messages{
		text:    t,
		decoder: decode.New(decode.Options{Tenant: cfg.Tenant, Device: cfg.Device}),
		encode:  cfg.Tenant != "" || cfg.Device != "" || cfg.ShiftTo == "now",
	}
}

func (s *messages) next(e *element) error {
	if len(s.queue) > 0 {
		e.line = s.line
		s.decode(e, s.queue[0])
		s.queue = s.queue[1:]
		return nil
	}
	line, ok, err := s.text.line()
	if err != nil {
		return err
	}
	s.line = s.text.lines
	e.line = s.line
	line = bytes.Trim(line, " \t\r\n")
	switch {
	case !ok:
		e.refuse("it is longer than %d bytes", maxLine)
	case len(line) == 0:
		e.outcome = nothing
	case line[0] == '[':
		return s.array(e, line)
	default:
		s.decode(e, line)
	}
	return nil
}

// array takes a line apart. It is bad as a whole if it is not JSON as the decoder reads it.
func (s *messages) array(e *element, line []byte) error {
	got := s.decoder.Decode(decode.Record{Value: line, ContentType: "application/json"})
	if len(got.Bad) > 0 && got.Bad[0].Index == decode.Whole {
		e.refuse("%s", got.Bad[0].Detail)
		return nil
	}
	s.queue = s.queue[:0]
	if err := json.Unmarshal(line, &s.queue); err != nil {
		e.refuse("%s", err) // never: the decoder is the stricter of the two
		return nil
	}
	e.outcome = nothing
	if len(s.queue) > 0 {
		return s.next(e)
	}
	return nil
}

func (s *messages) decode(e *element, message []byte) {
	if message[0] != '{' {
		e.refuse("it is neither a JSON object nor an array: %.80q", message)
		return
	}
	got := s.decoder.Decode(decode.Record{Value: message, ContentType: "application/json"})
	e.raw = message
	switch {
	case len(got.Readings) == 1:
		e.outcome, e.reading = good, got.Readings[0]
		if s.encode {
			e.raw = nil
		}
	case got.Bad[0].Reason == decode.Undecodable:
		e.refuse("%s", got.Bad[0].Detail)
	default:
		e.outcome = deadLetter
	}
}
