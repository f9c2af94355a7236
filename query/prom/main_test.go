package prom_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant/access"
	"binnacle/query"
	"binnacle/query/prom"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// server is the API over a world, as clients reach it.
type server struct {
	*httptest.Server
	world *querytest.World
	query *query.Querier
}

func newServer(t testing.TB, change func(*query.Config, *prom.Config)) server {
	t.Helper()
	return newServerIn(t, querytest.New(t, noon), change)
}

// newServerIn is newServer in a world.
func newServerIn(t testing.TB, w *querytest.World, change func(*query.Config, *prom.Config)) server {
	t.Helper()
	w.Log.Set(100)
	w.Tenant("acme")
	now := func() time.Time { return w.Now }
	qc := query.Config{Reader: w.Store, Heads: w.Heads, Log: w.Log, Directory: w.Directory, Catalog: w.Catalog, Now: now}
	pc := prom.Config{Now: now}
	if change != nil {
		change(&qc, &pc)
	}
	q, err := query.New(qc)
	require.NoError(t, err)
	pc.Querier = q
	h, err := prom.New(pc)
	require.NoError(t, err)
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return server{s, w, q}
}

// response is an answer of the API.
type response struct {
	status    int
	header    http.Header
	Status    string
	Data      json.RawMessage
	ErrorType string
	Error     string
	Warnings  []string
	Infos     []string
}

// ask sends a request for acme: a GET with the parameters in its URL.
func (s server) ask(t testing.TB, path string, parameters ...string) response {
	t.Helper()
	return s.do(t, http.MethodGet, path, http.Header{access.TenantHeader: {"acme"}}, parameters...)
}

// do sends a request with parameters, name and value by turns: of a POST as a form.
func (s server) do(t testing.TB, method, path string, header http.Header, parameters ...string) response {
	t.Helper()
	values := url.Values{}
	for i := 0; i < len(parameters); i += 2 {
		values.Add(parameters[i], parameters[i+1])
	}
	to, body := s.URL+"/prometheus"+path, ""
	if method == http.MethodPost {
		body = values.Encode()
	} else {
		to += "?" + values.Encode()
	}
	r, err := http.NewRequestWithContext(t.Context(), method, to, strings.NewReader(body))
	require.NoError(t, err)
	for name, values := range header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := s.Client().Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	out := response{status: resp.StatusCode, header: resp.Header}
	require.NoError(t, json.Unmarshal(text, &out), string(text))
	return out
}

// record is a reading of acme.
func record(offset int64, device string, at time.Time, labels telemetry.Labels,
	fields ...telemetry.Field) querytest.Record {
	return querytest.Record{
		Position: telemetry.Position{Stream: 1, Offset: offset},
		Reading:  telemetry.Reading{Tenant: "acme", Device: device, Time: at.UnixMilli(), Labels: labels, Fields: fields},
	}
}

func float(metric string, f float64) telemetry.Field {
	return telemetry.Field{Metric: metric, Value: telemetry.FloatValue(f)}
}

// fill puts a chunk of device m1 and heads of m1 and m2. m1 has tags.
func (s server) fill(t testing.TB) {
	s.world.Catalog.AddPage("acme", storetest.Entry("m1",
		map[string]string{"site": "hall", "axis": "none", "device": "no", "empty": ""}))
	s.world.Chunk(
		record(1, "m1", noon.Add(-4*time.Minute), nil, float("temp", 20)),
		record(2, "m1", noon.Add(-3*time.Minute), nil, float("temp", 21),
			telemetry.Field{Metric: "note", Value: telemetry.TextValue("hot")}),
	)
	axis := telemetry.Labels{{Name: "axis", Value: "x"}, {Name: "none", Value: ""}}
	s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 100},
		record(3, "m1", noon.Add(-2*time.Minute), nil, float("temp", 22)),
		record(4, "m1", noon.Add(-time.Minute), axis, float("temp", 23)),
		record(5, "m2", noon.Add(-time.Minute), nil, float("temp", 30),
			telemetry.Field{Metric: "running", Value: telemetry.BoolValue(true)},
			telemetry.Field{Metric: "n", Value: telemetry.IntValue(1<<53 + 1)}),
	)
}
