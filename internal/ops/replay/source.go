package replay

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"
)

// outcome is what becomes of an element of the file.
type outcome uint8

const (
	good    outcome = iota // published and, as far as is known here, accepted
	bad                    // no reading of an allowed tenant and device: not published
	nothing                // a blank line, or a row without a value: not published
)

// element is what a line of the file holds.
type element struct {
	outcome outcome
	line    int               // its first line, from 1
	why     string            // a bad one is none
	reading telemetry.Reading // set for a good one
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
	if f == CSV {
		return newTable(cfg, t)
	}
	return newLines(cfg, f, t), nil
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

// formatByName returns the format of a file's name.
func formatByName(path string) (Format, error) {
	name := strings.TrimSuffix(strings.ToLower(filepath.Base(path)), ".gz")
	f, err := parseFormat(strings.TrimPrefix(filepath.Ext(name), "."))
	if err != nil {
		return "", fmt.Errorf("the name of %s does not tell its format: give --format csv, ndjson or lp", path)
	}
	return f, nil
}

// lines is a file with a reading on each line: a message, or line protocol.
type lines struct {
	text    *text
	decoder *decode.Decoder
	like    decode.Record // each line as a record, without its payload
	isJSON  bool
	asIs    bool // messages are published as they are: no tenant, device or time is filled in or changed
}

func newLines(cfg Config, f Format, t *text) *lines {
	s := &lines{text: t, isJSON: f == NDJSON, like: decode.Record{ContentType: "application/json"}}
	if s.asIs = s.isJSON && cfg.Tenant == "" && cfg.Device == "" && cfg.ShiftTo == ""; !s.isJSON {
		s.like = decode.Record{ContentType: "text/plain; format=influx", Timestamp: cfg.Now().UnixMilli()}
	}
	s.decoder = decode.New(decode.Options{Tenant: cfg.Tenant, Device: cfg.Device, Lines: cfg.Messages.Lines})
	return s
}

func (s *lines) next(e *element) error {
	line, ok, err := s.text.line()
	if err != nil {
		return err
	}
	e.line, line = s.text.lines, bytes.Trim(line, " \t\r\n")
	switch {
	case !ok:
		e.refuse("it is longer than %d bytes", maxLine)
	case len(line) == 0:
		e.outcome = nothing
	case s.isJSON && line[0] != '{':
		e.refuse("it is not a JSON object: %.80q", line)
	default:
		s.decode(e, line)
	}
	return nil
}

func (s *lines) decode(e *element, line []byte) {
	record := s.like
	record.Value = line
	got := s.decoder.Decode(record)
	switch {
	case len(got.Bad) > 0:
		e.refuse("%s", got.Bad[0].Detail)
	case len(got.Readings) > 1:
		e.refuse("it holds several readings")
	case len(got.Readings) == 0:
		e.outcome = nothing // a comment
	default:
		if e.reading = got.Readings[0]; s.asIs {
			e.raw = line
		}
	}
}
