package httpapi_test

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/httpapi"
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
}

func newServer(t testing.TB, change func(*query.Config, *httpapi.Config)) server {
	t.Helper()
	w := querytest.New(t, noon)
	w.Log.Set(100)
	w.Tenant("acme")
	now := func() time.Time { return w.Now }
	qc := query.Config{Reader: w.Store, Heads: w.Heads, Log: w.Log, Directory: w.Directory, Catalog: w.Catalog, Now: now}
	ac := httpapi.Config{Now: now}
	if change != nil {
		change(&qc, &ac)
	}
	q, err := query.New(qc)
	require.NoError(t, err)
	ac.Querier = q
	h, err := httpapi.New(ac)
	require.NoError(t, err)
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return server{s, w}
}

// answer is what a client has got.
type answer struct {
	status  int
	header  http.Header
	trailer http.Header
	body    string
}

func (s server) get(t testing.TB, path string) answer {
	t.Helper()
	a, err := s.do(t, http.MethodGet, path, http.Header{httpapi.TenantHeader: {"acme"}})
	require.NoError(t, err)
	return a
}

func (s server) do(t testing.TB, method, path string, header http.Header) (answer, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, nil)
	require.NoError(t, err)
	for name, values := range header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	resp, err := s.Client().Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, resp.Trailer, string(body)}, err
}

func record(offset int64, device string, at time.Time, labels telemetry.Labels,
	fields ...telemetry.Field) querytest.Record {
	return querytest.Record{
		Position: telemetry.Position{Stream: 1, Offset: offset},
		Reading:  telemetry.Reading{Tenant: "acme", Device: device, Time: at.UnixMilli(), Labels: labels, Fields: fields},
	}
}

func field(metric string, v telemetry.Value) telemetry.Field {
	return telemetry.Field{Metric: metric, Value: v}
}

func float(metric string, f float64) telemetry.Field { return field(metric, telemetry.FloatValue(f)) }

// fill puts a chunk and a head of device m1, and a head of m2 with everything that is hard to write down.
func (s server) fill() {
	s.world.Chunk(
		record(1, "m1", noon.Add(-30*time.Minute), nil, float("temp", 21.5), field("n", telemetry.IntValue(math.MaxInt64))),
		record(2, "m1", noon.Add(-20*time.Minute), telemetry.Labels{{Name: "axis", Value: "x"}}, float("temp", math.NaN()),
			field("ok", telemetry.BoolValue(true))),
	)
	s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 100, CaughtUp: 50},
		record(3, "m1", noon.Add(-10*time.Minute), nil, float("temp", math.Copysign(0, -1)), float("hot", math.Inf(1))),
		record(4, "m2", noon.Add(-5*time.Minute-500*time.Millisecond),
			telemetry.Labels{{Name: "temp", Value: `a "b", c`}, {Name: "time", Value: "x"}},
			float("temp", 1e21), field("msg", telemetry.TextValue("é<&>\n,")), field("none", telemetry.TextValue("")),
			float("hot", math.Inf(-1))),
	)
}
