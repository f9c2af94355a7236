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

	"binnacle/internal/control"
	"binnacle/internal/telemetry"

	"github.com/coreos/go-oidc/v3/oidc"
)

// IssuerConfig is an identity provider whose tokens are good.
type IssuerConfig struct {
	Issuer      string // URL, as the tokens name it; its keys are found by discovery
	Audience    string // a token must be for it
	TenantClaim string // name of the claim with the tenant, or a list of them; dots lead into objects. Default "tenant"
	// the same for scopes: blank-separated text or a list. Default "scope"; without one a token may read
	ScopeClaim  string
	ScopePrefix string // what scopes begin with there, such as "binnacle."
}

// issuer checks the tokens of one identity provider.
type issuer struct {
	cfg  IssuerConfig
	http *http.Client
	now  func() time.Time

	mu       sync.Mutex // guards below
	verifier *oidc.IDTokenVerifier
	failed   time.Time // when discovery failed last
	failure  error
}

func newIssuer(cfg IssuerConfig, client *http.Client, now func() time.Time) (*issuer, error) {
	if cfg.TenantClaim == "" {
		cfg.TenantClaim = "tenant"
	}
	if cfg.ScopeClaim == "" {
		cfg.ScopeClaim = "scope"
	}
	var errs []error
	if u, err := url.Parse(cfg.Issuer); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		errs = append(errs, fmt.Errorf("issuer %q is no URL", cfg.Issuer))
	}
	if cfg.Audience == "" {
		errs = append(errs, fmt.Errorf("issuer %s: the audience is missing: without one, tokens that were made for others "+
			"would be good here", cfg.Issuer))
	}
	return &issuer{cfg: cfg, http: client, now: now}, errors.Join(errs...)
}

// issuerOf is who a token says has issued it, before anything of it is checked; empty when it is no JWT.
func issuerOf(raw string) string {
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return ""
	}
	return claims.Issuer
}

// rediscover is how long after a failed discovery the next one is tried.
const rediscover = 5 * time.Second

// discoverTimeout bounds how long requests wait for an identity provider.
const discoverTimeout = 5 * time.Second

// verify finds the provider's keys when that has not been done.
func (i *issuer) verify(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.verifier != nil {
		return i.verifier, nil
	}
	if i.failure != nil && i.now().Sub(i.failed) < rediscover {
		return nil, i.failure
	}
	// It is for all who come after, too: that one client has gone says nothing of the provider.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discoverTimeout)
	defer cancel()
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, i.http), i.cfg.Issuer)
	if err != nil {
		i.failed, i.failure = i.now(), fmt.Errorf("discover %s: %w", i.cfg.Issuer, err)
		return nil, i.failure
	}
	// Its context outlives the request: keys are fetched again when the provider changes them.
	i.verifier = provider.VerifierContext(oidc.ClientContext(context.Background(), i.http),
		&oidc.Config{ClientID: i.cfg.Audience, Now: i.now})
	return i.verifier, nil
}

// caller checks a token and chooses the tenant. Any error is a *Denied.
func (i *issuer) caller(ctx context.Context, raw, wanted string) (Caller, error) {
	verifier, err := i.verify(ctx)
	if err != nil {
		return Caller{}, &Denied{Status: http.StatusServiceUnavailable, Detail: "the identity provider does not answer",
			Cause: err}
	}
	token, err := verifier.Verify(ctx, raw)
	if err != nil {
		return Caller{}, unauthorized("the token is not good", err)
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return Caller{}, unauthorized("the token is not good", err)
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

// scopes are those of a token that are ours.
func (i *issuer) scopes(claims map[string]any) []control.Scope {
	if lookup(claims, i.cfg.ScopeClaim) == nil {
		return []control.Scope{control.ScopeRead}
	}
	var out []control.Scope
	for _, w := range words(claims, i.cfg.ScopeClaim, true) {
		name, ours := strings.CutPrefix(w, i.cfg.ScopePrefix)
		if s, err := control.ParseScope(name); ours && err == nil {
			out = append(out, s)
		}
	}
	return out
}

// lookup is a claim; its name leads through objects by dots, unless a claim has that very name.
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

// words are the texts of a claim: a text, in which blanks part several if split is set, or a list of texts.
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
