package cosmos_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"binnacle/internal/cosmos"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// script answers requests for items in turn, and the account by itself.
type script struct {
	t       *testing.T
	account error // of GET / until it is nil
	answers []answer
	asked   []string
	seen    func(*http.Request)
	refused bool // a request was answered 429; from then on nobody may know the physical partitions

	container bool // it has one physical partition
}

type answer struct {
	status  int
	headers map[string]string
	body    string
	err     error
	broken  error // after the body
}

func (s *script) Do(r *http.Request) (*http.Response, error) {
	a := answer{status: 200, body: `{"writableLocations":[],"readableLocations":[]}`}
	if r.URL.Path == "/" || r.URL.Path == "" {
		a.err = s.account
	} else if s.container && r.Method == http.MethodGet && !strings.HasSuffix(r.URL.Path, "/docs") {
		a = metadata(r)
	} else if s.refused && r.Method == http.MethodGet && !strings.Contains(r.URL.Path, "/docs") {
		a = answer{status: 403}
	} else {
		s.asked = append(s.asked, r.Method+" "+r.URL.Path)
		require.NotEmpty(s.t, s.answers, "%s %s is one request too many", r.Method, r.URL.Path)
		a, s.answers = s.answers[0], s.answers[1:]
		if s.seen != nil {
			s.seen(r)
		}
		s.refused = s.refused || a.status == 429
	}
	if a.err != nil {
		return nil, a.err
	}
	h := http.Header{"Content-Type": {"application/json"}}
	for k, v := range a.headers {
		h.Set(k, v)
	}
	body := io.NopCloser(strings.NewReader(a.body))
	if a.broken != nil {
		body = failing(a.body, a.broken)
	}
	return &http.Response{StatusCode: a.status, Status: http.StatusText(a.status), Header: h, Request: r, Body: body}, nil
}

// metadata answers requests for a container and its one physical partition.
func metadata(r *http.Request) answer {
	switch {
	case !strings.HasSuffix(r.URL.Path, "/pkranges"):
		return answer{status: 200, body: `{"id":"control","_rid":"AAA=","partitionKey":{"paths":["/kind"],"version":2}}`}
	case r.Header.Get("If-None-Match") != "":
		return answer{status: 304}
	}
	return answer{status: 200, headers: map[string]string{"etag": `"1"`},
		body: `{"_rid":"AAA=","PartitionKeyRanges":[{"id":"0","minInclusive":"","maxExclusive":"FF","parents":[]}]}`}
}

var endpoints int

// client makes a client over a script, and the list of its waits.
func client(t *testing.T, s *script, change func(*cosmos.Config)) (*cosmos.Client, *[]time.Duration) {
	s.t = t
	endpoints++ // the SDK's caches are process-wide, by endpoint
	var waits []time.Duration
	cfg := cosmos.Config{
		Endpoint: fmt.Sprintf("http://script-%d.invalid/", endpoints), Credential: cosmos.FixedKey("a2V5"), Transport: s,
		Sleep:  func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil },
		Jitter: func() float64 { return 0.5 }, Patience: time.Second,
	}
	if change != nil {
		change(&cfg)
	}
	c, err := cosmos.New(cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c, &waits
}

func throttled(retryAfter string) answer {
	return answer{429, map[string]string{"x-ms-retry-after-ms": retryAfter, "x-ms-substatus": "3200",
		"x-ms-request-charge": "0.5"}, `{"code":"429","message":"slow down\r\nActivityId: x"}`, nil, nil}
}

func created(charge string) answer {
	return answer{201, map[string]string{"x-ms-request-charge": charge, "etag": `"1"`}, "", nil, nil}
}

var anytime = telemetry.Range{To: telemetry.MaxMillis}

var key = sharding.Key{Container: "chunks-2026-11", TenantShard: "acme~4r", Device: "m1"}

func TestThrottledWritesWaitAndAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := &script{answers: []answer{throttled("10"), throttled("0"), throttled("20"), created("7.33")}}
	c, waits := client(t, s, func(cfg *cosmos.Config) { cfg.Registerer = registry })
	meter := &store.Meter{}
	receipt, err := c.Chunks().Create(store.WithMeter(t.Context(), meter), key, "x", []byte(`{}`))
	require.NoError(t, err)
	require.InDelta(t, 7.33+1.5, receipt.RUs, 1e-9, "every bit of the charge, failed attempts too")
	require.Equal(t, 3, receipt.Throttled)
	require.Equal(t, []time.Duration{15 * time.Millisecond, 200 * time.Millisecond, 60 * time.Millisecond}, *waits,
		"what the service asks for, and half of a spread that doubles")
	require.Equal(t, store.Reading{RUs: receipt.RUs, Requests: 4, Throttled: 3}, meter.Read())
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
		# HELP binnacle_cosmos_request_units_total Request units that Cosmos DB charged.
		# TYPE binnacle_cosmos_request_units_total counter
		binnacle_cosmos_request_units_total{container="chunks-2026-11",operation="create"} 8.83
		binnacle_cosmos_request_units_total{container="chunks-2026-11",operation="ranges_read"} 0
		# HELP binnacle_cosmos_requests_total Requests sent to Cosmos DB, by HTTP status; ok for success, error without an answer.
		# TYPE binnacle_cosmos_requests_total counter
		binnacle_cosmos_requests_total{operation="create",result="429"} 3
		binnacle_cosmos_requests_total{operation="create",result="ok"} 1
		binnacle_cosmos_requests_total{operation="ranges_read",result="403"} 1
		# HELP binnacle_cosmos_throttled_total Requests that Cosmos DB answered 429.
		# TYPE binnacle_cosmos_throttled_total counter
		binnacle_cosmos_throttled_total{operation="create"} 3
	`), "binnacle_cosmos_request_units_total", "binnacle_cosmos_requests_total", "binnacle_cosmos_throttled_total"))
}

func TestThrottledWriteStopsWithContext(t *testing.T) {
	s := &script{answers: []answer{throttled("10"), throttled("10"), throttled("10")}}
	ctx, cancel := context.WithCancel(t.Context())
	var waits int
	c, _ := client(t, s, func(cfg *cosmos.Config) {
		cfg.Sleep = func(ctx context.Context, _ time.Duration) error {
			if waits++; waits == 2 {
				cancel()
			}
			return ctx.Err()
		}
	})
	receipt, err := c.Chunks().Create(ctx, key, "x", []byte(`{}`))
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 2, receipt.Throttled)
	require.Len(t, s.answers, 1)
}

func TestItemsShowEvery429(t *testing.T) {
	s := &script{answers: []answer{throttled("10"), created("6")}}
	c, waits := client(t, s, nil)
	receipt, err := c.Items("naive").Create(t.Context(), []string{"2026-11-20"}, "x", []byte(`{"id":"x"}`))
	var e *cosmos.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, 429, e.Status)
	require.Equal(t, 3200, e.Substatus)
	require.Equal(t, 10*time.Millisecond, e.RetryAfter)
	require.Equal(t, "cosmos answered 429/3200: slow down", e.Error())
	require.Equal(t, 1, receipt.Throttled)
	require.Empty(t, *waits)
	_, err = c.Items("naive").Create(t.Context(), []string{"2026-11-20"}, "x", []byte(`{"id":"x"}`))
	require.NoError(t, err)
}

// What the answer to a create means (rule W6). Where none of the sentinels is wanted the outcome is unknown.
func TestCreateResults(t *testing.T) {
	sentinels := []error{
		store.ErrExists, store.ErrNoContainer, store.ErrTooLarge, store.ErrNotFound, store.ErrAccountFull,
		store.ErrBusy, store.ErrKeyFull, store.ErrRejected, store.ErrDenied,
	}
	sub := func(status int, substatus string) answer {
		return answer{status: status, headers: map[string]string{"x-ms-substatus": substatus}}
	}
	for _, c := range []struct {
		answer answer
		want   error // nil: none of the sentinels
	}{
		{answer{status: 409, headers: map[string]string{"x-ms-session-token": "0:1#7"}}, store.ErrExists},
		{answer{status: 404}, store.ErrNoContainer},
		{sub(404, "1003"), store.ErrNoContainer},
		{answer{status: 413}, store.ErrTooLarge},
		{throttled("2000"), store.ErrBusy},
		{sub(403, "1014"), store.ErrKeyFull},
		{answer{status: 400}, store.ErrRejected},
		{sub(400, "1001"), store.ErrRejected},
		{sub(400, "1024"), nil},
		{answer{status: 401}, store.ErrDenied},
		{answer{status: 403}, store.ErrDenied},
		{sub(403, "5300"), store.ErrDenied},
		{answer{status: 408}, nil},
		{answer{status: 449}, nil},
		{answer{status: 500, body: "<html>"}, nil},
		{answer{status: 503}, nil},
		{sub(410, "1002"), nil},
		{answer{err: io.ErrUnexpectedEOF}, nil},
	} {
		s := &script{answers: []answer{created("5"), c.answer}}
		client, _ := client(t, s, nil)
		_, err := client.Chunks().Create(t.Context(), key, "x", []byte(`{}`))
		require.NoError(t, err)
		_, err = client.Chunks().Create(t.Context(), key, "x", []byte(`{}`))
		require.Error(t, err)
		for _, sentinel := range sentinels {
			require.Equal(t, sentinel == c.want, errors.Is(err, sentinel), "%+v: %v", c.answer, err)
		}
		if c.want == store.ErrExists {
			var exists *store.ExistsError
			require.ErrorAs(t, err, &exists)
			require.Equal(t, "0:1#7", exists.Session)
		}
		if c.want == store.ErrBusy {
			var busy *store.BusyError
			require.ErrorAs(t, err, &busy)
			require.Equal(t, 2*time.Second, busy.RetryAfter)
		}
		require.NotContains(t, err.Error(), "\n", "one line")
	}
}

// A 404 for an item may be about its container.
func TestReadResults(t *testing.T) {
	notFound := func(sub string) answer { return answer{status: 404, headers: map[string]string{"x-ms-substatus": sub}} }
	for _, c := range []struct {
		answers []answer
		want    error
	}{
		{[]answer{notFound("1003")}, store.ErrNoContainer},
		{[]answer{notFound("1002"), notFound("1002")}, store.ErrNotFound}, // the SDK asks again by itself
		{[]answer{notFound("0"), {status: 200, body: `{"id":"chunks-2026-11"}`}}, store.ErrNotFound},
		{[]answer{notFound("0"), notFound("0")}, store.ErrNoContainer},
	} {
		s := &script{answers: c.answers}
		client, _ := client(t, s, nil)
		_, _, err := client.Chunks().Read(t.Context(), key, "x", "0:1#7")
		require.ErrorIs(t, err, c.want)
		require.Empty(t, s.answers)
	}
}

// An SDK client with a failed first contact returns that failure for five minutes; ours starts afresh.
func TestUnreachableAccount(t *testing.T) {
	s := &script{account: errors.New("connection refused"), answers: []answer{created("5")}}
	c, _ := client(t, s, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := c.Chunks().Create(ctx, key, "x", []byte(`{}`))
	require.Error(t, err)
	s.account = nil
	_, err = c.Chunks().Create(t.Context(), key, "x", []byte(`{}`))
	require.NoError(t, err)
}

// The service has no code for an account that is full: a refusal is one when the account has 500 of them.
func TestCreateContainerOnFullAccount(t *testing.T) {
	for _, c := range []struct {
		containers int
		full       bool
	}{{499, true}, {498, false}} {
		list := strings.Repeat(`{"id":"x"},`, c.containers-1) + `{"id":"x"}`
		s := &script{answers: []answer{
			{status: 403, body: `{"code":"Forbidden","message":"no"}`},
			{status: 200, body: `{"DocumentCollections":[` + list + `]}`},
		}}
		client, _ := client(t, s, nil)
		err := client.Containers().Create(t.Context(), "chunks-2026-11", store.Throughput{RUs: 400})
		require.ErrorContains(t, err, "403")
		require.Equal(t, c.full, errors.Is(err, store.ErrAccountFull))
	}
}

func TestConfigIsChecked(t *testing.T) {
	_, err := cosmos.New(cosmos.Config{Endpoint: "http://x.invalid"})
	require.Error(t, err)
	_, err = cosmos.New(cosmos.Config{Endpoint: "http://x.invalid", Credential: cosmos.FixedKey("not base64!")})
	require.ErrorContains(t, err, "base64")
}
