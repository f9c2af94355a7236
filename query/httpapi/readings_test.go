package httpapi_test

import (
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/httpapi"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

func TestJSON(t *testing.T) {
	s := newServer(t, nil)
	s.fill()
	a := s.get(t, "/api/v1/readings")
	require.Equal(t, 200, a.status, a.body)
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	require.Equal(t, `{"readings":[
{"device":"m1","ts":1795174200000,"values":{"n":9223372036854775807,"temp":21.5}},
{"device":"m1","ts":1795174800000,"labels":{"axis":"x"},"values":{"ok":true,"temp":"NaN"}},
{"device":"m1","ts":1795175400000,"values":{"hot":"+Inf","temp":-0}},
{"device":"m2","ts":1795175699500,"labels":{"temp":"a \"b\", c","time":"x"},"values":{"hot":"-Inf","msg":"é<&>\u000a,","none":"","temp":1e+21}}
],"truncated":false,"complete":true,"stats":{"request_units":12,"documents":1,"keys":4,"containers":1,"head_rows":2}}
`, a.body)
	require.True(t, json.Valid([]byte(a.body)))
}

func TestEmptyAnswer(t *testing.T) {
	s := newServer(t, nil)
	s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 100})
	for path, warnings := range map[string]string{"?device=none": `"warnings":["no device \"none\""],`,
		"?metric=none": `"warnings":["no metric \"none\""],`, "?from=now&to=now": "",
		"?device=not/possible": `"warnings":["no device \"not/possible\""],`} {
		require.JSONEq(t, `{"readings":[],"truncated":false,"complete":true,`+warnings+`
			"stats":{"request_units":0,"documents":0,"keys":0,"containers":0,"head_rows":0}}`, s.get(t, "/api/v1/readings"+path).body, path)
	}
	a, err := s.do(t, http.MethodGet, "/api/v1/readings?format=csv&metric=b&metric=a&metric=b",
		http.Header{httpapi.TenantHeader: {"globex"}})
	require.NoError(t, err)
	require.Equal(t, 200, a.status)
	require.Equal(t, "time,device,b,a\n", a.body)
}

func TestIncompleteAnswer(t *testing.T) {
	s := newServer(t, nil)
	s.fill()
	s.world.Heads.Reset()
	a := s.get(t, "/api/v1/readings?limit=1&order=desc")
	require.Equal(t, 200, a.status)
	require.Equal(t, `{"readings":[
{"device":"m1","ts":1795174800000,"labels":{"axis":"x"},"values":{"ok":true,"temp":"NaN"}}
],"truncated":true,"next":"eyJmIjoxNzk1MTcyNDAwMDAwLCJ0IjoxNzk1MTc2MDAwMDAwLCJvIjp0cnVlLCJyIjoxNzk1MTc0ODAwMDAwLCJkIjoibTEiLCJsIjp7ImF4aXMiOiJ4In19","complete":false,"incomplete":["no ingester answers for partition telemetry/0"],"stats":{"request_units":12,"documents":1,"keys":4,"containers":1,"head_rows":0}}
`, a.body)
	a = s.get(t, "/api/v1/readings?format=ndjson&limit=1&order=desc")
	require.Equal(t, "true", a.trailer.Get("Binnacle-Truncated"))
	require.Equal(t, "false", a.trailer.Get("Binnacle-Complete"))
}

func TestNDJSONTrailers(t *testing.T) {
	s := newServer(t, nil)
	s.fill()
	for _, encoding := range []string{"identity", "gzip"} {
		a, err := s.do(t, http.MethodGet, "/api/v1/readings?format=ndjson&device=m1&metric=temp", http.Header{
			httpapi.TenantHeader: {"acme"}, "Accept-Encoding": {encoding},
		})
		require.NoError(t, err)
		require.Equal(t, "application/x-ndjson", a.header.Get("Content-Type"))
		require.Equal(t, `{"device":"m1","ts":1795174200000,"values":{"temp":21.5}}
{"device":"m1","ts":1795174800000,"labels":{"axis":"x"},"values":{"temp":"NaN"}}
{"device":"m1","ts":1795175400000,"values":{"temp":-0}}
`, a.body)
		require.Empty(t, a.header.Get("Binnacle-Complete"), "not a header")
		require.Equal(t, http.Header{
			"Binnacle-Stats":     {`{"request_units":3,"documents":1,"keys":1,"containers":1,"head_rows":1}`},
			"Binnacle-Truncated": {"false"}, "Binnacle-Complete": {"true"},
			"X-Binnacle-Source": {"rollups=0, chunks=1, heads=1"},
		}, a.trailer)
	}
}

func TestCompressedAnswersKeepTrailers(t *testing.T) {
	s := newServer(t, nil)
	s.flood(3000)
	a, err := s.do(t, http.MethodGet, "/api/v1/readings?format=ndjson", http.Header{
		httpapi.TenantHeader: {"acme"}, "Accept-Encoding": {"gzip"},
	})
	require.NoError(t, err)
	require.Equal(t, "gzip", a.header.Get("Content-Encoding"))
	r, err := gzip.NewReader(strings.NewReader(a.body))
	require.NoError(t, err)
	body, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, 3000, strings.Count(string(body), "\n"))
	require.Less(t, len(a.body), len(body)/4)
	require.Equal(t, "true", a.trailer.Get("Binnacle-Complete"))
}

// flood stores so many readings of one device, one a second, as a chunk.
func (s server) flood(n int) {
	records := make([]querytest.Record, n)
	for i := range records {
		at := noon.Add(time.Duration(i-n) * time.Second)
		records[i] = record(int64(i), "m1", at, nil, float("temp", float64(i)/8), float("velocity", float64(i%50)))
	}
	s.world.Chunk(records...)
	s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 100})
}

func TestWideCSV(t *testing.T) {
	s := newServer(t, nil)
	s.fill()
	a := s.get(t, "/api/v1/readings?format=csv")
	require.Equal(t, "text/csv; charset=utf-8", a.header.Get("Content-Type"))
	require.Equal(t, `time,device,axis,label:temp,label:time,hot,msg,n,none,ok,temp
2026-11-20T11:30:00.000Z,m1,,,,,,9223372036854775807,,,21.5
2026-11-20T11:40:00.000Z,m1,"x",,,,,,,true,NaN
2026-11-20T11:50:00.000Z,m1,,,,+Inf,,,,,-0
2026-11-20T11:54:59.500Z,m2,,"a ""b"", c","x",-Inf,"é<&>
,",,"",,1e+21
`, a.body)
	require.Equal(t, "false", a.trailer.Get("Binnacle-Truncated"))
	require.Equal(t, "true", a.trailer.Get("Binnacle-Complete"))
	require.JSONEq(t, `{"request_units":12,"documents":1,"keys":4,"containers":1,"head_rows":2}`,
		a.trailer.Get("Binnacle-Stats"))

	require.Equal(t, `time,device,axis,ok,temp
2026-11-20T11:40:00.000Z,m1,"x",true,NaN
2026-11-20T11:30:00.000Z,m1,,,21.5
`, s.get(t, "/api/v1/readings?format=csv&to=-15m&from=-1h&metric=ok&metric=temp&order=desc").body)
}

// However metrics and labels are called, each column of a wide CSV has a name of its own, and text is quoted.
func TestWideCSVHasEachColumnOnce(t *testing.T) {
	s := newServer(t, nil)
	labels := telemetry.Labels{{Name: "device", Value: "7"}, {Name: "label:speed", Value: "8"},
		{Name: "metric:time", Value: "z"}, {Name: "speed", Value: "9"}}
	text := telemetry.TextValue
	s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 100, CaughtUp: 50},
		record(3, "gps1", noon.Add(-time.Minute), labels, field("device", text("241408E4")), float("label:device", 2),
			field("metric:device", text("=1+1\r\n")), float("speed", 3), float("time", 5)))
	require.Equal(t, "time,device,label:label:device,label:speed,metric:time,label:label:speed,metric:metric:device,"+
		"label:device,metric:device,speed,metric:metric:time\n"+
		"2026-11-20T11:59:00.000Z,gps1,\"7\",\"8\",\"z\",\"9\",\"241408E4\",2,\"=1+1\r\n\",3,5\n",
		s.get(t, "/api/v1/readings?format=csv").body)
}

// Bounds are RFC 3339 as messages have it.
func TestBoundsInRFC3339(t *testing.T) {
	s := newServer(t, nil)
	s.fill()
	const path = "/api/v1/readings?format=ndjson&to=2026-11-21T00:00:00Z&"
	want := s.get(t, path+"from=2026-11-20T11:40:00Z").body
	require.Contains(t, want, "1795174800000")
	for _, asked := range []string{"from=2026-11-20t11:40:00z", "from=2026-11-20T12:40:00%2B01:00",
		"from=2026-11-20T12:40:00+01:00", "from=2026-11-20T11:39:59.99900000000001Z"} {
		require.Equal(t, want, s.get(t, path+asked).body, asked)
	}
	require.Equal(t, 200, s.get(t, "/api/v1/readings?from=2016-12-31T23:59:60Z").status)
}

func TestLongCSV(t *testing.T) {
	s := newServer(t, nil)
	s.fill()
	a := s.get(t, "/api/v1/readings?format=csv&layout=long&metric=temp&metric=msg&from=-21m")
	require.Equal(t, `time,device,labels,metric,value
2026-11-20T11:40:00.000Z,m1,"{""axis"":""x""}",temp,NaN
2026-11-20T11:50:00.000Z,m1,,temp,-0
2026-11-20T11:54:59.500Z,m2,"{""temp"":""a \""b\"", c"",""time"":""x""}",msg,"é<&>
,"
2026-11-20T11:54:59.500Z,m2,"{""temp"":""a \""b\"", c"",""time"":""x""}",temp,1e+21
`, a.body)
	require.Equal(t, "true", a.trailer.Get("Binnacle-Complete"))
}

// A wide CSV of any size has the same values as NDJSON, and one that does not fit says what to do.
func TestWideCSVMemory(t *testing.T) {
	s := newServer(t, func(_ *query.Config, c *httpapi.Config) { c.SpoolBytes = 600 << 10 })
	const n = 40_000 // about a megabyte of rows, several blocks
	s.flood(n)
	a := s.get(t, "/api/v1/readings?format=csv&from=-1d")
	require.Equal(t, 200, a.status, a.body)
	lines, err := csv.NewReader(strings.NewReader(a.body)).ReadAll()
	require.NoError(t, err)
	require.Len(t, lines, n+1)
	for i, line := range lines[1:] {
		require.Equal(t, strconv.FormatFloat(float64(i)/8, 'f', -1, 64), line[2])
		require.Equal(t, strconv.Itoa(i%50), line[3])
	}
	small := newServer(t, func(_ *query.Config, c *httpapi.Config) { c.SpoolBytes = 10 << 10 })
	small.flood(n)
	a = small.get(t, "/api/v1/readings?format=csv&from=-1d")
	require.Equal(t, http.StatusUnprocessableEntity, a.status)
	require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
	require.Contains(t, a.body, "layout=long")
	require.Equal(t, 200, small.get(t, "/api/v1/readings?format=csv&from=-1d&layout=long").status)
}

func TestOrderAndLimit(t *testing.T) {
	s := newServer(t, nil)
	s.flood(12_000)
	count := func(path string) (int, string) {
		a := s.get(t, "/api/v1/readings"+path)
		require.Equal(t, 200, a.status, a.body)
		return strings.Count(a.body, `"ts"`), a.body
	}
	n, body := count("?from=-1d")
	require.Equal(t, 10_000, n, "the default of JSON")
	require.Contains(t, body, `"truncated":true`)
	n, _ = count("?from=-1d&limit=12000")
	require.Equal(t, 12_000, n)
	n, _ = count("?from=-1d&format=ndjson")
	require.Equal(t, 12_000, n, "NDJSON has none")
	n, body = count("?from=-1d&limit=1&order=desc")
	require.Equal(t, 1, n)
	require.Contains(t, body, fmt.Sprint(noon.Add(-time.Second).UnixMilli()))
}

func TestTimes(t *testing.T) {
	s := newServer(t, nil)
	s.world.Chunk(
		record(1, "m1", time.UnixMilli(1795174200000), nil, float("x", 1)),
		record(2, "m1", time.UnixMilli(1795174200001), nil, float("x", 2)),
		record(3, "m1", time.UnixMilli(1795176000000), nil, float("x", 3)),
	)
	for query, want := range map[string]string{
		"":                   "1 2",
		"from=-30m":          "1 2",
		"from=-29m":          "",
		"from=-0.5d&to=-30m": "",
		"from=-1d12h":        "1 2",
		"to=-10m":            "1 2", // the hour before
		"from=2026-11-20T11:30:00Z&to=2026-11-20T11:30:00.001Z":  "1",
		"from=2026-11-20T11:30:00.0001Z":                         "2",
		"from=2026-11-20T11:30:00Z&to=2026-11-20T11:30:00.0001Z": "1",
		"from=2026-11-20T12:30:00%2B01:00":                       "1 2",
		"from=2026-11-20T12:30:00+01:00":                         "1 2",
		"from=1795174200001&to=1795176000000":                    "2",
		"from=0&to=1795176000001":                                "1 2 3",
		"from=1795174200&to=1795176000":                          "1 2", // seconds
		"from=1795174200.001&to=1795176000.5":                    "2 3",
		"from=1795174200.0001":                                   "2",
		"from=1795174200000001&to=1795176000000001":              "2 3", // microseconds
		"from=1795174200000000001&to=1795176000000000000":        "2",   // nanoseconds
		"from=0&to=9999999999999999":                             "1 2 3",
		"from=1960-01-01T00:00:00Z&to=9999-12-31T23:59:59Z":      "1 2 3",
		"from=-1000000d":                                         "1 2",
	} {
		a := s.get(t, "/api/v1/readings?format=csv&"+query)
		require.Equal(t, 200, a.status, "%s: %s", query, a.body)
		lines, err := csv.NewReader(strings.NewReader(a.body)).ReadAll()
		require.NoError(t, err)
		var got []string
		for _, l := range lines[1:] {
			got = append(got, l[2])
		}
		require.Equal(t, want, strings.Join(got, " "), query)
	}
}

func TestInvalidParametersAreNamed(t *testing.T) {
	s := newServer(t, nil)
	for query, want := range map[string][]string{
		"devices=m1": {"devices",
			"device, metric, from, to, order, limit, format, layout, strict, timeout"},
		"a%20b=1":                             {`"a b"`, "unknown"},
		"from=yesterday":                      {"from", "yesterday", "RFC 3339", "-15m"},
		"to=-15":                              {"to", "-15"},
		"to=-5x":                              {"to"},
		"from=--5m":                           {"from"},
		"from=-1d-5m":                         {"from"},
		"from=1e3":                            {"from"},
		"from=99999999999999999999":           {"from"},
		"from=":                               {"from"},
		"from=2026-11-20T12:00:01Z":           {"from", "2026-11-20T12:00:01.000Z", "2026-11-20T12:00:00.000Z", "after to"},
		"from=1795176000001&to=1795176000000": {"1795176000001", "1795176000000"},
		"order=down":                          {"order", "asc, desc"},
		"limit=0":                             {"limit", "at least 1"},
		"limit=1.5":                           {"limit"},
		"limit=-3":                            {"limit"},
		"limit=99999999999999999999":          {"limit"},
		"format=xml":                          {"format", "json, ndjson, csv"},
		"layout=long":                         {"layout", "csv"},
		"format=csv&layout=tall":              {"layout", "wide, long"},
		"strict=1":                            {"strict", "true"},
		"timeout=0s":                          {"timeout"},
		"timeout=1h":                          {"timeout", "5m"},
		"limit=1&limit=2":                     {"limit", "2 times"},
		"device=":                             {"device", "empty"},
		"metric=a&metric=":                    {"metric", "empty"},
		"device=%zz":                          {"query"},
		"a;b":                                 {"query"},
	} {
		a := s.get(t, "/api/v1/readings?"+query)
		require.Equal(t, 400, a.status, query)
		p := parseProblem(t, a)
		for _, part := range want {
			require.Contains(t, p.Detail, part, query)
		}
	}
	for _, path := range []string{"/api/v1/devices?device=m1", "/api/v1/metrics?limit=x",
		"/api/v1/devices?prefix=a&prefix=b"} {
		require.Equal(t, 400, s.get(t, path).status, path)
	}
}

type problemT struct {
	Type, Title, Detail, Parameter string
	Status                         int
}

func parseProblem(t *testing.T, a answer) (p problemT) {
	t.Helper()
	require.Equal(t, "application/problem+json", a.header.Get("Content-Type"), a.body)
	require.NoError(t, json.Unmarshal([]byte(a.body), &p))
	require.Equal(t, a.status, p.Status)
	require.Equal(t, http.StatusText(a.status), p.Title)
	require.Equal(t, "about:blank", p.Type)
	require.NotEmpty(t, p.Detail)
	require.Empty(t, a.trailer)
	return p
}

func TestTenantHeader(t *testing.T) {
	s := newServer(t, nil)
	s.fill()
	for _, path := range []string{"/api/v1/readings", "/api/v1/devices", "/api/v1/metrics"} {
		for _, c := range []struct {
			header []string
			status int
		}{
			{nil, 401}, {[]string{""}, 401}, {[]string{"Acme"}, 400}, {[]string{"acme|globex"}, 400}, {[]string{"acme~x"}, 400},
			{[]string{"acme", "globex"}, 400}, {[]string{"dlq"}, 400}, {[]string{"acme"}, 200}, {[]string{"globex"}, 200},
		} {
			a, err := s.do(t, http.MethodGet, path, http.Header{httpapi.TenantHeader: c.header})
			require.NoError(t, err)
			require.Equal(t, c.status, a.status, "%s %v", path, c.header)
			if c.status != 200 {
				require.Equal(t, "X-Scope-OrgID", parseProblem(t, a).Parameter)
			} else if c.header[0] == "globex" {
				require.NotContains(t, a.body, "m1")
			}
		}
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	s := newServer(t, nil)
	require.Contains(t, parseProblem(t, s.get(t, "/api/v1/reading")).Detail, "/api/v1/openapi.json")
	require.Equal(t, 404, s.get(t, "/").status)
	a, err := s.do(t, http.MethodPost, "/api/v1/devices", nil)
	require.NoError(t, err)
	require.Equal(t, 405, a.status)
	require.Equal(t, "GET, HEAD", a.header.Get("Allow"))
	a, err = s.do(t, http.MethodPut, "/api/v1/readings", nil)
	require.NoError(t, err)
	require.Equal(t, 405, a.status)
	require.Equal(t, "GET, HEAD, POST", a.header.Get("Allow"))
	parseProblem(t, a)
	a, err = s.do(t, http.MethodHead, "/api/v1/readings?format=csv", http.Header{httpapi.TenantHeader: {"acme"}})
	require.NoError(t, err)
	require.Equal(t, 200, a.status)
	require.Equal(t, "text/csv; charset=utf-8", a.header.Get("Content-Type"))
	require.Empty(t, a.body)
	require.Zero(t, s.world.Store.Calls(storetest.Scan), "HEAD asks nothing")
}

func TestStoreFailureBeforeAndAfterFirstByte(t *testing.T) {
	s := newServer(t, nil)
	s.flood(3000)
	s.world.Chunk(record(1, "m1", noon.AddDate(0, -1, 0), nil, float("temp", 1)))
	fail := ""
	s.world.Store.Fault = func(op storetest.Op) *storetest.Fault {
		if op.Key.Container == fail {
			return &storetest.Fault{Err: errors.New("secret of the store")}
		}
		return nil
	}
	path := "/api/v1/readings?device=m1&format=ndjson&from=-60d&order=desc"
	require.Equal(t, 200, s.get(t, path).status)
	fail = "chunks-2026-11"
	a := s.get(t, path)
	require.Equal(t, 503, a.status)
	require.NotContains(t, parseProblem(t, a).Detail, "secret")
	fail = "chunks-2026-10"
	for _, encoding := range []string{"identity", "gzip"} {
		a, err := s.do(t, http.MethodGet, path, http.Header{httpapi.TenantHeader: {"acme"}, "Accept-Encoding": {encoding}})
		require.Equal(t, 200, a.status)
		require.Error(t, err, "a client must not take what it has got for the whole")
	}
}

func TestTooMuchData(t *testing.T) {
	s := newServer(t, func(c *query.Config, _ *httpapi.Config) { c.MemoryBytes = 4 << 10 })
	s.flood(3000)
	a := s.get(t, "/api/v1/readings")
	require.Equal(t, 422, a.status)
	p := parseProblem(t, a)
	require.Contains(t, p.Detail, "from, to")
	require.Contains(t, p.Detail, "(device)")
	require.Contains(t, p.Detail, "(metric)")
}

// Whatever the bits, JSON and CSV read back to the same.
func FuzzNumbersReadBack(f *testing.F) {
	for _, x := range []float64{0, math.Copysign(0, -1), 1, 0.1, 1e21, 1e20, 1 << 53, 1<<53 - 1, 123456789012345680000,
		5e-324, 1e-7, 1e-9, 1.5e-10, math.MaxFloat64, 74.93588199999998} {
		f.Add(math.Float64bits(x))
	}
	s := newServer(f, nil)
	f.Fuzz(func(t *testing.T, bits uint64) {
		x := math.Float64frombits(bits)
		s.world.Heads.Reset()
		s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 100},
			record(1, "m", noon.Add(-time.Minute), nil, float("f", x), field("i", telemetry.IntValue(int64(bits)))))
		var got struct {
			Readings []struct{ Values map[string]json.RawMessage }
		}
		require.NoError(t, json.Unmarshal([]byte(s.get(t, "/api/v1/readings").body), &got))
		v := got.Readings[0].Values
		require.Equal(t, strconv.FormatInt(int64(bits), 10), string(v["i"]))
		word := strings.Trim(string(v["f"]), `"`)
		back, err := strconv.ParseFloat(word, 64)
		require.NoError(t, err)
		if math.IsNaN(x) {
			require.Equal(t, `"NaN"`, string(v["f"]))
		} else {
			require.Equal(t, bits, math.Float64bits(back))
		}
		require.Equal(t, math.IsNaN(x) || math.IsInf(x, 0), strings.HasPrefix(string(v["f"]), `"`))
		if _, err := strconv.ParseInt(word, 10, 64); err == nil {
			require.LessOrEqual(t, math.Abs(x), float64(1<<53), "an integer literal must be one that a float64 holds")
		}
		require.Contains(t, s.get(t, "/api/v1/readings?format=csv&metric=f").body, ","+word+"\n")
	})
}

func TestStrictQueryWaitsForLogEnd(t *testing.T) {
	s := newServer(t, nil)
	s.world.Log.Set(100)
	s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 99})
	a := s.get(t, "/api/v1/readings?strict=true&timeout=400ms")
	require.Contains(t, a.body, `"complete":false,"incomplete":["partition telemetry/0 is read to offset 99 of 100"]`)
	s.world.Heads.OnCall(func() {
		s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 100},
			record(99, "m1", noon.Add(-time.Second), nil, float("temp", 5)))
	})
	a = s.get(t, "/api/v1/readings?strict=true&timeout=5s&device="+url.QueryEscape("m1"))
	require.Contains(t, a.body, `"complete":true`)
	require.Contains(t, a.body, `"temp":5`)
}
