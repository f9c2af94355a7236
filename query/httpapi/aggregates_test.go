package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/query"
	"binnacle/query/httpapi"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

func TestAggregates(t *testing.T) {
	s := newServer(t, nil)
	s.fill()
	a := s.get(t, "/api/v1/aggregates?metric=temp&metric=n&metric=ok&device=m1")
	require.Equal(t, 200, a.status, a.body)
	body, _, _ := strings.Cut(a.body, `"stats"`)
	require.Equal(t, `{"aggregates":[
{"device":"m1","start":1795172400000,"metric":"n","type":"int","count":1,"min":9223372036854775807,"max":9223372036854775807,"sum":9223372036854775807,"avg":9.223372036854776e+18,"first":9223372036854775807,"last":9223372036854775807},
{"device":"m1","start":1795172400000,"metric":"temp","type":"float","count":2,"min":-0,"max":21.5,"sum":21.5,"avg":10.75,"first":21.5,"last":-0},
{"device":"m1","start":1795172400000,"labels":{"axis":"x"},"metric":"ok","type":"bool","count":1,"min":true,"max":true,"sum":1,"avg":1,"first":true,"last":true},
{"device":"m1","start":1795172400000,"labels":{"axis":"x"},"metric":"temp","type":"float","count":0,"nan":1}
],"truncated":false,"complete":true,`, body)
	require.Equal(t, `start,device,labels,metric,type,count,min,max,sum,avg,first,last,nan,pos_inf,neg_inf
2026-11-20T11:30:00.000Z,m1,,temp,float,1,21.5,21.5,21.5,21.5,21.5,21.5,0,0,0
2026-11-20T11:40:00.000Z,m1,"{""axis"":""x""}",temp,float,0,,,,,,,1,0,0
`, s.get(t, "/api/v1/aggregates?metric=temp&device=m1&from=2026-11-20T11:30:00Z&to=2026-11-20T11:50:00Z&step=10m&format=csv").body)
	a = s.get(t, "/api/v1/aggregates?device=m1&format=ndjson&limit=1")
	require.Equal(t, 1, strings.Count(a.body, "\n"))
	require.Equal(t, "true", a.trailer.Get("Binnacle-Truncated"))
	require.Equal(t, "true", a.trailer.Get("Binnacle-Complete"))
	require.Equal(t, 2, strings.Count(s.get(t, "/api/v1/latest?device=m1&device=m2&format=ndjson&limit=2").body, "\n"))
	for _, path := range []string{
		"step=0s", "step=1us", "step=1500us", "step=1ms&from=-2h", "step=x", "fill=null", "limit=0",
		"fill=zero&step=1m", "aggregate=", "aggregate=p", "aggregate=p101", "aggregate=mean", "aggregate=pNaN", "by=",
		"by=tag", "by=tag:", "by=device:m1", "by=axis", "closed=both", "tz=Mars/Base", "tz=Local&step=day", "tz=&step=day",
		"tz=Europe/Berlin", "tz=Europe/Berlin&step=1h", "step=day&from=0", "step=fortnight",
		"from=now&to=-1h", "order=desc"} {
		a := s.get(t, "/api/v1/aggregates?"+path)
		require.Equal(t, 400, a.status, path)
		parseProblem(t, a)
	}
}

func TestGroupedAggregates(t *testing.T) {
	s := newServer(t, nil)
	s.fill()
	for device, fleet := range map[string]string{"m1": "east", "m2": "west"} {
		s.world.Catalog.AddPage("acme", storetest.Entry(device, map[string]string{"fleet": fleet}))
	}
	body := func(path string) string {
		a := s.get(t, path)
		require.Equal(t, 200, a.status, a.body)
		before, _, _ := strings.Cut(a.body, `"stats"`)
		return before
	}
	require.Equal(t, `{"aggregates":[
{"start":1795172400000,"end":1795176000000,"tags":{"fleet":"east"},"metric":"temp","max":21.5,"count":2,"p50":10.75,"delta":-21.5},
{"start":1795172400000,"end":1795176000000,"tags":{"fleet":"west"},"metric":"temp","max":1e+21,"count":1,"p50":1e+21,"delta":null}
],"truncated":false,"complete":true,`,
		body("/api/v1/aggregates?metric=temp&by=tag:fleet&aggregate=max,count,p50&aggregate=delta"))
	require.Equal(t, `start,end,metric,count
2026-11-20T11:00:00.000Z,2026-11-20T12:00:00.000Z,temp,3
`, body("/api/v1/aggregates?metric=temp&by=metric&aggregate=count&format=csv"))
	require.Equal(t, `start,end,device,label:axis,metric,count,last
2026-11-19T23:00:00.000Z,2026-11-20T23:00:00.000Z,m1,"x",ok,1,1
2026-11-20T23:00:00.000Z,2026-11-21T23:00:00.000Z,m1,"x",ok,0,
`, body("/api/v1/aggregates?metric=ok&device=m1&by=device,label:axis,metric&aggregate=count,last&fill=null"+
		"&step=day&tz=Europe/Berlin&to=2026-11-21T23:00:00Z&format=csv&closed=right"))
	require.Equal(t, `start,end,device,labels,metric,count,min,max,sum,avg,first,last
2026-11-20T00:00:00.000Z,2026-11-21T00:00:00.000Z,m1,"{""axis"":""x""}",ok,1,1,1,1,1,1,1
`, body("/api/v1/aggregates?metric=ok&step=day&format=csv"))
	require.Equal(t, body("/api/v1/aggregates?metric=temp&step=day&tz=UTC"),
		body("/api/v1/aggregates?metric=temp&step=1d&tz=UTC"))
}

func TestLatest(t *testing.T) {
	s := newServer(t, nil)
	s.fill()
	body, _, _ := strings.Cut(s.get(t, "/api/v1/latest?metric=temp&metric=none").body, `"stats"`)
	require.Equal(t, `{"latest":[
{"device":"m1","ts":1795175400000,"metric":"temp","value":-0},
{"device":"m1","ts":1795174800000,"labels":{"axis":"x"},"metric":"temp","value":"NaN"},
{"device":"m2","ts":1795175699500,"labels":{"temp":"a \"b\", c","time":"x"},"metric":"none","value":""},
{"device":"m2","ts":1795175699500,"labels":{"temp":"a \"b\", c","time":"x"},"metric":"temp","value":1e+21}
],"truncated":false,"complete":true,`, body)
	require.Equal(t, `time,device,labels,metric,value
2026-11-20T11:30:00.000Z,m1,,n,9223372036854775807
`, s.get(t, "/api/v1/latest?device=m1&metric=n&format=csv").body)
	require.NotContains(t, s.get(t, "/api/v1/latest?device=m1&metric=n&to=-40m").body, "9223")
	s.world.Now = s.world.Now.Add(5 * 24 * time.Hour)
	require.Contains(t, s.get(t, "/api/v1/latest?device=m1&metric=n").body, "9223", "further back than an hour")
	require.NotContains(t, s.get(t, "/api/v1/latest?device=m1&metric=n&from=-1d").body, "9223", "not further than asked")
}

// Pages, however small, are together what one answer would be; also when time goes on and readings come meanwhile.
func TestPagesOfReadings(t *testing.T) {
	for _, query := range []string{
		"", "&order=desc", "&device=m1", "&device=m1&order=desc", "&metric=temp&from=-25m&to=-1m",
	} {
		for limit := 1; limit < 6; limit++ {
			s := newServer(t, nil)
			s.fill()
			var whole, page struct {
				Readings  []json.RawMessage
				Truncated bool
				Next      string
			}
			require.NoError(t, json.Unmarshal([]byte(s.get(t, "/api/v1/readings?limit=100"+query).body), &whole))
			require.Empty(t, whole.Next)
			filter := strings.ReplaceAll(strings.ReplaceAll(query, "&order=desc", ""), "&from=-25m&to=-1m", "")
			var got []json.RawMessage
			path := "/api/v1/readings?limit=" + fmt.Sprint(limit) + query
			for {
				a := s.get(t, path)
				require.Equal(t, 200, a.status, a.body)
				page.Next, page.Readings = "", nil
				require.NoError(t, json.Unmarshal([]byte(a.body), &page))
				require.LessOrEqual(t, len(page.Readings), limit)
				got = append(got, page.Readings...)
				require.Equal(t, page.Truncated, page.Next != "")
				if page.Next == "" {
					break
				}
				s.world.Now = s.world.Now.Add(time.Minute)
				path = fmt.Sprintf("/api/v1/readings?limit=%d%s&cursor=%s", limit, filter, page.Next)
			}
			require.Equal(t, whole.Readings, got, path)
		}
	}
	s := newServer(t, nil)
	for _, path := range []string{"cursor=x", "cursor=e30", "cursor=&from=-1h", "cursor=" + strings.Repeat("A", 5000),
		"cursor=eyJmIjoxLCJ0IjoyLCJyIjo5fQ", "cursor=eyJmIjoxLCJ0IjozLCJyIjoyfQ&order=asc",
		"cursor=eyJmIjoxLCJ0IjozLCJyIjoyfQ&format=csv"} {
		a := s.get(t, "/api/v1/readings?"+path)
		require.Equal(t, 400, a.status, path)
		parseProblem(t, a)
	}
	require.Equal(t, 200, s.get(t, "/api/v1/readings?cursor=eyJmIjoxLCJ0IjozLCJyIjoyfQ").status)
}

func TestAnswersInZstd(t *testing.T) {
	s := newServer(t, nil)
	s.flood(3000)
	for _, accepted := range []string{"zstd", "gzip, zstd", "gzip, deflate, br, zstd"} {
		a, err := s.do(t, http.MethodGet, "/api/v1/readings?format=ndjson", http.Header{
			httpapi.TenantHeader: {"acme"}, "Accept-Encoding": {accepted}})
		require.NoError(t, err)
		require.Equal(t, "zstd", a.header.Get("Content-Encoding"), accepted)
		r, err := zstd.NewReader(strings.NewReader(a.body))
		require.NoError(t, err)
		body, err := io.ReadAll(r)
		r.Close()
		require.NoError(t, err)
		require.Equal(t, 3000, strings.Count(string(body), "\n"))
		require.Equal(t, "true", a.trailer.Get("Binnacle-Complete"))
	}
}

// A client that leaves ends the scans of its query.
func TestScansEndWithClient(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	s := newServer(t, func(c *query.Config, _ *httpapi.Config) {
		c.Fanout = 1
		c.Reader = waiting{began, ended}
	})
	s.fill()
	for _, path := range []string{"readings", "readings?device=m1", "aggregates", "latest", "latest?device=m1"} {
		ctx, leave := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/api/v1/"+path, nil)
		require.NoError(t, err)
		r.Header.Set(httpapi.TenantHeader, "acme")
		done := make(chan error)
		go func() {
			resp, err := http.DefaultClient.Do(r)
			if err == nil {
				_ = resp.Body.Close()
			}
			done <- err
		}()
		<-began
		leave()
		<-ended
		require.ErrorIs(t, <-done, context.Canceled)
	}
}

// waiting is a store that answers nothing until its caller leaves. A caller that has left may still come to the next
// key: of that it reports nothing.
type waiting struct{ began, ended chan struct{} }

func (w waiting) Scan(ctx context.Context, _ store.Scan, _ func([]byte) error) (store.Usage, error) {
	if err := ctx.Err(); err != nil {
		return store.Usage{}, err
	}
	w.began <- struct{}{}
	<-ctx.Done()
	w.ended <- struct{}{}
	return store.Usage{}, ctx.Err()
}

// What a week of steps says is what the readings say.
func TestAggregatesEqualReadings(t *testing.T) {
	s := newServer(t, nil)
	s.flood(3000)
	var all struct {
		Aggregates []struct {
			Start               int64
			Metric              string
			Count               int
			Min, Max, Sum, Avg  float64
			First, Last         float64
			Device, Type, Extra string
		}
	}
	a := s.get(t, "/api/v1/aggregates?from=-3000s&step=7m")
	require.NoError(t, json.Unmarshal([]byte(a.body), &all))
	require.Len(t, all.Aggregates, 2*8)
	from := noon.Add(-3000 * time.Second).UnixMilli()
	for _, x := range all.Aggregates {
		var values []float64
		for i := range 3000 {
			if at := from + int64(i)*1000; at >= x.Start && at < x.Start+7*60_000 {
				values = append(values, map[string]float64{"temp": float64(i) / 8, "velocity": float64(i % 50)}[x.Metric])
			}
		}
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		require.Equal(t, len(values), x.Count)
		require.Equal(t, []float64{slices.Min(values), slices.Max(values), sum, sum / float64(len(values)), values[0],
			values[len(values)-1]}, []float64{x.Min, x.Max, x.Sum, x.Avg, x.First, x.Last})
	}
}
