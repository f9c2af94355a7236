package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/diagnose/gaps"
	"binnacle/query/diagnose/rejected"
	"binnacle/query/httpapi"

	"github.com/stretchr/testify/require"
)

// refusals are two of acme's, and one without a known tenant.
type refusals struct{}

func (refusals) Rejected(q rejected.Request) rejected.Answer {
	nobodys := rejected.Sample{Topic: "telemetry", Offset: 3, Index: -1, At: noon.UnixMilli(), Payload: "/w==",
		Base64: true}
	at := int64(1_000_000)
	temp := rejected.Sample{Topic: "telemetry", Partition: 1, Offset: 2, At: noon.UnixMilli(), Time: &at,
		Device: "m1", Detail: "why", Payload: `{"temp":1}`, Truncated: true}
	a := rejected.Answer{Complete: q.Range.From > 0, Incomplete: "a reason"}
	if a.Complete {
		a.Incomplete = ""
	}
	switch q.Tenant {
	case "":
		temp.Tenant = "acme"
		a.Groups = []rejected.Group{{Reason: decode.Undecodable, Count: 1, Samples: []rejected.Sample{nobodys, temp}}}
	case "acme":
		a.Groups = []rejected.Group{{Reason: decode.Past, Count: q.Samples, First: q.Range.From, Last: q.Range.To,
			Samples: []rejected.Sample{temp}}}
	}
	return a
}

func (refusals) Steps(tenant string, r telemetry.Range, step int64) (map[string]map[int]bool, string) {
	at := noon.UnixMilli() - 3*3600_000
	if tenant != "acme" || !r.Contains(at) {
		return nil, "a reason"
	}
	return map[string]map[int]bool{"m1": {int((at - r.From) / step): true}}, ""
}

func (refusals) Of(tenant, device string, r telemetry.Range) ([]gaps.Refusal, []int64, string) {
	if tenant != "acme" || device != "m1" || !r.Contains(noon.UnixMilli()-20*60_000) {
		return nil, nil, ""
	}
	return []gaps.Refusal{{Time: noon.UnixMilli() - 20*60_000, Published: noon.UnixMilli(), Reason: decode.Limit,
		Partition: 1, Offset: 2, Detail: "why"}}, nil, ""
}

func TestRejected(t *testing.T) {
	s := newServer(t, func(_ *query.Config, c *httpapi.Config) { c.Rejected = refusals{} })
	a := s.get(t, "/api/v1/rejected?from=1000&to=2000&samples=7")
	require.Equal(t, 200, a.status)
	require.JSONEq(t, `{"rejected":[{"reason":"past","count":7,"first":1000000,"last":2000000,"samples":[{"topic":"telemetry",
		"partition":1,"offset":2,"index":0,"at":1795176000000,"device":"m1","ts":1000000,"detail":"why",
		"payload":"{\"temp\":1}","cut":true}]}],"complete":true}`, a.body)
	a = s.get(t, "/api/v1/rejected?from=0")
	require.Contains(t, a.body, `"complete":false,"incomplete":"a reason"`)
	a = s.get(t, "/api/v1/rejected")
	require.Contains(t, a.body, `"first":`+strconv.FormatInt(noon.UnixMilli()+1-telemetry.DayMillis, 10), "a day")
	for _, wrong := range []string{"samples=0", "samples=101", "from=2000&to=1000", "reason=", "tenant=globex"} {
		a := s.get(t, "/api/v1/rejected?"+wrong)
		require.Equal(t, 400, a.status, wrong)
		parseProblem(t, a)
	}
	require.Equal(t, 404, newServer(t, nil).get(t, "/api/v1/rejected").status)

	now := func() time.Time { return noon }
	all := httptest.NewServer(httpapi.AllRejected(httpapi.Config{Rejected: refusals{}, Now: now}))
	t.Cleanup(all.Close)
	s.Server = all
	a, err := s.do(t, http.MethodGet, "/api/v1/rejected?from=1", nil)
	require.NoError(t, err)
	require.JSONEq(t, `{"rejected":[{"reason":"undecodable","count":1,"first":0,"last":0,"samples":[
		{"topic":"telemetry","partition":0,"offset":3,"index":-1,"at":1795176000000,
		"payload":"/w==","base64":true},
		{"topic":"telemetry","partition":1,"offset":2,"index":0,"at":1795176000000,
		"tenant":"acme","device":"m1",
		"ts":1000000,"detail":"why","payload":"{\"temp\":1}","cut":true}]}],"complete":true}`, a.body)
	a, err = s.do(t, http.MethodGet, "/api/v1/rejected?sample=1", nil)
	require.NoError(t, err)
	require.Equal(t, 400, a.status)
}
