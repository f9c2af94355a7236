package httpapi_test

import (
	"encoding/json"
	"testing"

	"binnacle/internal/tenant"
	"binnacle/query"
	"binnacle/query/httpapi"

	"github.com/stretchr/testify/require"
)

// A credential learns its tenant's name, what bounds it, and where devices publish where the service says that.
func TestTenant(t *testing.T) {
	s := newServer(t, func(q *query.Config, c *httpapi.Config) {
		q.Limits = tenant.QueryLimits{Rate: 50, Samples: tenant.Unbounded}
		c.Publish = &httpapi.Publishing{Kafka: "127.0.0.1:9092", Topic: "telemetry"}
	})
	s.fill()
	require.JSONEq(t, `{"tenant":"acme","known":true,"limits":{"query-rate":50},"used":{"query-rate":0},
		"publish":{"kafka":"127.0.0.1:9092","topic":"telemetry"}}`, s.get(t, "/api/v1/tenant").body)
	require.Equal(t, 400, s.get(t, "/api/v1/tenant?metric=m1").status)

	var explained struct{ Retention []string }
	require.NoError(t, json.Unmarshal([]byte(s.get(t, "/api/v1/tenant?device=m1").body), &explained))
	require.Len(t, explained.Retention, 3)
	require.Equal(t, "The class of the device is default=forever.", explained.Retention[0])

	var silent struct{ Publish *httpapi.Publishing }
	other := newServer(t, func(*query.Config, *httpapi.Config) {})
	require.NoError(t, json.Unmarshal([]byte(other.get(t, "/api/v1/tenant").body), &silent))
	require.Nil(t, silent.Publish)
}
