package access_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"binnacle/internal/tenant"
	"binnacle/internal/tenant/access"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"
)

// provider is an identity provider.
type provider struct {
	*httptest.Server
	t    *testing.T
	key  *rsa.PrivateKey
	down bool

	fetches atomic.Int64 // of keys
}

func newProvider(t *testing.T) *provider {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	p := &provider{t: t, key: key}
	mux := http.NewServeMux()
	answer := func(body func() any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if p.down {
				http.Error(w, "down", http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(body())
		}
	}
	mux.HandleFunc("/.well-known/openid-configuration", answer(func() any {
		return map[string]any{
			"issuer": p.URL, "jwks_uri": p.URL + "/keys", "authorization_endpoint": p.URL, "token_endpoint": p.URL,
			"id_token_signing_alg_values_supported": []string{"RS256"},
		}
	}))
	mux.HandleFunc("/keys", answer(func() any {
		p.fetches.Add(1)
		return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "k1", Algorithm: "RS256", Use: "sig"}}}
	}))
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

// token signs claims; those that are not given are good ones.
func (p *provider) token(at time.Time, claims map[string]any) string {
	return sign(p.t, p.key, p.claims(at, claims))
}

func (p *provider) claims(at time.Time, claims map[string]any) map[string]any {
	all := map[string]any{"iss": p.URL, "aud": "binnacle", "sub": "jo", "iat": at.Unix(), "exp": at.Add(time.Hour).Unix()}
	for k, v := range claims {
		all[k] = v
	}
	return all
}

func sign(t *testing.T, key *rsa.PrivateKey, claims map[string]any) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key},
		(&jose.SignerOptions{}).WithHeader("kid", "k1"))
	require.NoError(t, err)
	raw, err := jwt.Signed(signer).Claims(claims).Serialize()
	require.NoError(t, err)
	return raw
}

func TestIdentityProviderToken(t *testing.T) {
	p := newProvider(t)
	d := newDoor(t, access.Config{Issuers: []access.IssuerConfig{{
		Issuer: p.URL, Audience: "binnacle", TenantClaim: "ext.tenants", ScopeClaim: "scp", ScopePrefix: "binnacle.",
	}}})
	ext := func(tenants any) map[string]any { return map[string]any{"tenants": tenants} }
	for name, c := range map[string]struct {
		claims map[string]any
		wanted string
		tenant string
		scopes []tenant.Scope
		status int
	}{
		"one tenant": {claims: map[string]any{"ext": ext("acme")}, tenant: "acme",
			scopes: []tenant.Scope{tenant.ScopeRead}},
		"the tenant named too": {claims: map[string]any{"ext": ext("acme")}, wanted: "acme", tenant: "acme",
			scopes: []tenant.Scope{tenant.ScopeRead}},
		"another one named": {claims: map[string]any{"ext": ext("acme")}, wanted: "globex",
			status: http.StatusForbidden},
		"one of several": {claims: map[string]any{"ext": ext([]string{"acme", "globex"})}, wanted: "globex",
			tenant: "globex", scopes: []tenant.Scope{tenant.ScopeRead}},
		"which of several": {claims: map[string]any{"ext": ext([]string{"acme", "globex"})},
			status: http.StatusBadRequest},
		"none":                   {claims: map[string]any{}, status: http.StatusForbidden},
		"no name":                {claims: map[string]any{"ext": ext("A B")}, status: http.StatusForbidden},
		"a number":               {claims: map[string]any{"ext": ext(7)}, status: http.StatusForbidden},
		"blanks part no tenants": {claims: map[string]any{"ext": ext("acme globex")}, status: http.StatusForbidden},
		"scopes as text": {claims: map[string]any{"ext": ext("acme"), "scp": "openid binnacle.read binnacle.admin"},
			tenant: "acme", scopes: []tenant.Scope{tenant.ScopeRead, tenant.ScopeAdmin}},
		"scopes as a list": {claims: map[string]any{"ext": ext("acme"), "scp": []string{"binnacle.write", "write"}},
			tenant: "acme", scopes: []tenant.Scope{tenant.ScopeWrite}},
		"scopes that are others'": {claims: map[string]any{"ext": ext("acme"), "scp": "admin read"}, tenant: "acme"},
		"a dotted name": {claims: map[string]any{"ext.tenants": "acme"}, tenant: "acme",
			scopes: []tenant.Scope{tenant.ScopeRead}},
		"expired": {claims: map[string]any{"ext": ext("acme"), "exp": d.now.Add(-time.Minute).Unix()},
			status: http.StatusUnauthorized},
		"not yet": {claims: map[string]any{"ext": ext("acme"), "nbf": d.now.Add(time.Hour).Unix()},
			status: http.StatusUnauthorized},
		"for another audience": {claims: map[string]any{"ext": ext("acme"), "aud": "grafana"},
			status: http.StatusUnauthorized},
		"of another issuer": {claims: map[string]any{"ext": ext("acme"), "iss": "https://login.example"},
			status: http.StatusUnauthorized},
	} {
		headers := []string{"Authorization", "Bearer " + p.token(d.now, c.claims)}
		if c.wanted != "" {
			headers = append(headers, access.TenantHeader, c.wanted)
		}
		if c.status != 0 {
			require.Equal(t, c.status, d.denied(request(somewhere, headers...)).Status, name)
			continue
		}
		got, err := d.Caller(request(somewhere, headers...))
		require.NoError(t, err, name)
		require.Equal(t, access.Caller{Tenant: c.tenant, Scopes: c.scopes, Name: "subject jo"}, got, name)
	}
}

func TestForgedToken(t *testing.T) {
	p, other := newProvider(t), newProvider(t)
	d := newDoor(t, access.Config{Issuers: []access.IssuerConfig{{Issuer: p.URL, Audience: "binnacle"}}})
	good := p.token(d.now, map[string]any{"tenant": "acme"})
	_, err := d.Caller(request(somewhere, "Authorization", "Bearer "+good))
	require.NoError(t, err)
	parts := strings.Split(good, ".")
	unsigned := "eyJhbGciOiJub25lIn0." + parts[1] + "."
	resigned := sign(t, other.key, p.claims(d.now, map[string]any{"tenant": "acme"}))
	for name, forged := range map[string]string{
		"by another key": resigned, "unsigned": unsigned, "other claims": parts[0] + "." +
			strings.Split(p.token(d.now, map[string]any{"tenant": "globex"}), ".")[1] + "." + parts[2],
	} {
		require.Equal(t, http.StatusUnauthorized, d.denied(request(somewhere, "Authorization", "Bearer "+forged)).Status,
			name)
	}
}

func TestProviderDown(t *testing.T) {
	p := newProvider(t)
	p.down = true
	d := newDoor(t, access.Config{Issuers: []access.IssuerConfig{{Issuer: p.URL, Audience: "binnacle"}}})
	r := request(somewhere, "Authorization", "Bearer "+p.token(d.now, map[string]any{"tenant": "acme"}))
	require.Equal(t, http.StatusServiceUnavailable, d.denied(r).Status)
	p.down = false
	require.Equal(t, http.StatusServiceUnavailable, d.denied(r).Status, "it is not asked at each request")
	d.now = d.now.Add(5 * time.Second)
	_, err := d.Caller(r)
	require.NoError(t, err)
}

func TestInvalidIssuer(t *testing.T) {
	_, err := access.New(access.Config{Issuers: []access.IssuerConfig{{Issuer: "login"},
		{Issuer: "https://login.example"}}})
	require.ErrorContains(t, err, `"login" is not a URL`)
	require.ErrorContains(t, err, "https://login.example: the audience is missing")
}

// That a client has gone says nothing of the provider: others are let in.
func TestCanceledClientStopsNoOther(t *testing.T) {
	p := newProvider(t)
	d := newDoor(t, access.Config{Issuers: []access.IssuerConfig{{Issuer: p.URL, Audience: "binnacle"}}})
	good := request(somewhere, "Authorization", "Bearer "+p.token(d.now, map[string]any{"tenant": "acme"}))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = d.Caller(good.WithContext(gone)) // whatever it returns
	c, err := d.Caller(good)
	require.NoError(t, err)
	require.Equal(t, "acme", c.Tenant)
}

// Anybody can make a token with an unknown key. The provider is asked for its keys once in five seconds all the same.
func TestForgedTokensFetchKeysOnce(t *testing.T) {
	p, other := newProvider(t), newProvider(t)
	d := newDoor(t, access.Config{Issuers: []access.IssuerConfig{{Issuer: p.URL, Audience: "binnacle"}}})
	ask := func(raw string) *http.Request { return request(somewhere, "Authorization", "Bearer "+raw) }
	claims := map[string]any{"tenant": "acme"}
	_, err := d.Caller(ask(p.token(d.now, claims)))
	require.NoError(t, err)
	for range 50 {
		require.Equal(t, http.StatusUnauthorized, d.denied(ask(sign(t, other.key, p.claims(d.now, claims)))).Status)
	}
	require.EqualValues(t, 1, p.fetches.Load())

	// A key that the provider has just made is good at the next request for them.
	_, err = d.Caller(ask(p.token(d.now, claims)))
	require.NoError(t, err)
	p.key = other.key
	d.denied(ask(p.token(d.now, claims)))
	d.now = d.now.Add(5 * time.Second)
	require.Eventually(t, func() bool { // a request may still join the fetch that was denied before
		_, err = d.Caller(ask(p.token(d.now, claims)))
		return err == nil
	}, time.Minute, time.Millisecond)
	require.EqualValues(t, 2, p.fetches.Load())

	// That keys can't be fetched does not make a token a bad one.
	d.now = d.now.Add(5 * time.Second)
	p.down, p.key = true, newProvider(t).key
	for range 2 {
		require.Equal(t, http.StatusServiceUnavailable, d.denied(ask(p.token(d.now, claims))).Status)
	}
}

func TestAudiencesOfOneIssuer(t *testing.T) {
	p := newProvider(t)
	d := newDoor(t, access.Config{Issuers: []access.IssuerConfig{
		{Issuer: p.URL, Audience: "binnacle"}, {Issuer: p.URL, Audience: "grafana", TenantClaim: "org"},
	}})
	for _, claims := range []map[string]any{
		{"tenant": "acme"}, {"aud": "grafana", "org": "acme"}, {"aud": []string{"other", "grafana"}, "org": "acme"},
	} {
		c, err := d.Caller(request(somewhere, "Authorization", "Bearer "+p.token(d.now, claims)))
		require.NoError(t, err)
		require.Equal(t, "acme", c.Tenant)
	}
	other := p.token(d.now, map[string]any{"aud": "other", "tenant": "acme"})
	require.Equal(t, http.StatusUnauthorized,
		d.denied(request(somewhere, "Authorization", "Bearer "+other)).Status)
}

// Requests wait for a discovery no longer than for themselves.
func TestDiscoveryHoldsNoLock(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(answer) })
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(asked)
		<-answer
	}))
	t.Cleanup(slow.Close)
	t.Cleanup(release)
	p := newProvider(t)
	d := newDoor(t, access.Config{Issuers: []access.IssuerConfig{{Issuer: slow.URL, Audience: "binnacle"}}})
	r := request(somewhere, "Authorization", "Bearer "+p.token(d.now, map[string]any{"iss": slow.URL, "tenant": "acme"}))
	first := make(chan error, 1)
	go func() {
		_, err := d.Caller(r)
		first <- err
	}()
	<-asked
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, d.denied(r.WithContext(gone)), context.Canceled)
	release()
	require.Error(t, <-first)
}
