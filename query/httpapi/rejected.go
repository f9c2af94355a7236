package httpapi

import (
	"context"
	"net/http"

	"binnacle/internal/settings"
	"binnacle/internal/telemetry"
	"binnacle/query/diagnose/gaps"
	"binnacle/query/diagnose/rejected"
)

// Rejected knows what was refused. It is safe for any number of callers.
type Rejected interface {
	Rejected(q rejected.Request) rejected.Answer
	Steps(tenant string, r telemetry.Range, step int64) (by map[string]map[int]bool, incomplete string)
	Of(tenant, device string, r telemetry.Range) (all []gaps.Refusal, nameless []int64, incomplete string)
}

const (
	defaultSamples = 5
	maxSamples     = 100
)

var rejectedParameters = []string{"reason", "device", "from", "to", "samples"}

// admit runs what a tenant asks of more than the querier; operators are not held to any tenant's limits.
func (a *api) admit(ctx context.Context, tenant string, run func(context.Context) error) error {
	if tenant == "" {
		return run(ctx)
	}
	return a.cfg.Querier.Admit(ctx, tenant, run)
}

// rejected answers what was refused of a tenant's readings, of all readings where the tenant is empty.
func (a *api) rejected(w *response, r *http.Request, tenant string) error {
	p := parse(r, rejectedParameters, "reason")
	if r.Header.Get(AfterHeader) != "" {
		p.fail(AfterHeader, "is for accepted records, not for refused ones")
	}
	now := a.cfg.Now()
	q := rejected.Request{Tenant: tenant, Reasons: p.names("reason"),
		Samples: p.count("samples", defaultSamples)}
	q.Range = p.lastDay(now, clamp(now)+1)
	if device := p.values.Get("device"); device != "" {
		q.Devices = []string{device}
	}
	if q.Samples > maxSamples {
		p.fail("samples", "%d; at most %d", q.Samples, maxSamples)
	}
	if done, err := w.beginJSON(p); done {
		return err
	}
	var found rejected.Answer
	look := func(context.Context) error {
		found = a.cfg.Rejected.Rejected(q)
		return nil
	}
	if err := a.admit(r.Context(), tenant, look); err != nil {
		return err
	}
	return encode(w, found)
}

// AllRejected answers for all tenants, and for dead letters without a tenant. Only operators may reach it.
func AllRejected(cfg Config) http.HandlerFunc {
	settings.Defaults(&cfg)
	a := &api{cfg: cfg}
	return func(rw http.ResponseWriter, r *http.Request) {
		w := newResponse(rw, cfg.WriteTimeout)
		err := a.rejected(w, r, "")
		if err == nil {
			err = w.finish()
		}
		if err != nil {
			w.fail(*problemOf(err))
		}
	}
}
