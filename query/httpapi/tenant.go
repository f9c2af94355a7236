package httpapi

import (
	"maps"
	"net/http"

	"binnacle/internal/telemetry"
)

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
