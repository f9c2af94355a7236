package httpapi

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"binnacle/internal/telemetry"
	"binnacle/internal/wire/jsontext"
	"binnacle/query"
)

// jsonRows writes readings as the elements of an array in an object, or one object a line.
type jsonRows struct {
	w     *response
	lines bool
	start []byte // a row up to its device
	typed bool   // writes messages, which decode to the same values, finite or not
	rows  int
	buf   []byte
	next  func(query.Row) string // the cursor behind a row
	last  query.Row
	names map[string][]byte // metrics as JSON strings with a colon
}

func newJSONRows(w *response) *jsonRows {
	return &jsonRows{w: w, start: []byte(`{"device":`), names: make(map[string][]byte)}
}

func newNDJSONRows(w *response, q readingsQuery) *jsonRows {
	j := newJSONRows(w)
	if j.lines, j.typed = true, q.layout == "message"; j.typed {
		j.start = append(jsontext.AppendString([]byte(`{"tenant":`), q.Tenant), `,"device":`...)
	}
	return j
}

func (j *jsonRows) begin() {
	if j.lines {
		j.w.begin("application/x-ndjson", trailers...)
		return
	}
	j.w.begin("application/json")
	j.buf = append(j.buf, `{"readings":[`...)
}

func (j *jsonRows) row(r query.Row) error {
	b := j.buf
	if !j.lines {
		if j.rows > 0 {
			b = append(b, ',')
		}
		b = append(b, '\n')
	}
	b = jsontext.AppendString(append(b, j.start...), r.Device)
	b = append(b, `,"ts":`...)
	if j.typed { // few milliseconds would be read as seconds
		b = append(appendTime(append(b, '"'), r.Time), '"')
	} else {
		b = strconv.AppendInt(b, r.Time, 10)
	}
	if len(r.Labels) > 0 {
		b = append(b, `,"labels":`...)
		b = jsontext.AppendLabels(b, r.Labels)
	}
	b = append(b, `,"values":{`...)
	for i, f := range r.Values {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, j.name(f.Metric)...)
		if j.typed && f.Value.Kind() == telemetry.Float && nonFinite(f.Value.Float()) != "" {
			b = append(appendJSON(append(b, `{"float":`...), f.Value), '}')
		} else {
			b = appendJSON(b, f.Value)
		}
	}
	b = append(b, '}', '}')
	if j.lines {
		b = append(b, '\n')
	}
	j.rows++
	j.last = query.Row{Device: r.Device, Time: r.Time, Labels: r.Labels}
	_, err := j.w.Write(b)
	j.buf = b[:0]
	return err
}

func (j *jsonRows) name(metric string) []byte {
	b, ok := j.names[metric]
	if !ok {
		b = append(jsontext.AppendString(nil, metric), ':')
		j.names[metric] = b
	}
	return b
}

func (j *jsonRows) end(r query.Result) error {
	if j.lines {
		return endWithTrailers(j.w, r)
	}
	b := j.buf
	if j.rows > 0 {
		b = append(b, '\n')
	}
	next := ""
	if r.Truncated && j.rows > 0 {
		next = j.next(j.last)
	}
	return j.w.endWithMembers(append(b, ']'), r, next)
}

// endWithMembers ends an object, which has a list so far, with the members that describe the answer.
func (w *response) endWithMembers(b []byte, r query.Result, next string) error {
	tail, err := json.Marshal(struct {
		Truncated  bool        `json:"truncated"`
		Next       string      `json:"next,omitempty"`
		Complete   bool        `json:"complete"`
		Incomplete []string    `json:"incomplete,omitempty"`
		Warnings   []string    `json:"warnings,omitempty"`
		Stats      query.Stats `json:"stats"`
	}{r.Truncated, next, r.Complete, r.Incomplete, r.Hints, rounded(r.Stats)})
	if err != nil {
		return fmt.Errorf("encode stats: %w", err)
	}
	b = append(append(b, ','), tail[1:]...)
	_, err = w.Write(append(b, '\n'))
	return err
}

// firstWide is the least float that is written with an exponent: from 2^53 on, digits before the point would look like
// an integer that a float64 can't hold.
const firstWide = 1 << 53

// appendFloat appends the shortest decimal that reads back to the same bits. It must be finite.
func appendFloat(b []byte, f float64) []byte {
	if abs := math.Abs(f); abs == 0 || (abs >= 1e-6 && abs < firstWide) {
		return strconv.AppendFloat(b, f, 'f', -1, 64)
	}
	b = strconv.AppendFloat(b, f, 'e', -1, 64)
	if n := len(b); n >= 4 && b[n-4] == 'e' && b[n-3] == '-' && b[n-2] == '0' { // e-09 is e-9
		b[n-2] = b[n-1]
		b = b[:n-1]
	}
	return b
}

// nonFinite returns the word for a float that is not a number in JSON, "" for the others.
func nonFinite(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "+Inf"
	case math.IsInf(f, -1):
		return "-Inf"
	}
	return ""
}

// appendPlain appends a value that is not text as people and CSV have it.
func appendPlain(b []byte, v telemetry.Value) []byte {
	switch v.Kind() {
	case telemetry.Float:
		if word := nonFinite(v.Float()); word != "" {
			return append(b, word...)
		}
		return appendFloat(b, v.Float())
	case telemetry.Int:
		return strconv.AppendInt(b, v.Int(), 10)
	}
	return strconv.AppendBool(b, v.Bool())
}

func appendJSON(b []byte, v telemetry.Value) []byte {
	switch v.Kind() {
	case telemetry.Text:
		return jsontext.AppendString(b, v.Text())
	case telemetry.Float:
		if word := nonFinite(v.Float()); word != "" {
			return append(append(append(b, '"'), word...), '"')
		}
	}
	return appendPlain(b, v)
}
