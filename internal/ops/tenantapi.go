package ops

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"binnacle/internal/cosmos"
	"binnacle/internal/kafka"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/internal/text/duration"
	"binnacle/internal/wire/jsonbody"
	"binnacle/query/httpapi"
)

// Paths at the admin listener of a querier: tenants, and what a month costs.
const (
	TenantsPath = "/api/v1/tenants"
	CostsPath   = "/api/v1/costs"

	certificatePattern = "GET " + TenantsPath + "/{tenant}/erasures/{order}/certificate"
)

// maxAdminBody bounds what an operator sends, in bytes.
const maxAdminBody = 64 << 10

// TenantAPI serves over HTTP what `binnacle tenant` does.
type TenantAPI struct {
	Docs store.Documents
	// Via names the process in the record of actions.
	Via string
	Log *slog.Logger

	// Client is the account's; erasures need it.
	Client *cosmos.Client
	// Cluster is that which readings come from.
	Cluster *kafka.Client
}

type tenantRequest struct {
	*http.Request
	tenantOperator
	tenant string
	api    TenantAPI
	who    string
}

// tenantEndpoint answers a request with a status and a body for JSON, or with an error.
type tenantEndpoint func(r tenantRequest) (status int, body any, err error)

func tenantEndpoints() map[string]tenantEndpoint {
	const one = TenantsPath + "/{tenant}"
	return map[string]tenantEndpoint{
		"GET " + TenantsPath:                     tenantRequest.list,
		"POST " + TenantsPath:                    tenantRequest.create,
		"GET " + one:                             tenantRequest.show,
		"PATCH " + one:                           tenantRequest.patch,
		"POST " + one + "/move":                  tenantRequest.moveTenant,
		"POST " + one + "/erase":                 tenantRequest.erase,
		"GET " + one + "/erasures":               tenantRequest.showErasures,
		certificatePattern:                       tenantRequest.showCertificate,
		"GET " + one + "/retention":              tenantRequest.showRetention,
		"POST " + one + "/retention/confirm":     tenantRequest.confirmRetention,
		"POST " + one + "/suspend":               tenantRequest.suspendTenant,
		"POST " + one + "/resume":                tenantRequest.resumeTenant,
		"GET " + one + "/tokens":                 tenantRequest.showTokens,
		"POST " + one + "/tokens":                tenantRequest.createToken,
		"POST " + one + "/tokens/{token}/revoke": tenantRequest.revoke,
	}
}

// Register adds the endpoints to the mux of operators, and returns their patterns. A web page of another site must not
// have a browser call them.
func (a TenantAPI) Register(mux *http.ServeMux) (patterns []string) {
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		httpapi.Refuse(w, http.StatusForbidden, "a web page of another site may not do this")
	}))
	for pattern, serve := range tenantEndpoints() {
		mux.Handle(pattern, guard.Handler(a.endpoint(serve)))
		patterns = append(patterns, pattern)
	}
	return patterns
}

func (a TenantAPI) endpoint(serve tenantEndpoint) Endpoint {
	return func(r *http.Request) (int, any, error) {
		r.Body = http.MaxBytesReader(nil, r.Body, maxAdminBody)
		who := "operator"
		if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
			who += " at " + host
		}
		name := r.PathValue("tenant")
		if err := telemetry.CheckTenant(name); name != "" && err != nil {
			return 0, nil, fmt.Errorf("%w: %w", tenant.ErrNoTenant, err)
		}
		who += " by " + a.Via
		o := newTenantOperator(a.Docs, who, a.Log)
		if a.Client != nil {
			o = o.on(a.Client)
		}
		if name != "" {
			if err := o.check(r.Context(), name); err != nil {
				return 0, nil, err
			}
		}
		return serve(tenantRequest{r, o, name, a, who})
	}
}

func (r tenantRequest) body(into any) error {
	if err := jsonbody.Read(r.Body, into); err != nil {
		return unfit("the body is not the JSON that is asked for: %w", err)
	}
	return nil
}

// changed returns a tenant as it is after a change, and what that hides.
func (r tenantRequest) changed(hides []string, err error) (int, any, error) {
	body, err := r.outcome(r.Context(), r.tenant, hides, err)
	return http.StatusOK, body, err
}

func (r tenantRequest) list() (int, any, error) {
	infos, err := r.infos(r.Context(), "")
	return http.StatusOK, map[string]any{"tenants": infos}, err
}

func (r tenantRequest) show() (int, any, error) { return r.changed(nil, nil) }

func (r tenantRequest) create() (int, any, error) {
	var body struct{ Tenant, Retention string }
	if err := r.body(&body); err != nil {
		return 0, nil, err
	}
	var retention time.Duration
	if body.Retention != "" && body.Retention != "forever" {
		var err error
		if retention, err = duration.Parse(body.Retention); err != nil || retention < time.Second {
			return 0, nil, unfit("a retention of %q is neither forever nor a duration such as 400d", body.Retention)
		}
	}
	added, err := r.outcome(r.Context(), body.Tenant, nil, r.add(r.Context(), body.Tenant, retention))
	return http.StatusCreated, added, err
}

func (r tenantRequest) patch() (int, any, error) {
	var body struct {
		Settings map[string]any
		Tags     map[string]string
		confirmedBody
	}
	if err := r.body(&body); err != nil {
		return 0, nil, err
	}
	changes, err := tenant.TagChanges(body.Tags)
	if err != nil {
		return 0, nil, unfitError{err}
	}
	for _, name := range slices.Sorted(maps.Keys(body.Settings)) {
		switch body.Settings[name].(type) {
		case string, json.Number:
		default:
			return 0, nil, unfit("%s: a string or a number is needed", name)
		}
		more, err := tenant.Setting{Name: name, Value: fmt.Sprint(body.Settings[name])}.Changes(time.Now)
		if err != nil {
			return 0, nil, unfitError{err}
		}
		changes = append(changes, more...)
	}
	if len(changes) == 0 {
		return 0, nil, unfit("nothing to set: the body needs settings or tags")
	}
	return r.changed(r.set(r.Context(), r.tenant, changes, body.consent(r.tenant)))
}

func (r tenantRequest) suspendTenant() (int, any, error) {
	var body struct{ Reason string }
	if err := r.body(&body); err != nil {
		return 0, nil, err
	}
	return r.changed(nil, r.suspend(r.Context(), r.tenant, body.Reason))
}

func (r tenantRequest) resumeTenant() (int, any, error) {
	return r.changed(nil, r.resume(r.Context(), r.tenant))
}

func (r tenantRequest) showTokens() (int, any, error) {
	all, err := r.listTokens(r.Context(), r.tenant)
	return http.StatusOK, map[string]any{"tokens": all}, err
}

func (r tenantRequest) createToken() (int, any, error) {
	var body struct {
		Scopes        []tenant.Scope
		Expires, Note string
	}
	if err := r.body(&body); err != nil {
		return 0, nil, err
	}
	if body.Scopes == nil {
		body.Scopes = []tenant.Scope{tenant.ScopeRead}
	}
	t := tenant.Token{Tenant: r.tenant, Scopes: body.Scopes, Note: body.Note}
	secret, info, err := r.addToken(r.Context(), t, body.Expires)
	if secret == "" {
		return 0, nil, err
	}
	info.Secret = secret // also where it was not stored that it is done: the token is good
	return http.StatusCreated, info, nil
}

func (r tenantRequest) revoke() (int, any, error) {
	if err := r.revokeToken(r.Context(), r.tenant, r.PathValue("token")); err != nil {
		return 0, nil, err
	}
	return r.showTokens()
}
