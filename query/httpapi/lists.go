package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"

	"binnacle/query"
)

// defaultListLimit is how many devices or metrics a list has unless limit says otherwise.
const defaultListLimit = 1000

var listParameters = []string{"prefix", "limit"}

// device is query.Device on the wire.
type device struct {
	Device  string            `json:"device"`
	Tags    map[string]string `json:"tags"`
	Metrics []string          `json:"metrics"`
	First   int64             `json:"first"`
	Last    int64             `json:"last"`
}

// metric is query.Metric on the wire.
type metric struct {
	Metric  string   `json:"metric"`
	Types   []string `json:"types"`
	Devices int      `json:"devices"`
}

func (a *api) devices(w *response, r *http.Request, tenant string) error {
	p := parse(r, listParameters)
	limit := p.count("limit", defaultListLimit)
	if p.err != nil {
		return p.err
	}
	w.begin("application/json")
	if r.Method == http.MethodHead {
		return nil
	}
	found, truncated, err := a.cfg.Querier.Devices(r.Context(), tenant, p.values.Get("prefix"), limit)
	if err != nil {
		return err
	}
	out := make([]device, len(found))
	for i, d := range found {
		out[i] = deviceOf(d)
	}
	return encode(w, struct {
		Devices   []device `json:"devices"`
		Truncated bool     `json:"truncated"`
	}{out, truncated})
}

func deviceOf(d query.Device) device {
	tags := d.Tags.Map()
	if tags == nil {
		tags = map[string]string{}
	}
	return device{d.Device, tags, append([]string{}, d.Metrics...), d.First, d.Last}
}

func (a *api) metrics(w *response, r *http.Request, tenant string) error {
	p := parse(r, listParameters)
	limit := p.count("limit", defaultListLimit)
	if p.err != nil {
		return p.err
	}
	w.begin("application/json")
	if r.Method == http.MethodHead {
		return nil
	}
	found, truncated, err := a.cfg.Querier.Metrics(r.Context(), tenant, p.values.Get("prefix"), limit)
	if err != nil {
		return err
	}
	out := make([]metric, len(found))
	for i, m := range found {
		out[i] = metric(m)
	}
	return encode(w, struct {
		Metrics   []metric `json:"metrics"`
		Truncated bool     `json:"truncated"`
	}{out, truncated})
}

func encode(w *response, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encode list: %w", err)
	}
	return nil
}
