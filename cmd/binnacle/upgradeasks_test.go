package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"

	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// question is a request to the API. Two releases must answer the same bytes in a member of the answer, or in all of it
// where that is empty.
type question struct{ tenant, path, member string }

// questions are those whose answers stay the same whatever devices publish later.
func (u *upgrade) questions() (all []question) {
	now := u.today + telemetry.DayMillis
	days := fmt.Sprintf("from=%d&to=%d", u.today-80*telemetry.DayMillis, now)
	for _, tenant := range []string{mixedTenant, panelTenant, bulkTenant} {
		all = append(all, question{tenant, "/api/v1/readings?strict=true&limit=100000&" + days, "readings"},
			question{tenant, "/api/v1/readings?strict=true&format=ndjson&order=desc&" + days, ""},
			question{tenant, "/api/v1/devices?limit=1000", "devices"}, question{tenant, "/api/v1/metrics", "metrics"},
			question{tenant, "/api/v1/latest?strict=true&" + days, "latest"},
			question{tenant, "/api/v1/tenant", "limits"}, question{tenant, "/api/v1/tenant", "tags"})
	}
	for _, by := range []string{"metric=eighths&step=1d", "metric=big&metric=on&metric=state&step=7d",
		"metric=eighths&step=1d&by=label:axle"} {
		all = append(all, question{mixedTenant, "/api/v1/aggregates?strict=true&" + by + "&" + days, "aggregates"})
	}
	all = append(all, question{mixedTenant, "/api/v1/annotations", "annotations"},
		question{mixedTenant, fmt.Sprintf("/api/v1/readings?as_of=%d&from=%d&to=%d",
			time.Now().UnixMilli(), u.today-3*telemetry.DayMillis, now), "readings"})
	for _, promql := range []string{"sum by (axle) (sum_over_time(load[1h]))",
		"max by (axle) (max_over_time(temp[30m]))", "min_over_time(temp[1h])", "sum(rate(km_total[30m]))",
		"count_over_time(temp[1h])", "last_over_time(temp[30m])",
		"avg by (axle) (avg_over_time(load[2h]))", "topk(2, load)", "quantile(0.9, temp)", `temp{axle="rear"} > 89`} {
		all = append(all, question{panelTenant, u.panelQuery(promql), "data"})
	}
	for _, promql := range []string{"sum by (axle) (eighths)", `max by (site) (eighths)`, "last_over_time(x[1m])",
		"count(eighths > 500)"} {
		path := fmt.Sprintf("/prometheus/api/v1/query_range?query=%s&start=%d&end=%d&step=1", url.QueryEscape(promql),
			u.today/1000, u.today/1000+30)
		all = append(all, question{mixedTenant, path, "data"})
	}
	return all
}

// panelQuery is a PromQL query over the day that has rollups.
func (u *upgrade) panelQuery(promql string) string {
	start := (u.today - 2*telemetry.DayMillis) / 1000
	return fmt.Sprintf("/prometheus/api/v1/query_range?query=%s&start=%d&end=%d&step=3600", url.QueryEscape(promql),
		start+3600, start+86_400)
}

// asked asks a querier all questions, and waits where an answer is not complete.
func (u *upgrade) asked(of string) map[question]string {
	all := map[question]string{}
	for _, q := range u.questions() {
		soon(u.t, time.Minute, func() (complete bool) {
			all[q], complete = u.queriers[of].answerTo(q)
			return complete
		}, "the release %s answers %s of %s", of, q.path, q.tenant)
	}
	return all
}

// answerTo returns the answer to a question, and whether it is complete.
func (d *dev) answerTo(q question) (answer string, complete bool) {
	resp := d.get(q.tenant, q.path)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(d.t, err)
	if q.member == "" {
		return string(body), resp.Trailer.Get("Binnacle-Complete") == "true"
	}
	var all map[string]json.RawMessage
	require.NoError(d.t, json.Unmarshal(body, &all), string(body))
	var out bytes.Buffer
	if all[q.member] != nil {
		require.NoError(d.t, json.Compact(&out, all[q.member]))
	}
	return out.String(), string(all["complete"]) != "false" && all["warnings"] == nil
}

// sameAnswers asks queriers of both releases what was asked before, and compares the answers.
func (u *upgrade) sameAnswers(known map[question]string) {
	u.t.Helper()
	for of, querier := range u.queriers {
		for q, want := range known {
			var got string
			soon(u.t, time.Minute, func() (complete bool) {
				got, complete = querier.answerTo(q)
				return complete
			}, "the release %s answers %s of %s", of, q.path, q.tenant)
			if got != want {
				at := 0
				for at < min(len(got), len(want)) && got[at] == want[at] {
					at++
				}
				cut := func(s string) string { return s[max(0, at-200):min(len(s), at+200)] }
				require.FailNow(u.t, "another answer", "release %s, %s of %s:\n%s\nwas\n%s", of, q.path, q.tenant,
					cut(got), cut(want))
			}
		}
		r, err := http.NewRequest(http.MethodGet, "http://"+querier.api+"/api/v1/tenant", nil)
		require.NoError(u.t, err)
		r.Header.Set("Authorization", "Bearer "+u.token)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(u.t, err)
		require.NoError(u.t, resp.Body.Close())
		require.Equal(u.t, http.StatusOK, resp.StatusCode, "the token of the release %s", of)
	}
}

// withoutPanel leaves out what late readings have changed.
func (u *upgrade) withoutPanel(known map[question]string) map[question]string {
	known = maps.Clone(known)
	maps.DeleteFunc(known, func(q question, _ string) bool { return q.tenant == panelTenant })
	return known
}
