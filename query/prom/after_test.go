package prom_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/tenant/access"
	"binnacle/query"
	"binnacle/query/prom"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// A query includes the records that it is asked to, whichever of its selectors reads them, or is an error in time.
func TestQueryIncludesRequiredRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := querytest.New(t, noon)
		w.Log.Set(100)
		w.Tenant("acme")
		now := func() time.Time { return w.Now }
		q, err := query.New(query.Config{Reader: w.Store, Heads: w.Heads, Log: w.Log, Directory: w.Directory,
			Catalog: w.Catalog, Now: now})
		require.NoError(t, err)
		h, err := prom.New(prom.Config{Querier: q, Now: now})
		require.NoError(t, err)
		path := "query?query=x%2Bx&time=1795176000"
		ask := func(after string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet,
				"http://127.0.0.1:1/prometheus/api/v1/"+path, nil)
			r.RemoteAddr = "127.0.0.1:2"
			r.Header.Set(access.TenantHeader, "acme")
			r.Header.Set("X-Binnacle-After", after)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		w.Heads.Set(store.PartitionHead{Stream: 1, Position: 5})
		require.Equal(t, 200, ask("telemetry/0/4").Code)
		late := ask("telemetry/0/5")
		require.Equal(t, http.StatusGatewayTimeout, late.Code)
		require.Contains(t, late.Body.String(), "partition telemetry/0 is read to offset 5 of 6")
		require.Equal(t, 400, ask("telemetry").Code)
		require.Equal(t, 400, ask("telemetry/1/0").Code)
		time.AfterFunc(time.Second, func() { w.Heads.Set(store.PartitionHead{Stream: 1, Position: 6}) })
		require.Equal(t, 200, ask("telemetry/0/5").Code)
		for _, path = range []string{"labels", "label/device/values", "series?match[]=x"} { // from the catalog
			require.Equal(t, 200, ask("telemetry/0/5").Code)
			require.Equal(t, http.StatusGatewayTimeout, ask("telemetry/0/6").Code, path)
		}
	})
}
