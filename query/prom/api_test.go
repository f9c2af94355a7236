package prom_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/internal/tenant/access"
	"binnacle/query"
	"binnacle/query/prom"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

func TestInstantQuery(t *testing.T) {
	s := newServer(t, nil)
	s.fill(t)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		r := s.do(t, method, "/api/v1/query", http.Header{access.TenantHeader: {"acme"}}, "query", "temp")
		require.Equal(t, 200, r.status, r.Error)
		require.Equal(t, "success", r.Status)
		require.Empty(t, r.Warnings)
		require.JSONEq(t, `{"resultType":"vector","result":[
			{"metric":{"__name__":"temp","axis":"none","device":"m1","exported_device":"no","site":"hall"},"value":[1795176000,"22"]},
			{"metric":{"__name__":"temp","axis":"x","device":"m1","exported_axis":"none","exported_device":"no","site":"hall"},
				"value":[1795176000,"23"]},
			{"metric":{"__name__":"temp","device":"m2"},"value":[1795176000,"30"]}]}`, string(r.Data))
	}
}

// Sets of labels that differ are series that differ, whatever names they have: no sample is left out.
func TestLabelsNamedAsTheDeviceStayApart(t *testing.T) {
	s := newServer(t, nil)
	var records []querytest.Record
	for i, l := range []telemetry.Labels{
		nil, {{Name: "device", Value: "x"}}, {{Name: "exported_device", Value: "x"}},
		{{Name: "device", Value: "x"}, {Name: "exported_device", Value: "x"}},
		{{Name: "exported_exported_device", Value: "x"}}, {{Name: "__name__", Value: "x"}},
		{{Name: "exported___name__", Value: "x"}},
	} {
		records = append(records, record(int64(i), "m1", noon.Add(-time.Minute), l, float("temp", float64(i))))
	}
	s.world.Chunk(records...)
	s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 100})
	for _, query := range []string{"count(temp)", "count(temp + 0)", "count(max_over_time(temp[2m]))"} {
		r := s.ask(t, "/api/v1/query", "query", query)
		require.Contains(t, string(r.Data), `"7"`, query)
	}
	require.Contains(t, string(s.ask(t, "/api/v1/query", "query", `temp{exported_exported_device="x",exported_device=""}`).Data),
		`"value":[1795176000,"2"]`)
}

func TestRangeQuery(t *testing.T) {
	s := newServer(t, nil)
	s.fill(t)
	r := s.ask(t, "/api/v1/query_range", "query", `max by (device) (max_over_time(temp{device="m1"}[2m]))`,
		"start", "1795175760.5", "end", "2026-11-20T12:00:00Z", "step", "1m", "stats", "1")
	require.Equal(t, 200, r.status, r.Error)
	require.Contains(t, string(r.Data), `{"resultType":"matrix","result":[{"metric":{"device":"m1"},"values":[`+
		`[1795175760.500,"20"],[1795175820.500,"21"],[1795175880.500,"22"],[1795175940.500,"23"]]}],"stats":{"timings":`)
}

func TestScalarsAndStrings(t *testing.T) {
	s := newServer(t, nil)
	for query, want := range map[string]string{
		"1 / 0": `{"resultType":"scalar","result":[4.250,"+Inf"]}`,
		"1e21":  `{"resultType":"scalar","result":[4.250,"1e+21"]}`,
		`"<&>"`: `{"resultType":"string","result":[4.250,"<&>"]}`,
		"none":  `{"resultType":"vector","result":[]}`,
	} {
		r := s.ask(t, "/api/v1/query", "query", query, "time", "4.25")
		require.Equal(t, want, string(r.Data), query)
	}
}

// Bools are numbers, text is nothing, and an integer that no float can have comes with a warning.
func TestIntegersAndBools(t *testing.T) {
	s := newServer(t, nil)
	s.fill(t)
	value := func(query string) (string, []string) {
		r := s.ask(t, "/api/v1/query", "query", "scalar("+query+")")
		require.Equal(t, 200, r.status, r.Error)
		return string(r.Data), r.Warnings
	}
	on, warnings := value("running")
	require.Contains(t, on, `"1"`)
	require.Empty(t, warnings)
	n, warnings := value("n")
	require.Contains(t, n, `"9007199254740992"`)
	require.Equal(t, []string{"integers beyond 2^53 are rounded to the nearest float"}, warnings)
	require.JSONEq(t, `{"resultType":"vector","result":[]}`,
		string(s.ask(t, "/api/v1/query", "query", "note").Data))
}

func TestLookback(t *testing.T) {
	s := newServer(t, func(_ *query.Config, c *prom.Config) { c.Lookback = 30 * time.Second })
	s.fill(t)
	require.JSONEq(t, `{"resultType":"vector","result":[]}`, string(s.ask(t, "/api/v1/query", "query", "temp").Data))
	r := s.ask(t, "/api/v1/query", "query", "count(temp)", "lookback_delta", "2m")
	require.Contains(t, string(r.Data), `"2"`)
	r = s.ask(t, "/api/v1/query", "query", "count(temp)", "lookback_delta", "121")
	require.Contains(t, string(r.Data), `"3"`)
	lookback, err := tenant.LookbackChange(121 * time.Second)
	require.NoError(t, err)
	require.NoError(t, tenant.NewTenants(s.world.Documents).Set(t.Context(), "acme", lookback))
	_, err = s.world.Directory.Refresh(t.Context())
	require.NoError(t, err)
	r = s.ask(t, "/api/v1/query", "query", "count(temp)")
	require.Contains(t, string(r.Data), `"3"`)
	r = s.ask(t, "/api/v1/query", "query", "count(temp)", "lookback_delta", "2m")
	require.Contains(t, string(r.Data), `"2"`)
}

func TestLists(t *testing.T) {
	s := newServer(t, nil)
	s.fill(t)
	for _, c := range []struct {
		path       string
		parameters []string
		want       string
	}{
		{"labels", nil, `["__name__","axis","device","exported_axis","exported_device","site"]`},
		{"labels", []string{"match[]", "running"}, `["__name__","device"]`},
		{"labels", []string{"match[]", "running", "match[]", `{axis="x"}`, "limit", "2"}, `["__name__","axis"]`},
		{"labels", []string{"end", "1795175700"}, `[]`},
		{"label/__name__/values", nil, `["n","running","temp"]`},
		{"label/__name__/values", []string{"match[]", `{device=~"m.*",site=""}`}, `["n","running","temp"]`},
		{"label/site/values", nil, `["hall"]`},
		{"label/U__site/values", nil, `["hall"]`},
		{"label/device/values", []string{"match[]", `temp{site!="hall"}`}, `["m2"]`},
		{"label/device/values", []string{"match[]", `temp{device=~"m1|m3"}`}, `["m1"]`},
		{"series", []string{"match[]", `{device="m2"}`}, `[{"__name__":"n","device":"m2"},{"__name__":"running","device":"m2"},
			{"__name__":"temp","device":"m2"}]`},
		{"series", []string{"match[]", `{device="m2"}`, "limit", "1"}, `[{"__name__":"n","device":"m2"}]`},
		{"series", []string{"match[]", `{device="m"}`}, `[]`},
		{"metadata", []string{"metric", "temp"}, `{"temp":[{"type":"unknown","help":"","unit":""}]}`},
		{"metadata", []string{"limit", "0"}, `{}`},
		{"query_exemplars", []string{"query", "test"}, `[]`},
		{"rules", nil, `{"groups":[]}`},
		{"status/buildinfo", nil, `{"version":"3.15.0","application":"binnacle"}`},
		{"format_query", []string{"query", "sum  by(site)(temp)"}, `"sum by (site) (temp)"`},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			r := s.do(t, method, "/api/v1/"+c.path, http.Header{access.TenantHeader: {"acme"}}, c.parameters...)
			require.Equal(t, 200, r.status, "%v: %s", c, r.Error)
			require.JSONEq(t, c.want, string(r.Data), "%v", c)
		}
	}
	require.Equal(t, []string{"results truncated due to limit"},
		s.ask(t, "/api/v1/labels", "limit", "1", "start", "1795100000").Warnings)
}

func TestInvalidRequests(t *testing.T) {
	s := newServer(t, func(_ *query.Config, c *prom.Config) { c.MaxSamples = 12 })
	s.fill(t)
	for _, c := range []struct {
		path       string
		parameters []string
		status     int
		kind, says string
	}{
		{"query", []string{"query", "temp{"}, 400, "bad_data", `invalid parameter "query": 1:6: parse error: ` +
			"unexpected end of input inside braces"},
		{"query", []string{"query", "temp", "time", "noon"}, 400, "bad_data", `cannot parse "noon" to a valid timestamp`},
		{"query", []string{"query", "temp", "timeout", "long"}, 400, "bad_data", "valid duration"},
		{"query", []string{"query", "temp", "lookback_delta", "x"}, 400, "bad_data", "valid duration"},
		{"query", []string{"query", "temp", "limit", "-1"}, 400, "bad_data", "limit"},
		{"query", []string{"query", "temp + on(site) temp"}, 422, "execution", "many-to-many"},
		{"query", []string{"query", "max_over_time(temp[10m])"}, 200, "", ""},
		{"query_range", []string{"query", "temp", "start", "1795175700", "end", "1795176000", "step", "10"}, 422, "execution",
			"too many samples"},
		{"query", []string{"query", "temp", "timeout", "0"}, 503, "timeout", "timed out"},
		{"query_range", []string{"query", "temp", "start", "0", "end", "11001", "step", "1"}, 400, "bad_data",
			"exceeded maximum resolution of 11,000 points per timeseries"},
		{"query_range", []string{"query", "temp", "start", "2", "end", "1", "step", "1"}, 400, "bad_data", "end timestamp"},
		{"query_range", []string{"query", "temp", "start", "1", "end", "2", "step", "0"}, 400, "bad_data", "positive"},
		{"query_range", []string{"query", "temp", "end", "2", "step", "1"}, 400, "bad_data", `"start"`},
		{"series", nil, 400, "bad_data", "no match[] parameter provided"},
		{"series", []string{"match[]", `{a=""}`}, 400, "bad_data", "match[]"},
		{"nothing", nil, 404, "not_found", "no such endpoint: /prometheus/api/v1/nothing"},
	} {
		r := s.ask(t, "/api/v1/"+c.path, c.parameters...)
		require.Equal(t, c.status, r.status, "%v: %s", c, r.Error)
		require.Equal(t, c.kind, r.ErrorType, "%v", c)
		require.Contains(t, r.Error, c.says, "%v", c)
	}
	r := s.do(t, http.MethodPut, "/api/v1/query", nil)
	require.Equal(t, 405, r.status)
	require.Equal(t, "GET, POST", r.header.Get("Allow"))
}

func TestIncompleteAnswerWarns(t *testing.T) {
	s := newServer(t, nil)
	s.fill(t)
	s.world.Heads.Reset()
	for _, path := range []string{"/api/v1/query", "/api/v1/labels"} {
		r := s.ask(t, path, "query", "temp", "start", "1795100000")
		require.Equal(t, 200, r.status, path)
		require.Equal(t, []string{"the answer is incomplete: no ingester answers for partition telemetry/0"}, r.Warnings,
			path)
	}
}

// What all reads of a query have cost together stands in a header, as it stands in the stats of other answers.
func TestAnswerShowsCost(t *testing.T) {
	for _, c := range []struct {
		path, query           string
		documents, rows, keys int
	}{
		{"/api/v1/query", "1", 0, 0, 0},
		{"/api/v1/query", `temp{device="m1"}`, 1, 2, 1},
		{"/api/v1/query", `temp{device="m1"} + temp{device="m1"} offset 1m`, 2, 4, 2},
		{"/api/v1/series", `temp{device="m1"}`, 1, 2, 1},
	} {
		s := newServer(t, nil)
		s.fill(t)
		r := s.ask(t, c.path, "query", c.query, "match[]", c.query)
		require.Equal(t, 200, r.status, r.Error)
		var cost map[string]float64
		require.NoError(t, json.Unmarshal([]byte(r.header.Get("Binnacle-Stats")), &cost))
		require.Equal(t, float64(c.documents), cost["documents"], "%s: %v", c.query, cost)
		require.Equal(t, float64(c.rows), cost["head_rows"], "%s: %v", c.query, cost)
		require.LessOrEqual(t, cost["keys"], float64(c.keys), "%s: %v", c.query, cost)
		require.Equal(t, c.keys > 0, cost["request_units"] > 0, "%s: %v", c.query, cost)
	}
}

func TestStoreFailures(t *testing.T) {
	s := newServer(t, func(c *query.Config, p *prom.Config) { p.MemoryBytes = 40 })
	s.fill(t)
	r := s.ask(t, "/api/v1/query", "query", "temp")
	require.Equal(t, 422, r.status)
	require.Equal(t, "execution", r.ErrorType)
	require.Contains(t, r.Error, "memory")
	broken := newServer(t, nil)
	broken.world.Catalog.Fault = func(string, string, string) *storetest.Fault {
		return &storetest.Fault{Err: errors.New("secret detail")}
	}
	for _, path := range []string{"/api/v1/query", "/api/v1/series", "/api/v1/label/site/values"} {
		r = broken.ask(t, path, "query", "temp", "match[]", "temp")
		require.Equal(t, 503, r.status, path)
		require.Equal(t, "unavailable", r.ErrorType, path)
		require.NotContains(t, r.Error, "secret", path)
	}
}

// failingStore fails until the time of a query is over, as a store behind a client that sends reads again does.
type failingStore struct{}

func (failingStore) Scan(ctx context.Context, _ store.Scan, _ func([]byte) error) (store.Usage, error) {
	failing := &store.FailingError{Attempts: 2, Status: "503", Last: errors.New("secret detail")}
	store.PersistenceOf(ctx).Note(failing)
	<-ctx.Done()
	return store.Usage{}, fmt.Errorf("%w: %w", ctx.Err(), failing)
}

// A query that has used its time says what the store has answered.
func TestTimedOutQueryTellsHowStoreFails(t *testing.T) {
	s := newServer(t, func(c *query.Config, _ *prom.Config) { c.Reader = failingStore{} })
	s.fill(t)
	r := s.ask(t, "/api/v1/query", "query", "temp", "timeout", "50ms")
	require.Equal(t, []any{503, "timeout"}, []any{r.status, r.ErrorType})
	require.Contains(t, r.Error, "the store answers 503")
	require.NotContains(t, r.Error, "secret")
}

// A query is one in the gate, however many selectors it has; and it waits for its turn.
func TestQueryTakesOneTurn(t *testing.T) {
	s := newServer(t, func(c *query.Config, _ *prom.Config) {
		c.MaxQueries, c.MaxQueued, c.QueueTimeout = 1, 1, time.Millisecond
	})
	s.fill(t)
	require.Equal(t, 200, s.ask(t, "/api/v1/query", "query", "temp + temp - on() group_left() max(temp)").status)
	require.NoError(t, s.query.Admit(t.Context(), "acme", func(context.Context) error {
		r := s.ask(t, "/api/v1/query", "query", "temp")
		require.Equal(t, 503, r.status)
		require.Equal(t, "unavailable", r.ErrorType)
		return nil
	}))
}

// Every endpoint answers for the tenant of the credential, whatever a request names.
func TestCredentialIsForItsTenant(t *testing.T) {
	var tokens *tenant.Tokens
	s := newServer(t, func(_ *query.Config, c *prom.Config) {
		gate, err := access.New(access.Config{Now: c.Now, Tokens: func(ctx context.Context) ([]tenant.Token, error) {
			return tokens.List(ctx)
		}})
		require.NoError(t, err)
		c.Gate = gate
	})
	tokens = tenant.NewTokens(s.world.Documents)
	s.fill(t)
	token := func(name string, scope tenant.Scope) http.Header {
		secret, _, err := tokens.Add(t.Context(), tenant.Token{Tenant: name, Scopes: []tenant.Scope{scope},
			Created: noon})
		require.NoError(t, err)
		return http.Header{"Authorization": {"Bearer " + secret}}
	}
	mine, theirs, writer := token("acme", tenant.ScopeRead), token("globex", tenant.ScopeRead),
		token("acme", tenant.ScopeWrite)
	for _, path := range []string{"query", "query_range", "labels", "label/device/values", "label/__name__/values",
		"series", "metadata"} {
		ask := func(h http.Header) response {
			return s.do(t, http.MethodGet, "/api/v1/"+path, h, "query", "temp", "start", "1795175700", "end", "1795176000",
				"step", "60", "match[]", `{__name__=~".+"}`)
		}
		r := ask(mine)
		require.Equal(t, 200, r.status, path)
		require.Regexp(t, "temp|m1|device", string(r.Data), path)
		r = ask(theirs)
		require.Equal(t, 200, r.status, path)
		require.NotRegexp(t, "temp|m1|device", string(r.Data), path)
		r = ask(writer)
		require.Equal(t, 403, r.status, path)
		require.Equal(t, "forbidden", r.ErrorType, path)
		r = ask(http.Header{access.TenantHeader: {"acme"}})
		require.Equal(t, 401, r.status, path)
		require.Equal(t, "unauthorized", r.ErrorType, path)
		require.Contains(t, r.header.Get("WWW-Authenticate"), "Bearer", path)
	}
}
