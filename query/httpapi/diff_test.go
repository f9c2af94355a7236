package httpapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/diagnose/rejected"
	"binnacle/query/httpapi"

	"github.com/stretchr/testify/require"
)

// twiceM1 answers that readings were refused, of m1 twice as many as of any other device.
type twiceM1 struct {
	nothing
	t *testing.T
}

func (r twiceM1) Rejected(q rejected.Request) rejected.Answer {
	require.Equal(r.t, telemetry.Range{From: noon.UnixMilli() + 1, To: noon.Add(time.Minute).UnixMilli() + 1}, q.Range)
	require.True(r.t, slices.IsSorted(q.Devices))
	n := 3 * max(1, len(q.Devices))
	if slices.Contains(q.Devices, "m1") {
		n += 3
	}
	return rejected.Answer{Groups: []rejected.Group{{Reason: "time", Count: n}, {Reason: "future", Count: 2}},
		Incomplete: "of what was refused earlier only a part is kept"}
}

// pastServer has a chunk of noon, and of a minute later one that corrects it, comes late and goes on.
func pastServer(t *testing.T) server {
	s := newServer(t, func(_ *query.Config, c *httpapi.Config) { c.Rejected = twiceM1{t: t} })
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	s.world.Chunk(record(1, "m1", at(-30), nil, float("temp", 1)), record(2, "m1", at(-20), nil, float("temp", 2)))
	s.world.Now = noon.Add(time.Minute)
	s.world.Chunk(record(3, "m1", at(-30), nil, float("temp", 1.5)), record(4, "m1", at(-25), nil, float("temp", 3)),
		record(5, "m1", at(-20), nil, float("temp", 2)), record(6, "m1", at(-10), nil, float("temp", 4)))
	s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 100},
		record(7, "m1", at(-5), nil, field("note", telemetry.TextValue("late"))))
	return s
}

func TestReadingsAsOf(t *testing.T) {
	s := pastServer(t)
	csv := func(path string) string { return s.get(t, path+"&metric=temp&format=csv&layout=long").body }
	first := `time,device,labels,metric,value
2026-11-20T11:30:00.000Z,m1,,temp,1
2026-11-20T11:40:00.000Z,m1,,temp,2
`
	require.Equal(t, first, csv("/api/v1/readings?as_of=2026-11-20T12:00:00Z"))
	require.Equal(t, first, csv("/api/v1/readings?as_of=-1m"))
	require.Contains(t, csv("/api/v1/readings?as_of=now"), "temp,1.5")
	require.NotContains(t, s.get(t, "/api/v1/readings?as_of=now").body, "note", "heads do not count")
	require.Contains(t, s.get(t, "/api/v1/readings?").body, "note")
	require.Contains(t, s.get(t, "/api/v1/latest?device=m1&metric=temp&as_of=-1m").body, `"value":2}`)
	require.Contains(t, s.get(t, "/api/v1/aggregates?device=m1&metric=temp&as_of=-1m").body, `"sum":3,`)
	require.Contains(t, s.get(t, "/api/v1/aggregates?by=device&metric=temp&as_of=-1m").body, `"sum":3,`)

	var page struct{ Next string }
	require.NoError(t, json.Unmarshal([]byte(s.get(t, "/api/v1/readings?as_of=-1m&limit=1").body), &page))
	s.world.Now = s.world.Now.Add(time.Hour)
	body := s.get(t, "/api/v1/readings?limit=9&cursor="+page.Next).body
	require.Contains(t, body, `"values":{"temp":2}}`)
	require.NotContains(t, body, `"values":{"temp":3}}`, "pages are of one moment")
	require.Equal(t, 400, s.get(t, "/api/v1/readings?as_of=-1m&cursor="+page.Next).status)
	require.Equal(t, 400, s.get(t, "/api/v1/readings?strict=true&cursor="+page.Next).status)
	after, err := s.do(t, http.MethodGet, "/api/v1/readings?cursor="+page.Next, http.Header{
		httpapi.TenantHeader: {"acme"}, httpapi.AfterHeader: {"telemetry/0/5"}})
	require.NoError(t, err)
	require.Equal(t, 400, after.status, "what was stored then does not include it")
	for _, bad := range []string{"as_of=x", "as_of=2026-11-20T13:01:01Z", "as_of=0", "as_of=-1m&strict=true", "as_of="} {
		a := s.get(t, "/api/v1/readings?"+bad)
		require.Equal(t, 400, a.status, bad)
		require.Equal(t, "as_of", parseProblem(t, a).Parameter)
	}
	a, err := s.do(t, http.MethodGet, "/api/v1/readings?as_of=-1m", http.Header{httpapi.TenantHeader: {"acme"},
		httpapi.AfterHeader: {"telemetry/0/1"}})
	require.NoError(t, err)
	require.Equal(t, 400, a.status)
}

func TestDiff(t *testing.T) {
	s := pastServer(t)
	body, _, _ := strings.Cut(s.get(t, "/api/v1/diff?since=2026-11-20T12:00:00Z&until=now&device=m1&device=m2").body, `"stats"`)
	require.Equal(t, `{"changes":[
{"change":"corrected","device":"m1","ts":1795174200000,"metric":"temp","was":1,"value":1.5},
{"change":"late","device":"m1","ts":1795174500000,"metric":"temp","value":3}
],"counts":{"corrected":1,"late":1,"new":1},"refused":[{"reason":"time","count":9},{"reason":"future","count":2}],`+
		`"refused_incomplete":"of what was refused earlier only a part is kept","truncated":false,"complete":true,`, body)
	require.Contains(t, s.get(t, "/api/v1/diff?since=-1m&change=new&limit=1").body,
		`"counts":{"corrected":1,"late":1,"new":2},`, "the present, and what is not listed is counted")
	require.Equal(t, `change,time,device,labels,metric,was,value
new,2026-11-20T11:55:00.000Z,m1,,note,,"late"
corrected,2026-11-20T11:30:00.000Z,m1,,temp,1,1.5
new,2026-11-20T11:50:00.000Z,m1,,temp,,4
`, s.get(t, "/api/v1/diff?since=-1m&change=new,corrected&format=csv").body)
	for bad, parameter := range map[string]string{
		"": "since", "since=x": "since", "since=now&until=-1m": "since", "since=-1m&until=2026-11-20T12:02:00Z": "until",
		"since=-1m&change=gone": "change", "since=-1m&strict=true": "strict",
	} {
		a := s.get(t, "/api/v1/diff?"+bad)
		require.Equal(t, 400, a.status, bad)
		require.Equal(t, parameter, parseProblem(t, a).Parameter, bad)
	}
}
