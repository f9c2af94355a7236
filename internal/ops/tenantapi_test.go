package ops_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/ops"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/tenant"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

// tenantsAt is the endpoints of tenants, and the documents behind them.
type tenantsAt struct {
	h        http.Handler
	patterns []string
	docs     store.Documents
}

func newTenantsAt(t *testing.T) tenantsAt { return tenantsOn(storetest.NewDocuments(t)) }

// tenantsOn returns the endpoints of some documents, for operators with a token.
func tenantsOn(docs store.Documents) tenantsAt {
	mux := http.NewServeMux()
	patterns := ops.TenantAPI{Docs: docs, Via: "query@test", Log: slog.New(slog.DiscardHandler)}.Register(mux)
	return tenantsAt{ops.TrustedHosts{}.Operators(func() string { return "operators" }, mux), patterns, docs}
}

// ask sends a request, with headers as pairs, and returns the answer's body, which has a status.
func (s tenantsAt) ask(t *testing.T, status int, request, body string, headers ...string) string {
	t.Helper()
	method, path, _ := strings.Cut(request, " ")
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr, r.Host = "10.0.0.9:4711", "binnacle:7071"
	for i := 0; i < len(headers); i += 2 {
		switch headers[i] {
		case "From":
			r.RemoteAddr, r.Host = headers[i+1], "localhost:7071"
		default:
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, r)
	require.Equal(t, status, w.Code, "%s: %s", request, w.Body)
	kind := "application/json"
	if status >= 400 {
		kind = "application/problem+json"
	}
	require.Equal(t, kind, w.Header().Get("Content-Type"), request)
	return w.Body.String()
}

// An operator registers a tenant, sets all there is, makes tokens and ends them, and each change is in the actions.
func TestTenantAPI(t *testing.T) {
	t.Parallel()
	s := newTenantsAt(t)
	const who, operators = "Authorization", "Bearer operators"
	ask := func(status int, request, body string) string {
		t.Helper()
		return s.ask(t, status, request, body, who, operators)
	}
	const all, one = "/api/v1/tenants", "/api/v1/tenants/acme"
	require.JSONEq(t, `{"tenants":[]}`, ask(200, "GET "+all, ""))
	ask(404, "GET "+one, "")
	ask(404, "GET "+all+"/a%2Fb", "")
	ask(400, "POST "+all, `{"tenant":"Acme"}`)
	ask(400, "POST "+all, `{"tenant":"acme","retention":"x"}`)
	ask(400, "POST "+all, `{"tenant":"acme","devices":5}`)
	ask(201, "POST "+all, `{"tenant":"acme","retention":"400d"}`)
	require.Contains(t, ask(409, "POST "+all, `{"tenant":"acme"}`), "registered already")

	for body, want := range map[string]string{
		`{"settings":{"retention":"10d"}}`:                    "repeat with --confirm acme",
		`{"settings":{"retention":"10d"},"confirm":"globex"}`: "nothing is changed: Days before ",
	} {
		require.Contains(t, ask(400, "PATCH "+one, body), want)
	}
	require.Regexp(t, `^{"hides":\["Days before .* of all other devices are hidden for good`,
		ask(200, "PATCH "+one, `{"settings":{"retention":"10d"},"dry-run":true}`))
	require.Contains(t, ask(200, "GET "+one, ""), `"retention":"default=400d"`)
	ask(400, "POST "+one+"/retention/confirm", `{"confirm":"acme"}`) // nobody waits

	set := ask(200, "PATCH "+one, `{"settings":{"query-rate":20,"query-rus-day":5e6,"query-samples":"none",
		"lookback":"25m","display-name":"Acme Freight","retention":"10d"},"tags":{"plan":"gold"},"confirm":"acme"}`)
	var info ops.TenantInfo
	require.NoError(t, json.Unmarshal([]byte(set), &info))
	require.Len(t, info.Hides, 3)
	for name, value := range map[string]string{"query-rate": "20", "query-rus-day": "5000000", "query-samples": "none",
		"lookback": "25m", "display-name": "Acme Freight", "retention": "default=10d", "contact": "",
		"pin": "free", "ingest-over": "default"} {
		require.Equal(t, value, info.Settings[name], name)
	}
	require.Equal(t, map[string]string{"plan": "gold"}, info.Tags)
	require.Equal(t, "shared, 4 keys", info.Placement)
	for _, bad := range []string{``, `{}`, `{"settings":{"query-rate":null}}`, `{"settings":{"rate":1}}`,
		`{"settings":{"query-rate":-1}}`, `{"tags":{"a b":"x"}}`, `{"tags":{"a":"x"}}}`, strings.Repeat(" ", 1<<17)} {
		ask(400, "PATCH "+one, bad)
	}
	require.Contains(t, ask(404, "PATCH "+all+"/acmee", `{"tags":{"a":"x"}}`), "did you mean acme?")
	require.Contains(t, ask(409, "PATCH "+one, `{"settings":{"retention":"1d","query-rate":1},"tags":{`+
		strings.TrimSuffix(manyTags(), ",")+`}}`), "at most 50 tags")
	require.Contains(t, ask(200, "GET "+one, ""), `"query-rate":"20"`)

	ask(400, "POST "+one+"/suspend", `{}`)
	require.Contains(t, ask(200, "POST "+one+"/suspend", `{"reason":"late"}`), `"reason":"late"`)
	require.NotContains(t, ask(200, "POST "+one+"/resume", ``), "late")
	ask(404, "POST "+all+"/globex/resume", ``)

	for _, bad := range []string{`{}`, `{"placement":"own"}`, `{"placement":"shared"}`, // it is placed so
		`{"placement":"dedicated","from":"soon"}`, `{"placement":"dedicated","from":"2026-01-01"}`} {
		ask(400, "POST "+one+"/move", bad)
	}
	require.Contains(t, ask(200, "POST "+one+"/move", `{"placement":"dedicated","from":"2126-01-01"}`),
		"shared, 4 keys; dedicated, 4 keys from 2126-01-01 on")
	ask(400, "POST "+one+"/move", `{"placement":"dedicated"}`)
	ask(400, "POST "+one+"/move", `{"placement":"shared"}`) // before the move that is planned
	require.Contains(t, ask(200, "POST "+one+"/move", `{"placement":"shared","from":"2126-03-01"}`),
		"shared, 4 keys from 2126-03-01 on")
	ask(404, "POST "+all+"/globex/move", `{"placement":"dedicated"}`)

	require.JSONEq(t, `{"erasures":[]}`, ask(200, "GET "+one+"/erasures", ""))
	for _, bad := range []string{``, `{}`, `{"confirm":"globex"}`, `{"device":"truck-7","from":"soon"}`,
		`{"device":"truck-7","from":"2026-02-01","to":"2026-02-01"}`, `{"device":"truck-7","wait":true}`} {
		ask(400, "POST "+one+"/erase", bad)
	}
	require.Contains(t, ask(400, "POST "+one+"/erase", `{"to":"2026-02-01"}`), "all devices of acme")
	ask(404, "POST "+all+"/globex/erase", `{"confirm":"globex"}`)
	ask(404, "GET "+all+"/globex/erasures", "")
	for _, tenant := range []string{"acme", "initech"} {
		orders := erasure.NewOrders(s.docs, time.Now)
		o, err := orders.Announce(t.Context(), erasure.Order{Tenant: tenant, Device: "of-" + tenant,
			To: erasure.EveryDay, By: "me"})
		require.NoError(t, err)
		require.NoError(t, orders.Acknowledge(t.Context(), o.ID, nil))
		require.NoError(t, orders.StoreProgress(t.Context(), o.ID,
			erasure.Progress{Containers: 3, Of: 13, Chunks: 90, Rows: 7000}))
	}
	orders := ask(200, "GET "+one+"/erasures", "")
	require.Contains(t, orders, `"device":"of-acme","by":"me"`)
	require.Regexp(t, `"state":"hidden","sweep":{"at":\d+,"containers":3,"of":13,"chunks":90,"rows":7000}`, orders)
	require.NotContains(t, orders, "initech")
	ask(404, "GET "+one+"/erasures/other/certificate", "")
	var list struct{ Erasures []struct{ ID string } }
	require.NoError(t, json.Unmarshal([]byte(orders), &list))
	require.Contains(t, ask(409, "GET "+one+"/erasures/"+list.Erasures[0].ID+"/certificate", ""), "its state is hidden")
	ask(404, "GET "+all+"/initech/erasures/"+list.Erasures[0].ID+"/certificate", "") // another's

	require.Contains(t, ask(200, "GET "+one+"/retention", ""), "The retention is 10d from ")
	ask(404, "GET "+all+"/globex/retention?device=truck-7", "")
	require.Contains(t, ask(200, "GET "+one+"/retention?device=truck-7", ""), `"device":"truck-7","retention":["`)

	ask(400, "POST "+one+"/tokens", `{}`)
	ask(400, "POST "+one+"/tokens", `{"expires":"90d","scopes":["all"]}`)
	ask(404, "POST "+all+"/globex/tokens", `{"expires":"90d"}`)
	var token struct{ ID, Token, State string }
	require.NoError(t, json.Unmarshal([]byte(ask(201, "POST "+one+"/tokens", `{"expires":"90d"}`)), &token))
	id, ok := tenant.TokenID(token.Token)
	require.True(t, ok)
	require.Equal(t, token.ID, id)
	listed := ask(200, "GET "+one+"/tokens", "")
	require.Contains(t, listed, `"id":"`+id+`","tenant":"acme","scopes":["read"]`)
	require.NotContains(t, listed, token.Token)
	ask(201, "POST "+all, `{"tenant":"globex"}`)
	require.JSONEq(t, `{"tokens":[]}`, ask(200, "GET "+all+"/globex/tokens", ""))
	ask(404, "POST "+all+"/globex/tokens/"+id+"/revoke", "")
	require.Contains(t, ask(200, "POST "+one+"/tokens/"+id+"/revoke", ""), `"state":"revoked"`)

	var done []string
	actions, err := control.NewActions(s.docs, "", nil, nil).List(t.Context(), time.Time{})
	require.NoError(t, err)
	for _, a := range actions {
		require.Equal(t, "operator at 10.0.0.9 by query@test", a.Who)
		require.NotContains(t, a.Details(), token.Token)
		if a.Tenant == "acme" && a.Outcome == control.OutcomeDone {
			done = append(done, a.Verb)
		}
	}
	require.ElementsMatch(t, []string{"tenant add", "tenant set", "tenant move", "tenant move", "tenant suspend",
		"tenant resume", "token add", "token revoke"}, done)
}

// raced is documents of which somebody else creates a tenant's just before.
type raced struct {
	store.Documents
	before func()
}

// Create implements store.Documents.
func (r *raced) Create(ctx context.Context, d store.Document) (string, error) {
	if before := r.before; d.Kind == tenant.Kind && before != nil {
		r.before = nil
		before()
	}
	return r.Documents.Create(ctx, d)
}

// Where an ingester registers a tenant at the same moment, what it has stored stays, and the operator learns that.
func TestAddTenantRacesWithIngester(t *testing.T) {
	t.Parallel()
	docs := &raced{Documents: storetest.NewDocuments(t)}
	s := tenantsOn(docs)
	ingester := control.NewDirectory(control.DirectoryConfig{Documents: docs, Retention: 30 * 24 * time.Hour})
	add := func(status int, tenant, retention string) string {
		docs.before = func() {
			_, err := ingester.Register(t.Context(), tenant)
			require.NoError(t, err)
		}
		return s.ask(t, status, "POST /api/v1/tenants", `{"tenant":"`+tenant+`","retention":"`+retention+`"}`,
			"Authorization", "Bearer operators")
	}
	require.Contains(t, add(409, "acme", "400d"), "an ingester was first, with the retention default=30d")
	require.Contains(t, add(201, "globex", "30d"), `"retention":"default=30d"`)
	v, err := ingester.Refresh(t.Context())
	require.NoError(t, err)
	for _, known := range v.Tenants() {
		require.Equal(t, 30*24*time.Hour, known.Retention, known.Name)
	}
	require.Len(t, v.Tenants(), 2)
}

func manyTags() (tags string) {
	for i := range 51 {
		tags += `"t` + string(rune('a'+i%26)) + string(rune('a'+i/26)) + `":"x",`
	}
	return tags
}

// No endpoint answers those who are not operators: neither the holder of a tenant's token, with all scopes and from the
// same machine, nor somebody without a credential, nor another site's page in an operator's browser.
func TestTenantAPIIsForOperators(t *testing.T) {
	t.Parallel()
	s := newTenantsAt(t)
	const operators, here = "Bearer operators", "127.0.0.1:4711"
	for _, tenant := range []string{"acme", "globex"} {
		s.ask(t, 201, "POST /api/v1/tenants", `{"tenant":"`+tenant+`"}`, "From", here)
	}
	var token struct{ ID, Token string }
	require.NoError(t, json.Unmarshal([]byte(s.ask(t, 201, "POST /api/v1/tenants/acme/tokens",
		`{"expires":"never","scopes":["read","write","admin"]}`, "From", here)), &token))
	state := func() string {
		return s.ask(t, 200, "GET /api/v1/tenants", "", "From", here) +
			s.ask(t, 200, "GET /api/v1/tenants/acme/tokens", "", "From", here)
	}
	before := state()
	require.Len(t, s.patterns, 15)
	bodies := map[string]string{"/move": `{"placement":"dedicated"}`, "/erase": `{"device":"x"}`, "/suspend": `{"reason":"x"}`, "/tokens": `{"expires":"never"}`,
		"/tenants": `{"tenant":"initech"}`, "{tenant}": `{"tags":{"a":"b"}}`}
	for _, pattern := range s.patterns {
		var body string
		for end, b := range bodies {
			if strings.HasSuffix(pattern, end) {
				body = b
			}
		}
		for _, tenant := range []string{"acme", "globex"} {
			request := strings.NewReplacer("{tenant}", tenant, "{token}", token.ID).Replace(pattern)
			s.ask(t, 401, request, body)
			s.ask(t, 401, request, body, "Authorization", "Bearer "+token.Token)
			s.ask(t, 401, request, body, "Authorization", "Bearer "+token.Token, "From", here)
			s.ask(t, 401, request, body, "Authorization", "bearer  "+token.Token, "From", "[::1]:4711")
			s.ask(t, 401, request, body, "X-Scope-OrgID", tenant)
			s.ask(t, 401, request, body, "X-Forwarded-For", "10.0.0.9", "From", here)
			if !strings.HasPrefix(request, "GET ") {
				s.ask(t, 403, request, body, "Sec-Fetch-Site", "cross-site", "From", here)
				s.ask(t, 403, request, body, "Sec-Fetch-Site", "cross-site", "Authorization", operators)
			}
		}
	}
	require.Equal(t, before, state())
}

// A retention is refused with which an account would need more containers than it may have; a shorter one never is.
func TestRetentionThatNeedsTooManyContainersIsRefused(t *testing.T) {
	t.Parallel()
	s := newTenantsAt(t)
	d := control.NewDirectory(control.DirectoryConfig{Documents: s.docs, Retention: 30 * 24 * time.Hour})
	_, err := d.Register(t.Context(), "acme")
	require.NoError(t, err)
	require.NoError(t, d.SetPeriod(t.Context(), sharding.PeriodEpoch{Period: sharding.Day}))
	set := func(status int, tenant, retention string) (hides []string) {
		answer := s.ask(t, status, "PATCH /api/v1/tenants/"+tenant,
			`{"settings":{"retention":"`+retention+`"},"dry-run":true}`, "Authorization", "Bearer operators")
		var got struct{ Hides []string }
		require.NoError(t, json.Unmarshal([]byte(answer), &got))
		return got.Hides
	}
	for _, fits := range []string{"90d", "10d", "meter-*=20d"} {
		set(200, "acme", fits)
	}
	for _, large := range []string{"400d", "forever", "meter-*=400d", "meter-*=400d,default=1d"} {
		set(409, "acme", large)
	}
	set(404, "nobody", "400d")
	hides := set(200, "acme", "default=10d,meter-*=30d,test-*=1d")
	require.Regexp(t, `^Days before \d{4}-\d\d-\d\d of devices test-\* are hidden for good from \d{4}.*Z on, and then deleted\.$`, hides[0])
	require.Regexp(t, `^Days before \d{4}-\d\d-\d\d of all other devices are hidden for good`, hides[1])
}
