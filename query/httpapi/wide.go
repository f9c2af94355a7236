package httpapi

import (
	"maps"
	"slices"
	"strings"

	"binnacle/internal/telemetry"
	"binnacle/query"
)

// wideRows writes a line for each row, with a column for each label and metric of the whole answer. The columns are
// known only when the last row is, so rows wait in a spool until then.
type wideRows struct {
	w       *response
	metrics []string // metrics of the request; nil: those of the answer
	spool   *rowBuffer
}

func (c *wideRows) begin() { c.w.begin(csvType, trailers...) }

func (c *wideRows) row(r query.Row) error { return c.spool.add(r) }

func (c *wideRows) end(r query.Result) error {
	t := c.table()
	if _, err := c.w.Write(t.header()); err != nil {
		return err
	}
	var line []byte
	err := c.spool.each(func(row bufferedRow) error {
		line = t.appendLine(line[:0], row)
		_, err := c.w.Write(line)
		return err
	})
	if err != nil {
		return err
	}
	return endWithTrailers(c.w, r)
}

// table is the columns of a wide answer.
type table struct {
	labels  []string // names, as in readings
	metrics []string

	labelColumn  map[string]int
	metricColumn map[string]int
	cells        []telemetry.Value // values of the current line by metric column
	texts        []*string         // labels of the current line by label column
}

func (c *wideRows) table() *table {
	names := make(map[string]bool)
	for _, set := range c.spool.labels {
		for _, l := range set {
			names[l.Name] = true
		}
	}
	t := &table{labels: slices.Sorted(maps.Keys(names)), metrics: c.metrics}
	if t.metrics == nil {
		t.metrics = slices.Sorted(slices.Values(c.spool.metrics.names))
	}
	t.labelColumn, t.metricColumn = indexes(t.labels), indexes(t.metrics)
	t.cells, t.texts = make([]telemetry.Value, len(t.metrics)), make([]*string, len(t.labels))
	return t
}

func indexes(names []string) map[string]int {
	out := make(map[string]int, len(names))
	for i, n := range names {
		out[n] = i
	}
	return out
}

// header returns the first line. Each column has another name: a metric that is called time or device is metric: and
// its name, and a label that is called like a metric or one of those is label: and its name.
func (t *table) header() []byte {
	taken := map[string]bool{"time": true, "device": true}
	own := func(names []string) (free []bool) {
		for _, name := range names {
			free = append(free, !taken[name])
			taken[name] = true
		}
		return free
	}
	ownMetrics, ownLabels := own(t.metrics), own(t.labels)
	titles := func(b []byte, kind string, names []string, own []bool) []byte {
		for i, name := range names {
			if !own[i] {
				for name = kind + name; taken[name]; {
					name = kind + name
				}
				taken[name] = true
			}
			b = appendCell(append(b, ','), name)
		}
		return b
	}
	b := titles([]byte("time,device"), "label:", t.labels, ownLabels)
	return append(titles(b, "metric:", t.metrics, ownMetrics), '\n')
}

func (t *table) appendLine(b []byte, r bufferedRow) []byte {
	clear(t.cells)
	clear(t.texts)
	for i := range r.labels {
		t.texts[t.labelColumn[r.labels[i].Name]] = &r.labels[i].Value
	}
	for _, f := range r.values {
		t.cells[t.metricColumn[f.Metric]] = f.Value
	}
	b = appendTime(b, r.time)
	b = appendCell(append(b, ','), r.device)
	for _, s := range t.texts {
		b = append(b, ',')
		if s != nil {
			b = appendTextCell(b, *s)
		}
	}
	for _, v := range t.cells {
		b = append(b, ',')
		if v.Kind() != 0 {
			b = appendValueCell(b, v)
		}
	}
	return append(b, '\n')
}

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
