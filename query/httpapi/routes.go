package httpapi

import (
	"context"
	_ "embed"
	"maps"
	"net/http"

	"binnacle/internal/charges"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/internal/tenant/access"
)

// route is an endpoint: openapi.json describes it.
type route struct {
	path       string
	methods    []string
	parameters []string
	serve      endpoint
	writes     bool // methods that ask nothing change something
}

// allows returns an error if a caller may not use a method of the endpoint.
func (to route) allows(method string, caller access.Caller) error {
	denied := func(what string) error {
		return &access.Denied{Status: http.StatusForbidden, Detail: "this credential may not " + what,
			Header: "Authorization"}
	}
	switch {
	case to.writes && (method == http.MethodPost || method == http.MethodDelete):
		if !mayWrite(caller) {
			return denied("write: it needs the scope write or admin")
		}
	case !caller.May(tenant.ScopeRead):
		return denied("read")
	}
	return nil
}

// mayWrite reports whether a caller may change what users of a tenant keep.
func mayWrite(c access.Caller) bool { return c.May(tenant.ScopeWrite) || c.May(tenant.ScopeAdmin) }

var (
	aggregatesParameters = []string{"device", "metric", "from", "to", "step", "align", "tz", "closed", "aggregate", "by",
		"fill", "limit", "format", "strict", "timeout", "as_of"}
	latestParameters = []string{"device", "metric", "from", "to", "limit", "format", "strict", "timeout", "as_of"}
	tenantParameters = []string{"device"}
	costParameters   = []string{"month"}
	diffParameters   = []string{"device", "metric", "from", "to", "since", "until", "change", "limit", "format", "timeout"}
)

// routes returns the routes under /api/v1/.
func (a *api) routes() []route {
	read := []string{http.MethodGet, http.MethodHead}
	ask := []string{http.MethodGet, http.MethodHead, http.MethodPost}
	routes := []route{
		{"/api/v1/readings", ask, readingsParameters, a.readings, false},
		{"/api/v1/aggregates", ask, aggregatesParameters, a.aggregates, false},
		{"/api/v1/latest", ask, latestParameters, a.latest, false},
		{"/api/v1/diff", ask, diffParameters, a.diff, false},
		{tenantPath, read, tenantParameters, a.tenant, false},
		{"/api/v1/devices", read, devicesParameters, a.devices, false},
		{"/api/v1/devices/facets", read, facetsParameters, a.facets, false},
		{"/api/v1/metrics", read, metricsParameters, a.metrics, false},
		{"/api/v1/cardinality", read, cardinalityParameters, a.cardinality, false},
	}
	if a.cfg.Cost != nil {
		routes = append(routes, route{costPath, read, costParameters, a.cost, false})
	}
	if a.cfg.Rejected != nil {
		routes = append(routes, route{"/api/v1/rejected", read, rejectedParameters, a.rejected, false},
			route{"/api/v1/gaps", read, gapsParameters, a.gaps, false},
			route{"/api/v1/attendance", read, attendanceParameters, a.attendance, false})
	}
	if a.cfg.Annotations != nil {
		routes = append(routes, route{"/api/v1/annotations", []string{http.MethodGet, http.MethodHead, http.MethodPost,
			http.MethodDelete}, annotationsParameters, a.annotations, true})
	}
	return routes
}

// openAPI describes the routes. It is held against them by a test.
//
//go:embed openapi.json
var openAPI []byte

// serveOpenAPI needs no credential: the document has nothing of a tenant in it.
func serveOpenAPI(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		writeProblem(w, problem{Status: http.StatusMethodNotAllowed, Detail: "allowed are GET and HEAD"})
		return
	}
	w.Header().Set("Content-Type", "application/vnd.oai.openapi+json;version=3.1")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(openAPI) // an error means that the client has gone
}

// Publishing is where devices of this deployment publish.
type Publishing struct {
	Kafka string `json:"kafka"` // host and port
	Topic string `json:"topic"`
}

// tenantPath is answered for a suspended tenant, too.
const tenantPath = "/api/v1/tenant"

// tenant answers which tenant a credential is for, and what bounds it.
func (a *api) tenant(w *response, r *http.Request, tenant string) error {
	p := parse(r, tenantParameters)
	device := p.values.Get("device")
	if err := telemetry.CheckDevice(device); p.values.Has("device") && err != nil {
		p.fail("device", "%v", err)
	}
	if done, err := w.beginJSON(p); done {
		return err
	}
	stored, known := a.cfg.Querier.Tenant(tenant)
	limits := a.cfg.Querier.Limits(tenant).Bounds()
	if stored.Ingest != nil {
		maps.Copy(limits, stored.Ingest.Bounds())
	}
	var suspended string
	if err := CheckSuspended(a.cfg.Querier, tenant); err != nil {
		suspended = err.Error()
	}
	var retention []string
	if device != "" && known {
		retention = stored.ExplainRetention(device, a.cfg.Now().UnixMilli())
	}
	return encode(w, struct {
		Tenant string         `json:"tenant"`
		Known  bool           `json:"known"`
		Limits map[string]any `json:"limits"`

		Used map[string]float64 `json:"used,omitempty"`

		DisplayName string            `json:"display_name,omitempty"`
		Contact     string            `json:"contact,omitempty"`
		Tags        map[string]string `json:"tags,omitempty"`

		Suspended string      `json:"suspended,omitempty"`
		Retention []string    `json:"retention,omitempty"`
		Publish   *Publishing `json:"publish,omitempty"`
		Operators string      `json:"operators,omitempty"`
	}{tenant, known, limits, a.cfg.Querier.Used(tenant), stored.DisplayName, stored.Contact, stored.Tags,
		suspended, retention, a.cfg.Publish, a.cfg.Operators})
}

// costPath is what a month costs the tenant of a credential.
const costPath = "/api/v1/cost"

// Coster returns what a month costs a tenant.
type Coster func(ctx context.Context, tenant string, month charges.Month) (charges.TenantCost, error)

func (a *api) cost(w *response, r *http.Request, tenant string) error {
	p := parse(r, costParameters)
	month, err := charges.ParseMonth(p.values.Get("month"), a.cfg.Now())
	if err != nil {
		p.fail("month", "%v", err)
	}
	if done, err := w.beginJSON(p); done {
		return err
	}
	var body charges.TenantCost
	err = a.admit(r.Context(), tenant, func(ctx context.Context) (err error) {
		body, err = a.cfg.Cost(ctx, tenant, month)
		return err
	})
	if err != nil {
		return err
	}
	w.showSpent()
	return encode(w, body)
}
