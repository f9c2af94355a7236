package httpapi

import (
	"net/http"

	"binnacle/query"
)

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
