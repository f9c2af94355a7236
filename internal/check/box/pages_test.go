package box_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant/access"
	"binnacle/query"
	"binnacle/query/httpapi"
	"binnacle/query/prom"
)

// newWeb makes what a querier serves over HTTP.
func (q *querier) newWeb() http.Handler {
	api, err := httpapi.New(httpapi.Config{Querier: q.q, Cost: q.cost, Rejected: q.index, Now: q.now, Logger: q.logger()})
	if err != nil {
		panic(err)
	}
	promQL, err := prom.New(prom.Config{Querier: q.q, Now: q.now, Logger: q.logger()})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/api/", api)
	mux.Handle("/prometheus/", promQL)
	return mux
}

// get asks over HTTP for an answer that includes what lies below some ends of the log. It reports whether there is one.
func (q *querier) get(ctx context.Context, tenant, path string, form url.Values, ends []store.LogEnd, answer any) bool {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:1"+path+"?"+form.Encode(), nil)
	r.RemoteAddr = "127.0.0.1:2"
	r.Header.Set(access.TenantHeader, tenant)
	var after []string
	for _, end := range ends {
		if end.End > 0 {
			after = append(after, fmt.Sprintf("%s/%d/%d", end.Topic, end.Partition, end.End-1))
		}
	}
	if after != nil {
		r.Header.Set(httpapi.AfterHeader, strings.Join(after, ","))
	}
	w, before := httptest.NewRecorder(), q.meter.Read().RUs
	q.web.ServeHTTP(w, r)
	switch {
	case w.Code == http.StatusBadRequest:
		q.b.fail("%s: %s %s is refused: %s", q.name, path, form, w.Body)
		return false
	case w.Code != http.StatusOK || ctx.Err() != nil:
		return false
	}
	if err := json.Unmarshal(w.Body.Bytes(), answer); err != nil {
		q.b.fail("%s: the answer to %s %s can't be read: %v: %.200s", q.name, path, form, err, w.Body)
		return false
	}
	said, _ := strconv.ParseFloat(w.Header().Get(query.SpentHeader), 64)
	q.checkSpent(path+" "+form.Encode(), before, said)
	return true
}

// checkSpent fails the run unless an answer names the RU that the store has charged since the meter showed before.
func (q *querier) checkSpent(what string, before, said float64) {
	if spent := q.meter.Read().RUs - before; said != spent {
		q.b.fail("%s: the answer to %s says that it cost %g RU, and it cost %g", q.name, what, said, spent)
	}
}

// paged is a part of an answer: the rows behind one, nil for the first page, up to its own last one, nil for the rest.
type paged struct{ after, last *series }

// covers reports whether a value belongs to an answer, or to a page of it.
func (q *question) covers(s series) bool {
	order := 1
	if q.Descending {
		order = -1
	}
	compare := func(to *series) int {
		return order * cmp.Or(cmp.Compare(s.time, to.time), strings.Compare(s.device, to.device))
	}
	return q.Range.Contains(s.time) && (q.after == nil || compare(q.after) > 0) && (q.last == nil || compare(q.last) <= 0)
}

// mostPages is how often a client asks for a page until it gives up.
const mostPages = 20

// askPages asks for readings page by page. Each page has what is owed of its rows when it is asked for, so together
// they have what was owed when the first one was. Faults and all else go on between them.
func (q *querier) askPages(ctx context.Context, asked question) {
	most := oneOf(q.rnd, 1, 3, 10)
	form := url.Values{"from": {fmt.Sprint(asked.Range.From)}, "to": {fmt.Sprint(asked.Range.To)}, "order": {"asc"}}
	if asked.Descending {
		form.Set("order", "desc")
	}
	for range mostPages {
		form["device"], form["limit"] = asked.Devices, []string{strconv.Itoa(most)}
		form.Set("strict", strconv.FormatBool(asked.Strict))
		var found struct {
			Readings []struct {
				Device string
				TS     int64
				Values map[string]float64
			}
			Truncated, Complete bool
			Next                string
		}
		begun := q.begin()
		if ok := q.get(ctx, asked.Tenant, "/api/v1/readings", form, nil, &found); !ok || !found.Complete {
			q.think(ctx)
			continue
		}
		got := map[series]telemetry.Value{}
		asked.last = nil
		for _, r := range found.Readings {
			for metric, v := range r.Values {
				s := series{tenant: asked.Tenant, device: r.Device, metric: metric, time: r.TS}
				got[s] = telemetry.FloatValue(v)
				if found.Truncated {
					asked.last = &s
				}
			}
		}
		if len(found.Readings) > most {
			q.b.fail("%s: a page of %d readings has %d", q.name, most, len(found.Readings))
		}
		q.b.oracle.compare(q, asked, got, begun)
		if !found.Truncated {
			return
		}
		asked.after, form = asked.last, url.Values{"cursor": {found.Next}}
		q.think(ctx)
	}
}
