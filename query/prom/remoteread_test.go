package prom_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/tenant/access"
	"binnacle/query"
	"binnacle/query/prom"
	"binnacle/query/querytest"

	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"
)

// read asks as the remote_read of a Prometheus does.
func (s server) read(t *testing.T, body []byte) (*http.Response, []byte) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/prometheus/api/v1/read",
		bytes.NewReader(body))
	require.NoError(t, err)
	r.Header.Set(access.TenantHeader, "acme")
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("Content-Encoding", "snappy")
	resp, err := s.Client().Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, answer
}

func TestRemoteRead(t *testing.T) {
	s := newServer(t, nil)
	s.fill(t)
	from := noon.Add(-3 * time.Minute).UnixMilli()
	asked := prompb.ReadRequest{Queries: []*prompb.Query{{
		StartTimestampMs: from, EndTimestampMs: noon.Add(-2 * time.Minute).UnixMilli(),
		Matchers: []*prompb.LabelMatcher{{Name: "__name__", Value: "temp"},
			{Type: prompb.LabelMatcher_RE, Name: "site", Value: "ha.*"}},
	}}}
	plain, err := asked.Marshal()
	require.NoError(t, err)
	resp, body := s.read(t, s2.EncodeSnappy(nil, plain))
	require.Equal(t, 200, resp.StatusCode, string(body))
	require.Equal(t, "application/x-protobuf", resp.Header.Get("Content-Type"))
	require.Equal(t, "snappy", resp.Header.Get("Content-Encoding"))
	body, err = s2.Decode(nil, body)
	require.NoError(t, err)
	var out prompb.ReadResponse
	require.NoError(t, out.Unmarshal(body))
	require.Equal(t, []*prompb.QueryResult{{Timeseries: []*prompb.TimeSeries{{
		Labels: []prompb.Label{{Name: "__name__", Value: "temp"}, {Name: "axis", Value: "none"},
			{Name: "device", Value: "m1"}, {Name: "exported_device", Value: "no"}, {Name: "site", Value: "hall"}},
		Samples: []prompb.Sample{{Timestamp: from, Value: 21}, {Timestamp: from + 60_000, Value: 22}},
	}}}}, out.Results)

	resp, _ = s.read(t, []byte("no snappy"))
	require.Equal(t, 400, resp.StatusCode)
	asked.AcceptedResponseTypes = []prompb.ReadRequest_ResponseType{prompb.ReadRequest_STREAMED_XOR_CHUNKS}
	resp, body = s.read(t, request(t, asked))
	require.Equal(t, 400, resp.StatusCode)
	require.Contains(t, string(body), "none of the response types")
	s.world.Heads.Reset() // what is missing can't be said, so it is no answer
	streams := []prompb.ReadRequest_ResponseType{prompb.ReadRequest_STREAMED_XOR_CHUNKS, prompb.ReadRequest_SAMPLES}
	for _, accepted := range [][]prompb.ReadRequest_ResponseType{nil, streams} {
		asked.AcceptedResponseTypes = accepted
		resp, body = s.read(t, request(t, asked))
		require.Equal(t, 503, resp.StatusCode)
		require.Contains(t, string(body), "no ingester answers for partition telemetry/0")
	}
}

func request(t *testing.T, asked prompb.ReadRequest) []byte {
	plain, err := asked.Marshal()
	require.NoError(t, err)
	return s2.EncodeSnappy(nil, plain)
}

// A client that sends its body slowly waits for itself: it has no turn that others wait for.
func TestSlowBodyHoldsNoTurn(t *testing.T) {
	s := newServer(t, func(q *query.Config, _ *prom.Config) { q.MaxQueries, q.QueueTimeout = 1, time.Millisecond })
	s.fill(t)
	body, client := io.Pipe()
	r := httptest.NewRequest(http.MethodPost, "/prometheus/api/v1/read", body)
	r.RemoteAddr = "127.0.0.1:5"
	r.Header.Set(access.TenantHeader, "acme")
	slow := httptest.NewRecorder()
	var asked sync.WaitGroup
	asked.Go(func() { s.Config.Handler.ServeHTTP(slow, r) })
	_, err := client.Write([]byte{1}) // it is being read
	require.NoError(t, err)
	answer := s.ask(t, "/api/v1/query", "query", "temp")
	require.NoError(t, client.CloseWithError(io.ErrUnexpectedEOF))
	asked.Wait()
	require.Equal(t, http.StatusOK, answer.status, answer.Error)
	require.Equal(t, http.StatusBadRequest, slow.Code)
}

// A small request can't ask for any number of reads, nor for a match that there is none of.
func TestRemoteReadsAreBounded(t *testing.T) {
	s := newServer(t, nil)
	s.fill(t)
	resp, body := s.read(t, request(t, prompb.ReadRequest{Queries: slices.Repeat([]*prompb.Query{{}}, 1001)}))
	require.Equal(t, 400, resp.StatusCode)
	require.Contains(t, string(body), "1001 queries in one request; at most 1000 are allowed")
	resp, body = s.read(t, request(t, prompb.ReadRequest{Queries: []*prompb.Query{{Matchers: []*prompb.LabelMatcher{
		{Type: 9, Name: "device", Value: "m1"}}}}}))
	require.Equal(t, 400, resp.StatusCode)
	require.Contains(t, string(body), "unknown type 9")
	resp, body = s.read(t, s2.EncodeSnappy(nil, make([]byte, 2<<20)))
	require.Equal(t, 400, resp.StatusCode)
	require.Contains(t, string(body), "of at most 1 MiB")
	long := &prompb.Query{Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_NRE, Name: "device",
		Value: strings.Repeat("x{1000}", 60)}}}
	resp, body = s.read(t, request(t, prompb.ReadRequest{Queries: []*prompb.Query{long, long, long}}))
	require.Equal(t, 400, resp.StatusCode)
	require.Contains(t, string(body), "at most 1048576 are allowed")
	many := s.ask(t, "/api/v1/series", slices.Repeat([]string{"match[]", "temp"}, 1001)...)
	require.Equal(t, 400, many.status)
	require.Contains(t, many.Error, "at most 1000")
}

// What a remote read answers counts in its memory as it is packed, too.
func TestRemoteReadCountsAsMemory(t *testing.T) {
	var all []querytest.Record
	for i := range 3000 {
		all = append(all, record(int64(i), "m1", noon.Add(time.Duration(i-3500)*time.Second), nil, float("temp", 1)))
	}
	for bytes, status := range map[int64]int{120 << 10: 422, 300 << 10: 200} {
		s := newServer(t, func(_ *query.Config, c *prom.Config) { c.MemoryBytes = bytes })
		s.world.Chunk(all...)
		s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 5000})
		resp, body := s.read(t, request(t, prompb.ReadRequest{Queries: []*prompb.Query{{StartTimestampMs: 0,
			EndTimestampMs: noon.UnixMilli(), Matchers: []*prompb.LabelMatcher{{Name: "__name__", Value: "temp"}}}}}))
		require.Equal(t, status, resp.StatusCode, "%.200s", body)
	}
}
