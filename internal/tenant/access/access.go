// Package access authenticates callers and finds the tenant of a request: by a token of ours, by one of an identity
// provider (OIDC), or by the header of a proxy that the operator trusts. docs/operate/tenants.md is its manual.
//
// What a caller may see follows from what it can prove, never from what it asks for: a request names a tenant only to
// choose among the tenants that its credential covers. A denial does not show which tenants exist.
package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"binnacle/internal/settings"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"

	"github.com/prometheus/client_golang/prometheus"
)

// TenantHeader names the tenant of a request: as a trusted proxy's word, or to choose one of several.
const TenantHeader = "X-Scope-OrgID"

// Caller is the authenticated sender of a request.
type Caller struct {
	Tenant string // the request is for this one
	// Scopes are what the caller may do.
	Scopes []tenant.Scope
	Name   string // for logs: "token 3fk2…", "subject …", "proxy 10.0.0.1"
}

// May reports whether the caller has a scope.
func (c Caller) May(s tenant.Scope) bool { return slices.Contains(c.Scopes, s) }

// Denied is why a request is turned away.
type Denied struct {
	Status int    // 400, 401, 403 or 503
	Detail string // for the one who asks
	// Header is the header of the request that is missing or wrong.
	Header string
	// Challenge is the header WWW-Authenticate of a 401.
	Challenge string
	Cause     error // for logs only, may be nil
}

// Error returns Detail and Cause, for logs.
func (d *Denied) Error() string {
	if d.Cause != nil {
		return fmt.Sprintf("%s: %v", d.Detail, d.Cause)
	}
	return d.Detail
}

// Unwrap returns Cause.
func (d *Denied) Unwrap() error { return d.Cause }

// Config configures a Gate. With nothing set every caller is denied.
type Config struct {
	// Tokens lists the bearer tokens of control documents; nil: there are none.
	Tokens func(ctx context.Context) ([]tenant.Token, error)
	// Issuers are identity providers.
	Issuers []IssuerConfig
	// Proxies are the addresses that may name a tenant in X-Scope-OrgID without a token. A request counts as from the
	// other end of its connection, whatever its headers say.
	Proxies []netip.Prefix
	// ProxiesMayWrite gives requests of Proxies the scope write, too.
	ProxiesMayWrite bool

	// AllowHost reports whether a caller that is believed for its address may name the Host of a request: a web page in
	// a browser at such an address can send requests under another name. By default every name is allowed.
	AllowHost func(*http.Request) bool

	Now    func() time.Time // time.Now
	Logger *slog.Logger     // none
	// Registerer takes the metrics; none by default.
	Registerer prometheus.Registerer
	HTTP       *http.Client // for issuers; http.DefaultClient

	Every time.Duration `default:"30s"` // how often tokens are read
	Stale time.Duration `default:"10m"` // how long tokens are good for that can't be read again
}

// Loopback are the addresses of one's own machine.
var Loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// Gate authenticates callers. It is safe for any number of requests.
type Gate struct {
	cfg     Config
	tokens  *tokenCache
	issuers []*issuer
}

// New returns a Gate. It connects to nothing. It reports all faults of the config at once.
func New(cfg Config) (*Gate, error) {
	settings.Defaults(&cfg)
	if cfg.HTTP == nil {
		cfg.HTTP = http.DefaultClient
	}
	g := &Gate{cfg: cfg}
	if cfg.Tokens != nil {
		g.tokens = newTokens(cfg)
	}
	var errs []error
	for _, c := range cfg.Issuers {
		i, err := newIssuer(c, cfg)
		errs = append(errs, err)
		g.issuers = append(g.issuers, i)
	}
	return g, errors.Join(errs...)
}

// Caller authenticates the sender of a request. A nil Gate lets senders on this machine name any tenant, and denies all
// others. Any error is a *Denied.
func (g *Gate) Caller(r *http.Request) (Caller, error) {
	if g == nil {
		g = &Gate{cfg: Config{Proxies: Loopback}}
	}
	secret, bearer, err := bearerToken(r.Header)
	if err != nil {
		return Caller{}, err
	}
	wanted, err := wantedTenant(r.Header)
	if err != nil {
		return Caller{}, err
	}
	if !bearer {
		return g.byProxy(r, wanted)
	}
	if _, ours := tenant.TokenID(secret); ours {
		return g.byToken(r.Context(), secret, wanted)
	}
	return g.byIssuer(r.Context(), secret, wanted)
}

func bearerToken(h http.Header) (secret string, ok bool, err error) {
	values := h.Values("Authorization")
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
	default:
		return "", false, &Denied{Status: http.StatusBadRequest, Detail: "the header Authorization is given more than once",
			Header: "Authorization"}
	}
	scheme, secret, _ := strings.Cut(values[0], " ")
	if secret = strings.TrimSpace(secret); !strings.EqualFold(scheme, "Bearer") || secret == "" {
		return "", false, unauthorized("the header Authorization must hold a bearer token", nil)
	}
	return secret, true, nil
}

func wantedTenant(h http.Header) (string, error) {
	names := h.Values(TenantHeader)
	if len(names) > 1 {
		return "", &Denied{Status: http.StatusBadRequest, Detail: "the header " + TenantHeader + " is given more than once",
			Header: TenantHeader}
	}
	if len(names) == 0 || names[0] == "" {
		return "", nil
	}
	if err := telemetry.CheckTenant(names[0]); err != nil {
		return "", &Denied{Status: http.StatusBadRequest, Detail: "header " + TenantHeader + ": " + err.Error(),
			Header: TenantHeader}
	}
	return names[0], nil
}

func unauthorized(detail string, cause error) *Denied {
	return &Denied{
		Status: http.StatusUnauthorized, Detail: detail, Header: "Authorization", Challenge: `Bearer realm="binnacle"`,
		Cause: cause,
	}
}

// forbidden does not depend on whether the tenant that was asked for exists.
func forbidden() *Denied {
	return &Denied{
		Status: http.StatusForbidden, Detail: "this credential is not for the tenant that " + TenantHeader + " names",
		Header: TenantHeader,
	}
}

// proxyScopes returns the scopes of a request by a trusted proxy: it has checked its callers, but names no scopes.
func (c Config) proxyScopes() []tenant.Scope {
	if c.ProxiesMayWrite {
		return []tenant.Scope{tenant.ScopeRead, tenant.ScopeWrite}
	}
	return []tenant.Scope{tenant.ScopeRead}
}

func (g *Gate) byProxy(r *http.Request, wanted string) (Caller, error) {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	from := at.Addr().Unmap().WithZone("")
	if err != nil || !slices.ContainsFunc(g.cfg.Proxies, func(p netip.Prefix) bool { return p.Contains(from) }) {
		return Caller{}, unauthorized("a bearer token is needed", nil)
	}
	if g.cfg.AllowHost != nil && !g.cfg.AllowHost(r) {
		return Caller{}, &Denied{Status: http.StatusForbidden, Header: "Host", Detail: fmt.Sprintf(
			"host %.200q is not allowed without a bearer token: use localhost, 127.0.0.1, or a name from --trusted-hosts",
			r.Host)}
	}
	if wanted == "" {
		return Caller{}, &Denied{
			Status: http.StatusUnauthorized, Detail: "the header " + TenantHeader + " must name the tenant",
			Header:    TenantHeader,
			Challenge: TenantHeader,
		}
	}
	return Caller{Tenant: wanted, Scopes: g.cfg.proxyScopes(), Name: "proxy " + from.String()}, nil
}

func (g *Gate) byToken(ctx context.Context, secret, wanted string) (Caller, error) {
	if g.tokens == nil {
		return Caller{}, unauthorized("the token is not valid", nil)
	}
	t, err := g.tokens.find(ctx, secret)
	if err != nil {
		return Caller{}, err
	}
	if wanted != "" && wanted != t.Tenant {
		return Caller{}, forbidden()
	}
	return Caller{Tenant: t.Tenant, Scopes: t.Scopes, Name: "token " + t.ID}, nil
}

func (g *Gate) byIssuer(ctx context.Context, raw, wanted string) (Caller, error) {
	claims := uncheckedClaims(raw)
	for _, i := range g.issuers {
		if i.cfg.Issuer == claims["iss"] && slices.Contains(words(claims, "aud", false), i.cfg.Audience) {
			return i.authenticate(ctx, raw, wanted)
		}
	}
	return Caller{}, unauthorized("the token is not valid", nil)
}
