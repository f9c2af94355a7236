package prom_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"binnacle/internal/access"

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
	s.world.Heads.Reset() // what is missing can't be said, so it is no answer
	resp, body = s.read(t, s2.EncodeSnappy(nil, plain))
	require.Equal(t, 503, resp.StatusCode)
	require.Contains(t, string(body), "no ingester answers for partition telemetry/0")
}
