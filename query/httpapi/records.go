package httpapi

import (
	"net/http"

	"binnacle/query"
)

// records writes an answer that is a list, as an array in one object, a record a line, CSV, or as columns of Parquet.
type records struct {
	w      *response
	format string
	name   string // member that holds the array
	fields fields
	limit  int           // 0 for none
	asked  query.Request // for the names of an answer without records

	more func() ([]byte, error) // an object with the members that follow the array; nil for none

	buf       []byte
	order     []int        // of the columns
	file      *parquetFile // nil for the other formats
	count     int
	truncated bool
}

func (l *records) begin() {
	l.order = l.fields.tableOrder()
	switch l.format {
	case parquetFormat:
		l.file = newParquetFile(l.w, l.fields.columns())
		l.file.begin()
	case "json":
		l.w.begin("application/json")
		l.buf = append(append(append(l.buf, `{"`...), l.name...), `":[`...)
	case "ndjson":
		l.w.begin("application/x-ndjson", trailers...)
	case "csv":
		l.w.begin(csvType, trailers...)
		l.buf = append(append(l.buf, l.fields.head()...), '\n')
	}
}

func (l *records) record(cells ...cell) error {
	if l.limit > 0 && l.count == l.limit {
		l.truncated = true
		return query.ErrEnough
	}
	if l.file != nil {
		l.count++
		return l.fields.appendRow(l.file, l.order, cells)
	}
	switch {
	case l.format == "csv":
		l.buf = append(l.fields.appendCSV(l.buf, l.order, cells), '\n')
	case l.format == "ndjson":
		l.buf = append(l.fields.appendJSON(l.buf, cells), '\n')
	default:
		if l.count > 0 {
			l.buf = append(l.buf, ',')
		}
		l.buf = l.fields.appendJSON(append(l.buf, '\n'), cells)
	}
	l.count++
	_, err := l.w.Write(l.buf)
	l.buf = l.buf[:0]
	return err
}

func (l *records) end(r query.Result) error {
	r.Truncated = r.Truncated || l.truncated
	if l.file != nil {
		if err := l.file.end(); err != nil {
			return err
		}
		return endWithTrailers(l.w, r)
	}
	if l.format != "json" {
		if _, err := l.w.Write(l.buf); err != nil {
			return err
		}
		return endWithTrailers(l.w, r)
	}
	if l.count > 0 {
		l.buf = append(l.buf, '\n')
	}
	b, err := withMembers(append(l.buf, ']'), l.more)
	if err != nil {
		return err
	}
	return l.w.endWithMembers(b, r, "")
}

// list begins a list, runs a query that hands records to it, and ends it.
func (a *api) list(l *records, r *http.Request, run func() (query.Result, error)) error {
	if l.format != "json" && !r.ProtoAtLeast(1, 1) {
		return errOldProtocol
	}
	free, err := a.reserveFor(l.format)
	if err != nil {
		return err
	}
	defer free()
	l.begin()
	if r.Method == http.MethodHead {
		return nil
	}
	res, err := run()
	if err != nil {
		return err
	}
	if l.count == 0 && l.format == "json" {
		if res.Hints, err = a.cfg.Querier.Hints(r.Context(), l.asked); err != nil {
			return err
		}
	}
	return l.end(res)
}

// latest answers the newest value of each series. For named devices without a parameter from it looks back only as far
// as it has to.
func (a *api) latest(w *response, r *http.Request, tenant string) error {
	p := parse(r, latestParameters, "device", "metric")
	q := a.request(p, tenant)
	list := records{w: w, asked: q, name: "latest", fields: valueFields}
	list.format, list.limit = p.format(parquetFormat)
	if p.err != nil {
		return p.err
	}
	ask := a.cfg.Querier.Latest
	if q.Devices != nil && !p.values.Has("from") {
		ask = a.cfg.Querier.Nearest
	}
	return a.list(&list, r, func() (query.Result, error) {
		return ask(r.Context(), q, func(l query.Last) error {
			return list.record(textCell(l.Device), intCell(l.Time), labelsCell(l.Labels), textCell(l.Metric), valueCell(l.Value))
		})
	})
}
