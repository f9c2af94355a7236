package httpapi

import (
	"strings"

	"binnacle/internal/telemetry"
	"binnacle/query"
)

const csvType = "text/csv; charset=utf-8"

// appendCell appends a name as a CSV cell (RFC 4180).
func appendCell(b []byte, s string) []byte {
	if s != "" && !strings.ContainsAny(s, "\",\r\n") && s[0] != ' ' && s[len(s)-1] != ' ' {
		return append(b, s...)
	}
	return appendTextCell(b, s)
}

// appendTextCell appends a text as a CSV cell with quotes, which tell it from a number, and from no value.
func appendTextCell(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		if s[i] == '"' {
			b = append(b, '"')
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}

func appendValueCell(b []byte, v telemetry.Value) []byte {
	if v.Kind() == telemetry.Text {
		return appendTextCell(b, v.Text())
	}
	return appendPlain(b, v)
}

// longRows writes a line for each value.
type longRows struct {
	w    *response
	buf  []byte
	head []byte // the cells before the metric
}

func (l *longRows) begin() {
	l.w.begin(csvType, trailers...)
	l.buf = append(l.buf, "time,device,labels,metric,value\n"...)
}

func (l *longRows) row(r query.Row) error {
	l.head = appendTime(l.head[:0], r.Time)
	l.head = append(l.head, ',')
	l.head = appendCell(l.head, r.Device)
	l.head = append(l.head, ',')
	if labels := labelsText(r.Labels); labels != "" {
		l.head = appendCell(l.head, labels)
	}
	l.head = append(l.head, ',')
	for _, f := range r.Values {
		l.buf = append(l.buf, l.head...)
		l.buf = appendCell(l.buf, f.Metric)
		l.buf = append(l.buf, ',')
		l.buf = appendValueCell(l.buf, f.Value)
		l.buf = append(l.buf, '\n')
	}
	return l.flush()
}

func (l *longRows) flush() error {
	_, err := l.w.Write(l.buf)
	l.buf = l.buf[:0]
	return err
}

func (l *longRows) end(r query.Result) error {
	if err := l.flush(); err != nil {
		return err
	}
	return endWithTrailers(l.w, r)
}
