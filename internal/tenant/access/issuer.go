package access

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"binnacle/internal/settings"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/sync/singleflight"
)

// IssuerConfig describes an identity provider. Its tokens are accepted.
type IssuerConfig struct {
	Issuer   string // URL, as the tokens name it; its keys are found by discovery
	Audience string // a token must be for it
	// TenantClaim is the name of the claim with the tenant, or a list of them; dots lead into objects.
	TenantClaim string `default:"tenant"`
	// ScopeClaim is the same for scopes: blank-separated text or a list. Without one a token may read.
	ScopeClaim string `default:"scope"`
	// ScopePrefix begins scopes of the issuer, such as "binnacle.".
	ScopePrefix string
}

// issuer checks the tokens of one identity provider.
type issuer struct {
	cfg         IssuerConfig
	http        *http.Client
	now         func() time.Time
	keys        *keyFetches
	discoveries singleflight.Group

	mu       sync.Mutex // guards below
	verifier *oidc.IDTokenVerifier
	// failed is when discovery failed last.
	failed  time.Time
	failure error
}

func newIssuer(cfg IssuerConfig, gate Config) (*issuer, error) {
	settings.Defaults(&cfg)
	var faults settings.Faults
	u, err := url.Parse(cfg.Issuer)
	faults.Check(err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "", "issuer %q is not a URL",
		cfg.Issuer)
	faults.Check(cfg.Audience != "", "issuer %s: the audience is missing: without one, tokens for others would be "+
		"accepted", cfg.Issuer)
	return &issuer{cfg: cfg, http: gate.HTTP, now: gate.Now, keys: &keyFetches{http: gate.HTTP, now: gate.Now}},
		faults.Err()
}

// uncheckedClaims returns what a token claims, before anything of it is checked; nil when it is no JWT.
func uncheckedClaims(raw string) (out map[string]any) {
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return nil
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &out) != nil {
		return nil
	}
	return out
}

// askAgain is how long after a failed discovery, and after any request for keys, the provider is asked again.
const askAgain = 5 * time.Second

// providerTimeout bounds how long requests wait for an identity provider.
const providerTimeout = 5 * time.Second

// discovered returns what checks tokens. It discovers the provider unless that has been done; callers that come during
// a discovery share it, and leave it when their requests end.
func (i *issuer) discovered(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	if v, err := i.known(); v != nil || err != nil {
		return v, err
	}
	done := i.discoveries.DoChan("", func() (any, error) { return i.discover(context.WithoutCancel(ctx)) })
	select {
	case r := <-done:
		v, _ := r.Val.(*oidc.IDTokenVerifier)
		return v, r.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// known returns the outcome of a discovery; both are nil when it is time for one.
func (i *issuer) known() (*oidc.IDTokenVerifier, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.verifier == nil && i.failure != nil && i.now().Sub(i.failed) < askAgain {
		return nil, i.failure
	}
	return i.verifier, nil
}

func (i *issuer) discover(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	if v, err := i.known(); v != nil || err != nil {
		return v, err // another discovery has just ended
	}
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, i.http), i.cfg.Issuer)
	i.mu.Lock()
	defer i.mu.Unlock()
	if err != nil {
		i.failed, i.failure = i.now(), fmt.Errorf("discover %s: %w", i.cfg.Issuer, err)
		return nil, i.failure
	}
	// Its context outlives the request: keys are fetched again when the provider changes them.
	i.verifier = provider.VerifierContext(oidc.ClientContext(context.Background(), i.keys.client()),
		&oidc.Config{ClientID: i.cfg.Audience, Now: i.now})
	return i.verifier, nil
}

// keyFetches asks a provider for its keys, at most once in askAgain: each token with a key that is not known asks, and
// anybody can make one.
type keyFetches struct {
	http *http.Client
	now  func() time.Time

	mu     sync.Mutex // guards below
	last   time.Time
	failed error // the last one
}

var errAskedJustNow = errors.New("the provider was asked for its keys just now")

func (k *keyFetches) client() *http.Client {
	limited := *k.http
	limited.Transport, limited.Timeout = k, providerTimeout
	return &limited
}

// RoundTrip implements http.RoundTripper.
func (k *keyFetches) RoundTrip(r *http.Request) (*http.Response, error) {
	k.mu.Lock()
	if now := k.now(); !k.last.IsZero() && now.Sub(k.last) < askAgain {
		k.mu.Unlock()
		return nil, errAskedJustNow
	}
	k.last, k.failed = k.now(), nil
	k.mu.Unlock()
	base := k.http.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	resp, err := base.RoundTrip(r)
	failed := err
	if err == nil && resp.StatusCode != http.StatusOK {
		failed = fmt.Errorf("keys of the provider: %s", resp.Status)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failed = failed
	return resp, err
}

// failure returns why the last fetch of keys failed. It returns nil once the next one may be made.
func (k *keyFetches) failure() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now().Sub(k.last) >= askAgain {
		return nil
	}
	return k.failed
}

// authenticate checks a token and chooses the tenant. Any error is a *Denied.
func (i *issuer) authenticate(ctx context.Context, raw, wanted string) (Caller, error) {
	verifier, err := i.discovered(ctx)
	if err != nil {
		return Caller{}, &Denied{Status: http.StatusServiceUnavailable, Detail: "the identity provider does not answer",
			Cause: err}
	}
	token, err := verifier.Verify(ctx, raw)
	var unfetched error
	if err != nil {
		unfetched = i.keys.failure()
	}
	switch {
	case unfetched != nil:
		return Caller{}, &Denied{Status: http.StatusServiceUnavailable, Detail: "the identity provider does not answer",
			Cause: unfetched}
	case err != nil:
		return Caller{}, unauthorized("the token is not valid", err)
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return Caller{}, unauthorized("the token is not valid", err)
	}
	tenants := slices.DeleteFunc(words(claims, i.cfg.TenantClaim, false),
		func(name string) bool { return telemetry.CheckTenant(name) != nil })
	c := Caller{Scopes: i.scopes(claims), Name: "subject " + token.Subject}
	switch {
	case len(tenants) == 0:
		return Caller{}, &Denied{Status: http.StatusForbidden, Detail: "the token's claim " + i.cfg.TenantClaim +
			" names no tenant"}
	case wanted == "" && len(tenants) > 1:
		return Caller{}, &Denied{Status: http.StatusBadRequest, Detail: fmt.Sprintf(
			"the token is for several tenants: the header %s must name one of %s", TenantHeader, strings.Join(tenants, ", "))}
	case wanted == "":
		c.Tenant = tenants[0]
	case !slices.Contains(tenants, wanted):
		return Caller{}, forbidden()
	default:
		c.Tenant = wanted
	}
	return c, nil
}

func (i *issuer) scopes(claims map[string]any) []tenant.Scope {
	if lookup(claims, i.cfg.ScopeClaim) == nil {
		return []tenant.Scope{tenant.ScopeRead}
	}
	var out []tenant.Scope
	for _, w := range words(claims, i.cfg.ScopeClaim, true) {
		name, ours := strings.CutPrefix(w, i.cfg.ScopePrefix)
		if s, err := tenant.ParseScope(name); ours && err == nil {
			out = append(out, s)
		}
	}
	return out
}

// lookup returns a claim. Dots in its name lead through objects, unless a claim has that very name.
func lookup(claims map[string]any, name string) any {
	if v, ok := claims[name]; ok {
		return v
	}
	first, rest, nested := strings.Cut(name, ".")
	inner, ok := claims[first].(map[string]any)
	if !nested || !ok {
		return nil
	}
	return lookup(inner, rest)
}

// words returns the texts of a claim: a list, or a text, which blanks separate into several if split is set.
func words(claims map[string]any, name string, split bool) (out []string) {
	switch v := lookup(claims, name).(type) {
	case string:
		if split {
			return strings.Fields(v)
		}
		return []string{v}
	case []any:
		for _, x := range v {
			if s, ok := x.(string); ok {
				out = append(out, s)
			}
		}
	}
	return out
}
