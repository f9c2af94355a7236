package httpapi_test

import (
	"testing"
	"time"

	"binnacle/internal/control"

	"github.com/stretchr/testify/require"
)

func (s server) catalog(t *testing.T, d control.Device) {
	t.Helper()
	_, err := s.world.Catalog.Write(t.Context(), d)
	require.NoError(t, err)
}

func TestDevices(t *testing.T) {
	s := newServer(t, nil)
	s.fill()
	s.catalog(t, control.Device{
		Tenant: "acme", Device: "m1", Tags: map[string]string{"site": "<nord>"}, First: 5,
		Last:    noon.Add(-20 * time.Minute).UnixMilli(),
		Metrics: map[string][]string{"temp": {"float"}, "n": {"int"}, "ok": {"bool"}},
	})
	s.catalog(t, control.Device{Tenant: "acme", Device: "m3", First: 1, Last: 2,
		Metrics: map[string][]string{"temp": {"int"}}})
	s.catalog(t, control.Device{Tenant: "globex", Device: "m4", First: 1, Last: 2,
		Metrics: map[string][]string{"temp": {"int"}}})
	const m1 = `{"device":"m1","tags":{"site":"<nord>"},"metrics":["hot","n","ok","temp"],"first":5,"last":1795175400000}`
	const m2 = `{"device":"m2","tags":{},"metrics":["hot","msg","none","temp"],"first":1795175699500,"last":1795175699500}`
	const m3 = `{"device":"m3","tags":{},"metrics":["temp"],"first":1,"last":2}`
	for path, want := range map[string]string{
		"":                    `{"devices":[` + m1 + "," + m2 + "," + m3 + `],"truncated":false}`,
		"?limit=2":            `{"devices":[` + m1 + "," + m2 + `],"truncated":true}`,
		"?limit=1":            `{"devices":[` + m1 + `],"truncated":true}`,
		"?limit=3":            `{"devices":[` + m1 + "," + m2 + "," + m3 + `],"truncated":false}`,
		"?prefix=m2":          `{"devices":[` + m2 + `],"truncated":false}`,
		"?prefix=m&limit=2":   `{"devices":[` + m1 + "," + m2 + `],"truncated":true}`,
		"?prefix=none":        `{"devices":[],"truncated":false}`,
		"?prefix=m3&limit=10": `{"devices":[` + m3 + `],"truncated":false}`,
	} {
		a := s.get(t, "/api/v1/devices"+path)
		require.Equal(t, 200, a.status)
		require.Equal(t, want+"\n", a.body, path)
	}
}

func TestMetrics(t *testing.T) {
	s := newServer(t, nil)
	s.fill()
	s.catalog(t, control.Device{
		Tenant: "acme", Device: "m1", First: 5, Last: 6, Metrics: map[string][]string{"temp": {"float"}, "n": {"int"},
			"ok": {"bool"}},
	})
	s.catalog(t, control.Device{Tenant: "acme", Device: "m3", First: 1, Last: 2,
		Metrics: map[string][]string{"temp": {"int", "text"}}})
	s.catalog(t, control.Device{Tenant: "globex", Device: "m4", First: 1, Last: 2,
		Metrics: map[string][]string{"other": {"int"}}})
	for path, want := range map[string]string{
		"": `{"metrics":[{"metric":"hot","types":["float"],"devices":2},{"metric":"msg","types":["text"],"devices":1},` +
			`{"metric":"n","types":["int"],"devices":1},{"metric":"none","types":["text"],"devices":1},` +
			`{"metric":"ok","types":["bool"],"devices":1},{"metric":"temp","types":["float","int","text"],"devices":3}],"truncated":false}`,
		"?prefix=n":         `{"metrics":[{"metric":"n","types":["int"],"devices":1},{"metric":"none","types":["text"],"devices":1}],"truncated":false}`,
		"?prefix=n&limit=1": `{"metrics":[{"metric":"n","types":["int"],"devices":1}],"truncated":true}`,
		"?prefix=x":         `{"metrics":[],"truncated":false}`,
	} {
		a := s.get(t, "/api/v1/metrics"+path)
		require.Equal(t, 200, a.status)
		require.Equal(t, want+"\n", a.body, path)
	}
}
