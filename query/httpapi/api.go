// Package httpapi serves queries over HTTP: readings, aggregates and latest values as JSON, NDJSON or CSV, lists of
// devices and metrics, and what was refused. The interface is documented for its users in docs/reference/api.md.
//
// It knows how requests and answers look on the wire, and nothing of where readings are kept.
package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"binnacle/internal/settings"
	"binnacle/internal/store"
	"binnacle/internal/tenant"
	"binnacle/internal/tenant/access"
	"binnacle/query"

	"github.com/klauspost/compress/gzhttp"
)

// TenantHeader names the tenant of a request.
const TenantHeader = access.TenantHeader

// Config is what the API needs. Only Querier has no default.
type Config struct {
	Querier   *query.Querier
	Rejected  Rejected    // lists dead letters; nil leaves /api/v1/rejected and gaps out
	Cost      Coster      // bills of tenants; nil leaves /api/v1/cost out
	Publish   *Publishing // shown by /api/v1/tenant; nil: not shown
	Operators string      // address of the page of operators that /api/v1/tenant names; empty: none
	Sequence  string      // metric that has the numbers of devices' messages; empty: none
	// Annotations of tenants; nil leaves /api/v1/annotations out.
	Annotations *tenant.Annotations
	Gate        *access.Gate     // nil: callers on this machine may name any tenant, all others are denied
	Now         func() time.Time // time.Now
	// SpoolBytes is how many compressed bytes of rows a wide CSV may hold back until its columns are known.
	SpoolBytes   int64         `default:"256" type:"mib"`
	WriteTimeout time.Duration `default:"30s"` // for each 64 KB of an answer
	Logger       *slog.Logger  // none
}

// api answers requests. It is safe for any number of them.
type api struct {
	cfg     Config
	packer  packer
	changes changeLimits
}

// New makes the handler of everything under /api/v1/; any other path is a 404.
func New(cfg Config) (http.Handler, error) {
	if cfg.Querier == nil {
		return nil, errors.New("httpapi: Querier is missing")
	}
	settings.Defaults(&cfg)
	packer, err := newPacker()
	if err != nil {
		return nil, fmt.Errorf("httpapi: %w", err)
	}
	a := &api{cfg: cfg, packer: packer}
	compress, err := gzhttp.NewWrapper(gzhttp.MinSize(1024), gzhttp.CompressionLevel(1),
		gzhttp.ContentTypeFilter(compresses))
	if err != nil {
		return nil, fmt.Errorf("httpapi: %w", err)
	}
	mux := http.NewServeMux()
	for _, route := range a.routes() {
		mux.HandleFunc(route.path, a.serve(route))
	}
	mux.HandleFunc("/api/v1/openapi.json", serveOpenAPI)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, problem{Status: http.StatusNotFound, Detail: fmt.Sprintf(
			"no such endpoint: %.200s (see /api/v1/openapi.json)", r.URL.Path)})
	})
	return compress(mux), nil
}

// endpoint answers a request of a tenant. What it returns becomes a problem, or breaks off the answer once it has
// begun.
type endpoint func(w *response, r *http.Request, tenant string) error

// serve checks the method and the tenant and turns an error into what the client sees of it.
func (a *api) serve(to route) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		w := newResponse(rw, a.cfg.WriteTimeout)
		defer w.release()
		w.spent, w.unsent = &store.Meter{}, isUnsent(r.Context())
		r = r.WithContext(store.WithMeter(r.Context(), w.spent))
		if !slices.Contains(to.methods, r.Method) {
			rw.Header().Set("Allow", strings.Join(to.methods, ", "))
			detail := fmt.Sprintf("method %.20s is not allowed here; allowed are %s", r.Method, strings.Join(to.methods, ", "))
			w.fail(problem{Status: http.StatusMethodNotAllowed, Detail: detail})
			return
		}
		caller, err := a.cfg.Gate.Caller(r)
		if err == nil {
			err = to.allows(r.Method, caller)
		}
		tenant := caller.Tenant
		if err == nil && r.URL.Path != tenantPath {
			err = CheckSuspended(a.cfg.Querier, tenant)
		}
		if err == nil {
			r, err = After(r)
		}
		if err == nil {
			LimitBodyTime(rw, r)
			r = r.WithContext(context.WithValue(Charged(r, caller, r.URL.RawQuery), callerKey{}, caller))
			if err = to.serve(w, r, tenant); err == nil {
				err = w.finish()
			}
		}
		if err == nil || r.Context().Err() != nil {
			return // answered, or the client has gone
		}
		p := problemOf(err)
		if w.broken != nil {
			a.cfg.Logger.Warn("answer aborted: the client does not read it",
				"path", r.URL.Path, "tenant", tenant, "error", w.broken)
		} else {
			LogFailure(a.cfg.Logger.With("path", r.URL.Path, "tenant", tenant), p.Status, err)
		}
		w.fail(*p)
	}
}

// CheckSuspended returns an error if an operator has suspended a tenant: it answers no query.
func CheckSuspended(q *query.Querier, tenant string) error {
	t, _ := q.Tenant(tenant)
	if t.Suspended == nil {
		return nil
	}
	return &access.Denied{Status: http.StatusForbidden, Header: "X-Scope-OrgID",
		Detail: fmt.Sprintf("tenant %s is suspended since %s: %s", tenant, t.Suspended.Since.Format(time.RFC3339),
			t.Suspended.Reason)}
}
