package access_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/tenant"
	"binnacle/internal/tenant/access"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// door is a Gate over control documents in memory, with a clock.
type door struct {
	*access.Gate
	t      *testing.T
	now    time.Time
	docs   *storetest.Documents
	tokens *tenant.Tokens
	reads  int
	broken error
}

func newDoor(t *testing.T, cfg access.Config) *door {
	d := &door{t: t, now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), docs: storetest.NewDocuments(t)}
	d.tokens = tenant.NewTokens(d.docs)
	cfg.Now = func() time.Time { return d.now }
	cfg.Tokens = func(ctx context.Context) ([]tenant.Token, error) {
		d.reads++
		if d.broken != nil {
			return nil, d.broken
		}
		return d.tokens.List(ctx)
	}
	g, err := access.New(cfg)
	require.NoError(t, err)
	d.Gate = g
	return d
}

func (d *door) add(tok tenant.Token) (secret string, id string) {
	tok.Created = d.now
	secret, added, err := d.tokens.Add(d.t.Context(), tok)
	require.NoError(d.t, err)
	return secret, added.ID
}

// request is one from an address, with headers as pairs.
func request(from string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/api/v1/readings", nil)
	r.RemoteAddr = from
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

const somewhere = "203.0.113.9:4711"

// denied asks, and returns why not.
func (d *door) denied(r *http.Request) *access.Denied {
	c, err := d.Caller(r)
	var why *access.Denied
	require.ErrorAs(d.t, err, &why)
	require.Equal(d.t, access.Caller{}, c)
	return why
}

func TestTokenAuthenticatesItsTenant(t *testing.T) {
	d := newDoor(t, access.Config{})
	secret, id := d.add(tenant.Token{Tenant: "acme", Scopes: []tenant.Scope{tenant.ScopeRead}})
	d.add(tenant.Token{Tenant: "globex", Scopes: []tenant.Scope{tenant.ScopeAdmin}})
	for _, headers := range [][]string{
		{"Authorization", "Bearer " + secret}, {"Authorization", "bearer  " + secret + " "},
		{"Authorization", "Bearer " + secret, access.TenantHeader, "acme"},
	} {
		c, err := d.Caller(request(somewhere, headers...))
		require.NoError(t, err)
		require.Equal(t, access.Caller{Tenant: "acme", Scopes: []tenant.Scope{tenant.ScopeRead}, Name: "token " + id}, c)
		require.True(t, c.May(tenant.ScopeRead))
		require.False(t, c.May(tenant.ScopeAdmin))
	}
}

// Another tenant's name is answered alike, whether it exists or not: nothing shows which exist.
func TestForbiddenRevealsNothing(t *testing.T) {
	d := newDoor(t, access.Config{Proxies: access.Loopback})
	secret, _ := d.add(tenant.Token{Tenant: "acme", Scopes: []tenant.Scope{tenant.ScopeRead}})
	d.add(tenant.Token{Tenant: "globex", Scopes: []tenant.Scope{tenant.ScopeRead}})
	there := d.denied(request(somewhere, "Authorization", "Bearer "+secret, access.TenantHeader, "globex"))
	notThere := d.denied(request(somewhere, "Authorization", "Bearer "+secret, access.TenantHeader, "initech"))
	require.Equal(t, there, notThere)
	require.Equal(t, http.StatusForbidden, there.Status)
	fromProxy := d.denied(request("127.0.0.1:5", "Authorization", "Bearer "+secret, access.TenantHeader, "globex"))
	require.Equal(t, there, fromProxy, "a token counts, not where it comes from")
}

// A trusted address may only read, unless it is said that it may write; it is no operator in either case.
func TestScopesOfTrustedAddress(t *testing.T) {
	for _, mayWrite := range []bool{false, true} {
		d := newDoor(t, access.Config{Proxies: access.Loopback, ProxiesMayWrite: mayWrite})
		c, err := d.Caller(request("127.0.0.1:5", access.TenantHeader, "acme"))
		require.NoError(t, err)
		require.True(t, c.May(tenant.ScopeRead))
		require.Equal(t, mayWrite, c.May(tenant.ScopeWrite))
		require.False(t, c.May(tenant.ScopeAdmin))
	}
}

func TestInvalidTokens(t *testing.T) {
	d := newDoor(t, access.Config{})
	secret, id := d.add(tenant.Token{Tenant: "acme", Scopes: []tenant.Scope{tenant.ScopeRead},
		Expires: d.now.Add(time.Hour)})
	other, _ := d.add(tenant.Token{Tenant: "globex", Scopes: []tenant.Scope{tenant.ScopeRead}})
	_, err := d.Caller(request(somewhere, "Authorization", "Bearer "+secret))
	require.NoError(t, err)
	swapped := secret[:len("bn_")+len(id)+1] + other[len("bn_")+len(id)+1:]
	for name, headers := range map[string][]string{
		"none":                  {},
		"a tenant's name alone": {access.TenantHeader, "acme"},
		"no token of ours":      {"Authorization", "Bearer hello"},
		"a JWT of nobody":       {"Authorization", "Bearer e30.e30.e30"},
		"another scheme":        {"Authorization", "Basic " + secret},
		"no secret":             {"Authorization", "Bearer "},
		"an id alone":           {"Authorization", "Bearer bn_" + id + "_"},
		"another's secret":      {"Authorization", "Bearer " + swapped},
		"one letter more":       {"Authorization", "Bearer " + secret + "A"},
	} {
		why := d.denied(request(somewhere, headers...))
		require.Equal(t, http.StatusUnauthorized, why.Status, name)
		require.NotEmpty(t, why.Challenge, name)
	}
	require.Equal(t, http.StatusBadRequest, d.denied(request(somewhere, "Authorization", "Bearer "+secret, "Authorization",
		"Bearer "+other)).Status)
	require.Equal(t, http.StatusBadRequest,
		d.denied(request(somewhere, "Authorization", "Bearer "+secret, access.TenantHeader, "acme", access.TenantHeader,
			"globex")).Status)
	require.Equal(t, http.StatusBadRequest, d.denied(request(somewhere, "Authorization", "Bearer "+secret,
		access.TenantHeader, "Acme!")).Status)

	d.now = d.now.Add(time.Hour)
	require.Contains(t, d.denied(request(somewhere, "Authorization", "Bearer "+secret)).Detail, "expired")
}

func TestRevokedTokenEndsWithNextRead(t *testing.T) {
	d := newDoor(t, access.Config{Every: time.Minute})
	secret, id := d.add(tenant.Token{Tenant: "acme", Scopes: []tenant.Scope{tenant.ScopeRead}})
	r := request(somewhere, "Authorization", "Bearer "+secret)
	_, err := d.Caller(r)
	require.NoError(t, err)
	require.NoError(t, d.tokens.Revoke(t.Context(), id, d.now))
	require.NoError(t, d.tokens.Revoke(t.Context(), id, d.now), "twice is once")
	require.ErrorIs(t, d.tokens.Revoke(t.Context(), "nobody", d.now), tenant.ErrNoToken)
	d.now = d.now.Add(time.Minute)
	require.Contains(t, d.denied(r).Detail, "revoked")
}

// Guesses cost the store a read a second, and a token that was just made is good within a second.
func TestGuessedTokensReadOnce(t *testing.T) {
	d := newDoor(t, access.Config{Every: time.Hour})
	for range 100 {
		d.denied(request(somewhere, "Authorization", "Bearer bn_abcdefghij_ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
	}
	require.Equal(t, 1, d.reads)
	secret, _ := d.add(tenant.Token{Tenant: "acme", Scopes: []tenant.Scope{tenant.ScopeRead}})
	d.denied(request(somewhere, "Authorization", "Bearer "+secret))
	d.now = d.now.Add(time.Second)
	_, err := d.Caller(request(somewhere, "Authorization", "Bearer "+secret))
	require.NoError(t, err)
	require.Equal(t, 2, d.reads)
}

// A store that does not answer stops nobody for a while; then nobody is let in on old knowledge.
func TestTokensSurviveStoreOutage(t *testing.T) {
	d := newDoor(t, access.Config{Every: time.Minute, Stale: 10 * time.Minute})
	secret, _ := d.add(tenant.Token{Tenant: "acme", Scopes: []tenant.Scope{tenant.ScopeRead}})
	r := request(somewhere, "Authorization", "Bearer "+secret)
	d.broken = errors.New("the store is away")
	require.Equal(t, http.StatusServiceUnavailable, d.denied(r).Status, "it was never read")
	d.broken = nil
	_, err := d.Caller(r)
	require.NoError(t, err)
	d.broken = errors.New("the store is away")
	d.now = d.now.Add(9 * time.Minute)
	_, err = d.Caller(r)
	require.NoError(t, err)
	d.now = d.now.Add(time.Minute)
	why := d.denied(r)
	require.Equal(t, http.StatusServiceUnavailable, why.Status)
	require.ErrorIs(t, why, d.broken)
}

// Only the address of the connection counts, not what headers say of it.
func TestTrustedProxy(t *testing.T) {
	d := newDoor(t, access.Config{Proxies: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"),
		netip.MustParsePrefix("fd00::/8")}})
	for _, from := range []string{"10.1.2.3:80", "[::ffff:10.1.2.3]:80", "[fd00::1]:80", "[fd00::1%eth0]:80"} {
		c, err := d.Caller(request(from, access.TenantHeader, "acme"))
		require.NoError(t, err, from)
		require.Equal(t, "acme", c.Tenant)
		require.Equal(t, []tenant.Scope{tenant.ScopeRead}, c.Scopes)
	}
	for _, from := range []string{"10.2.2.3:80", "127.0.0.1:80", "[fe80::1]:80", "", "pipe"} {
		why := d.denied(request(from, access.TenantHeader, "acme", "X-Forwarded-For", "10.1.2.3", "X-Real-IP", "10.1.2.3",
			"Forwarded", "for=10.1.2.3"))
		require.Equal(t, http.StatusUnauthorized, why.Status, from)
	}
	require.Equal(t, http.StatusUnauthorized, d.denied(request("10.1.2.3:80")).Status)
	require.Equal(t, http.StatusBadRequest, d.denied(request("10.1.2.3:80", access.TenantHeader, "a~b")).Status)
}

func TestGateWithoutMethodsIsShut(t *testing.T) {
	g, err := access.New(access.Config{})
	require.NoError(t, err)
	for _, r := range []*http.Request{
		request("127.0.0.1:1", access.TenantHeader, "acme"), request("127.0.0.1:1", "Authorization",
			"Bearer bn_abcdefghij_ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
	} {
		_, err := g.Caller(r)
		require.Error(t, err)
	}
}

// A token document that can't be read shuts out its own token only.
func TestDamagedTokenIsSkipped(t *testing.T) {
	var log strings.Builder
	metrics := prometheus.NewRegistry()
	d := newDoor(t, access.Config{Every: time.Minute, Registerer: metrics,
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	secret, _ := d.add(tenant.Token{Tenant: "acme", Scopes: []tenant.Scope{tenant.ScopeRead}})
	for id, body := range map[string]string{
		"aaaaaaaaaa": `{"tenant":"globex","scopes":["read"],"argon2":"x"}`, "bbbbbbbbbb": `{"tenant":7}`,
	} {
		_, err := d.docs.Create(t.Context(), store.Document{Kind: tenant.KindToken, ID: id, Body: []byte(body)})
		require.NoError(t, err)
	}
	for range 3 {
		c, err := d.Caller(request(somewhere, "Authorization", "Bearer "+secret))
		require.NoError(t, err)
		require.Equal(t, "acme", c.Tenant)
		d.now = d.now.Add(time.Minute)
	}
	why := d.denied(request(somewhere, "Authorization", "Bearer bn_aaaaaaaaaa_ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
	require.Equal(t, http.StatusUnauthorized, why.Status)
	require.Equal(t, 2, strings.Count(log.String(), "can't be read"), log.String())
	require.Contains(t, log.String(), "aaaaaaaaaa")
	require.NoError(t, testutil.GatherAndCompare(metrics, strings.NewReader(`
# HELP binnacle_access_damaged_tokens Token documents that can't be read. Nobody can use such a token.
# TYPE binnacle_access_damaged_tokens gauge
binnacle_access_damaged_tokens 2
`)))
	require.ErrorContains(t, d.tokens.Revoke(t.Context(), "aaaaaaaaaa", d.now), "damaged")
}
