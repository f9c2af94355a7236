package httpapi

import (
	"net/http"
	"strconv"

	"binnacle/internal/wire/jsontext"
	"binnacle/query"
)

// latest answers the newest value of each series. For named devices without a parameter from it looks back only as far
// as it has to.
func (a *api) latest(w *response, r *http.Request, tenant string) error {
	p := parse(r, latestParameters, "device", "metric")
	q := a.request(p, tenant)
	list := records{w: w, asked: q, name: "latest", head: "time,device,labels,metric,value", columns: valueColumns}
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
			return list.record(func(b []byte) []byte { return appendLast(b, &l) },
				func(b []byte) []byte {
					b = appendSeriesCells(appendTime(b, l.Time), curveName{l.Device, l.Labels, l.Metric})
					return appendValueCell(append(b, ','), l.Value)
				},
				func(f *parquetFile) error {
					return f.appendValue(valueLine{l.Time, l.Device, labelsText(l.Labels), l.Metric, l.Value})
				})
		})
	})
}

func appendLast(b []byte, l *query.Last) []byte {
	b = jsontext.AppendString(append(b, `{"device":`...), l.Device)
	b = strconv.AppendInt(append(b, `,"ts":`...), l.Time, 10)
	if len(l.Labels) > 0 {
		b = jsontext.AppendLabels(append(b, `,"labels":`...), l.Labels)
	}
	b = jsontext.AppendString(append(b, `,"metric":`...), l.Metric)
	return append(appendJSON(append(b, `,"value":`...), l.Value), '}')
}
