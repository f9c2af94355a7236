package replay

import (
	"binnacle/ingest/decode"
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
