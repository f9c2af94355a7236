package httpapi

import (
	"maps"
	"net/http"
)

// Publishing is where devices of this deployment publish.
type Publishing struct {
	Kafka string `json:"kafka"` // host and port
	Topic string `json:"topic"`
}

// tenant answers which tenant a credential is for, and what bounds it.
func (a *api) tenant(w *response, r *http.Request, tenant string) error {
	if p := parse(r, nil); p.err != nil {
		return p.err
	}
	w.begin("application/json")
	if r.Method == http.MethodHead {
		return nil
	}
	stored, known := a.cfg.Querier.Tenant(tenant)
	limits := a.cfg.Querier.Limits(tenant).Bounds()
	if stored.Ingest != nil {
		maps.Copy(limits, stored.Ingest.Bounds())
	}
	return encode(w, struct {
		Tenant  string         `json:"tenant"`
		Known   bool           `json:"known"`
		Limits  map[string]any `json:"limits"`
		Publish *Publishing    `json:"publish,omitempty"`
	}{tenant, known, limits, a.cfg.Publish})
}
