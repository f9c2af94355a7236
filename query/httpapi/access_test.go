package httpapi_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"binnacle/internal/store/storetest"
	"binnacle/internal/tenant"
	"binnacle/internal/tenant/access"
	"binnacle/query"
	"binnacle/query/httpapi"

	"github.com/stretchr/testify/require"
)

// Every endpoint answers for the tenant of the credential, whatever a request names, in whichever place.
func TestCredentialIsForItsTenant(t *testing.T) {
	var tokens *tenant.Tokens
	s := newServer(t, func(q *query.Config, c *httpapi.Config) {
		gate, err := access.New(access.Config{Tokens: func(ctx context.Context) ([]tenant.Token,
			error) {
			return tokens.List(ctx)
		}, Now: c.Now})
		require.NoError(t, err)
		c.Gate = gate
		c.Rejected = refusals{}
	})
	tokens = tenant.NewTokens(s.world.Documents)
	s.fill()
	token := func(tenantName string, scope tenant.Scope) string {
		secret, _, err := tokens.Add(t.Context(), tenant.Token{Tenant: tenantName, Scopes: []tenant.Scope{scope},
			Created: noon})
		require.NoError(t, err)
		return "Bearer " + secret
	}
	acme, globex, writer := token("acme", tenant.ScopeRead), token("globex", tenant.ScopeRead),
		token("acme", tenant.ScopeWrite)
	paths := []string{"/api/v1/readings?from=0", "/api/v1/readings?from=0&device=m1&format=csv", "/api/v1/devices",
		"/api/v1/metrics", "/api/v1/rejected"}
	for path, its := range map[string]string{
		"/api/v1/attendance": `"device":"m1"`, "/api/v1/gaps?device=m1&expect=1h": `"readings":3`,
	} {
		for token, there := range map[string]bool{acme: true, globex: false} {
			a, err := s.do(t, http.MethodGet, path, http.Header{"Authorization": {token}})
			require.NoError(t, err)
			require.Equal(t, 200, a.status, path)
			require.Equal(t, there, strings.Contains(a.body, its), a.body)
		}
		for _, header := range []http.Header{{"Authorization": {globex}, httpapi.TenantHeader: {"acme"}},
			{httpapi.TenantHeader: {"acme"}}, {"Authorization": {writer}}, nil} {
			a, err := s.do(t, http.MethodGet, path, header)
			require.NoError(t, err)
			require.Contains(t, []int{401, 403}, a.status, path)
		}
	}
	for _, path := range paths {
		ask := func(headers http.Header) answer {
			a, err := s.do(t, http.MethodGet, path, headers)
			require.NoError(t, err)
			return a
		}
		mine := ask(http.Header{"Authorization": {acme}})
		require.Equal(t, 200, mine.status, path)
		require.Contains(t, mine.body, "temp", path)
		theirs := ask(http.Header{"Authorization": {globex}})
		require.Equal(t, 200, theirs.status, path)
		require.NotContains(t, theirs.body, "temp", path)
		require.NotContains(t, theirs.body, "m1", path)
		for name, c := range map[string]struct {
			header http.Header
			status int
		}{
			"another tenant's name": {http.Header{"Authorization": {globex}, httpapi.TenantHeader: {"acme"}}, 403},
			"nobody's name":         {http.Header{"Authorization": {globex}, httpapi.TenantHeader: {"nobody"}}, 403},
			"a name alone":          {http.Header{httpapi.TenantHeader: {"acme"}}, 401},
			"nothing":               {nil, 401},
			"no scope to read":      {http.Header{"Authorization": {writer}}, 403},
			"a guess":               {http.Header{"Authorization": {"Bearer bn_abcdefghij_ABCDEFGHIJKLMNOPQRSTUVWXYZ"}}, 401},
		} {
			a := ask(c.header)
			require.Equal(t, c.status, a.status, "%s: %s", path, name)
			parseProblem(t, a)
			require.NotContains(t, a.body, "m1", "%s: %s", path, name)
			if c.status == 401 {
				require.Contains(t, a.header.Get("WWW-Authenticate"), "Bearer", name)
			}
		}
	}
}

// A request that asks for something wrong, or for what is not there yet, leaves no line in the log.
func TestMistakesAreNotLogged(t *testing.T) {
	var log strings.Builder
	s := newServer(t, func(_ *query.Config, c *httpapi.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	s.fill()
	for path, status := range map[string]int{
		"readings?from=x": 400, "nothing": 404, "readings?timeout=10ms": 504, "readings?timeout=11ms": 504,
	} {
		header := http.Header{httpapi.TenantHeader: {"acme"}}
		if status == 504 {
			header.Set(httpapi.AfterHeader, "telemetry/0/100")
		}
		a, err := s.do(t, http.MethodGet, "/api/v1/"+path, header)
		require.NoError(t, err)
		require.Equal(t, status, a.status, path)
	}
	require.Empty(t, log.String())
	s.world.Store.Fault = func(storetest.Op) *storetest.Fault { return &storetest.Fault{Err: errors.New("away")} }
	require.Equal(t, 503, s.get(t, "/api/v1/readings?from=-2h").status)
	require.Contains(t, log.String(), "level=WARN")
	require.Contains(t, log.String(), "path=/api/v1/readings tenant=acme")
	require.NotContains(t, log.String(), "level=ERROR")
}
