package replay

import (
	"bytes"
	"encoding/json"

	"binnacle/ingest/decode"
)

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
