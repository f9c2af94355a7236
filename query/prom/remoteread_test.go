package prom_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"binnacle/internal/access"
	"binnacle/internal/store"
	"binnacle/query"
	"binnacle/query/prom"
	"binnacle/query/querytest"

	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
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
	asked.AcceptedResponseTypes = []prompb.ReadRequest_ResponseType{7}
	resp, body = s.read(t, request(t, asked))
	require.Equal(t, 400, resp.StatusCode)
	require.Contains(t, string(body), "none of the response types")
	s.world.Heads.Reset() // what is missing can't be said, so it is no answer
	for _, accepted := range [][]prompb.ReadRequest_ResponseType{nil, {prompb.ReadRequest_STREAMED_XOR_CHUNKS}} {
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

// chunked is a request for metrics of all devices, to be answered as Prometheus likes it best.
func chunked(t *testing.T, metrics ...string) []byte {
	asked := prompb.ReadRequest{AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{
		prompb.ReadRequest_STREAMED_XOR_CHUNKS, prompb.ReadRequest_SAMPLES,
	}}
	for _, m := range metrics {
		asked.Queries = append(asked.Queries, &prompb.Query{
			StartTimestampMs: 0, EndTimestampMs: noon.UnixMilli(),
			Matchers: []*prompb.LabelMatcher{{Name: "__name__", Value: m}},
		})
	}
	return request(t, asked)
}

// framesIn is the messages of a streamed answer, and of how many bytes the longest is.
func framesIn(t *testing.T, body []byte) (out []prompb.ChunkedReadResponse, longest int) {
	for len(body) > 0 {
		n, length := binary.Uvarint(body)
		require.Positive(t, length)
		body = body[length:]
		sum, data := binary.BigEndian.Uint32(body), body[4:4+n]
		require.Equal(t, crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)), sum)
		var m prompb.ChunkedReadResponse
		require.NoError(t, m.Unmarshal(data))
		out, longest = append(out, m), max(longest, int(n))
		body = body[4+n:]
	}
	return out, longest
}

// samplesIn is what XOR chunks hold, as a time and the bits of a value by turns.
func samplesIn(t *testing.T, chunks []prompb.Chunk) (out []uint64) {
	for _, c := range chunks {
		require.Equal(t, prompb.Chunk_XOR, c.Type)
		x, err := chunkenc.FromData(chunkenc.EncXOR, c.Data)
		require.NoError(t, err)
		require.LessOrEqual(t, x.NumSamples(), 120)
		it, last := x.Iterator(nil), int64(0)
		for n := 0; it.Next() != chunkenc.ValNone; n++ {
			at, v := it.At()
			if n == 0 {
				require.Equal(t, c.MinTimeMs, at)
			}
			out, last = append(out, uint64(at), math.Float64bits(v)), at
		}
		require.Equal(t, c.MaxTimeMs, last)
	}
	return out
}

func TestRemoteReadStreams(t *testing.T) {
	s := newServer(t, nil)
	s.fill(t)
	resp, body := s.read(t, chunked(t, "temp", "running"))
	require.Equal(t, 200, resp.StatusCode, string(body))
	require.Equal(t, "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse",
		resp.Header.Get("Content-Type"))
	frames, _ := framesIn(t, body)
	var got []string
	for _, f := range frames {
		require.Len(t, f.ChunkedSeries, 1)
		var b labels.ScratchBuilder
		got = append(got, fmt.Sprintf("%d %s %d", f.QueryIndex,
			f.ChunkedSeries[0].ToLabels(&b, nil), len(samplesIn(t, f.ChunkedSeries[0].Chunks))/2))
	}
	require.Equal(t, []string{
		`0 {__name__="temp", axis="none", device="m1", exported_device="no", site="hall"} 3`,
		`0 {__name__="temp", axis="x", device="m1", exported_axis="none", exported_device="no", site="hall"} 1`,
		`0 {__name__="temp", device="m2"} 1`,
		`1 {__name__="running", device="m2"} 1`,
	}, got)
}

// A long series comes in several frames, each of about a megabyte, with all its samples in all bits.
func TestLongSeriesIsSentInFrames(t *testing.T) {
	s := newServer(t, nil)
	c := chance{rand.New(rand.NewPCG(1, 2))}
	var want []uint64
	var records []querytest.Record
	at := noon.Add(-11 * time.Hour)
	for n := range int64(150_000) {
		at = at.Add(c.between(time.Millisecond, 300*time.Millisecond))
		records = append(records, record(n, "m1", at, nil, float("wide", math.Float64frombits(c.Uint64()))))
		want = append(want, uint64(at.UnixMilli()), records[n].Fields[0].Value.Bits())
	}
	s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 200_000}, records...)
	s.world.Log.Set(150_000)
	resp, body := s.read(t, chunked(t, "wide"))
	require.Equal(t, 200, resp.StatusCode)
	frames, longest := framesIn(t, body)
	require.Greater(t, len(frames), 1)
	require.Less(t, longest, 1<<20+4096)
	var got []uint64
	for _, f := range frames {
		got = append(got, samplesIn(t, f.ChunkedSeries[0].Chunks)...)
	}
	require.True(t, slices.Equal(want, got))
}

// A stream holds chunks and one series unpacked, so that it has room for much more than samples have.
func TestStreamMemory(t *testing.T) {
	s := newServer(t, func(_ *query.Config, c *prom.Config) { c.MemoryBytes = 200_000 })
	var records []querytest.Record
	for n := range int64(40_000) {
		records = append(records, record(n, fmt.Sprintf("m%02d", n%40), noon.Add(time.Duration(n-40_000)*time.Second), nil,
			float("temp", 20)))
	}
	s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 200_000}, records...)
	s.world.Log.Set(40_000)
	resp, body := s.read(t, chunked(t, "temp"))
	require.Equal(t, 200, resp.StatusCode, string(body))
	frames, _ := framesIn(t, body)
	require.Len(t, frames, 40)
	asked := prompb.ReadRequest{Queries: []*prompb.Query{{EndTimestampMs: noon.UnixMilli(),
		Matchers: []*prompb.LabelMatcher{{Name: "__name__", Value: "temp"}}}}}
	resp, body = s.read(t, request(t, asked))
	require.Equal(t, 422, resp.StatusCode, string(body))
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
	many := s.ask(t, "/api/v1/series", slices.Repeat([]string{"match[]", "temp"}, 1001)...)
	require.Equal(t, 400, many.status)
	require.Contains(t, many.Error, "at most 1000")
}
