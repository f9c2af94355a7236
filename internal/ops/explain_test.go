package ops_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"binnacle/internal/ops"
	"binnacle/internal/ops/queryclient"

	"github.com/stretchr/testify/require"
)

// What is explained is asked as it is given, PromQL or a path, with the tenant and the credential.
func TestExplainRequest(t *testing.T) {
	var asked *http.Request
	status, body := 200, `{"seconds":0.0123,"reads":[{"metrics":["velocity"],"from":"A","to":"B","how":"2 prefix queries",
		"estimated":{"request_units":5,"documents":0,"scans":2,"guessed":true},
		"charged":{"request_units":12.34,"documents":3,"keys":2,"containers":1,"head_rows":9,"cached":4},
		"scans":[{"operation":"scan","container":"chunks-2026-11","tenant_shard":"acme~4r","from":"A","to":"B","stored_since":"C","documents":3,
		"request_units":9.84},{"container":"chunks-2026-11","tenant_shard":"acme~ab","devices":7,"from":"A","to":"B",
		"documents":0,"request_units":2.5}]}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	explain := func(cfg ops.ExplainConfig) (string, error) {
		cfg.At, cfg.Timeout = server.URL, time.Minute
		var out bytes.Buffer
		err := cfg.Run(t.Context(), ops.Env{Stdout: &out})
		return out.String(), err
	}
	out, err := explain(ops.ExplainConfig{Query: "avg(velocity)", Querier: queryclient.Querier{Tenant: "acme"}})
	require.NoError(t, err)
	require.Equal(t, "/prometheus/api/v1/query?explain=true&query=avg%28velocity%29", asked.URL.String())
	require.Equal(t, "acme", asked.Header.Get("X-Scope-OrgID"))
	for _, want := range []string{
		"A to B", "all devices", "velocity", "2 prefix queries", "5.0 RU, 0 documents, 2 scans, and",
		"12.3 RU, 3 documents, 2 keys in 1 containers", "4 documents", "9 rows", "scan  ", "acme~4r", "7 named",
		"answered in 12ms"} {
		require.Contains(t, out, want)
	}
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("secret\n"), 0o600))
	_, err = explain(ops.ExplainConfig{Query: "x", Querier: queryclient.Querier{TokenFile: token},
		Time: "2026-11-20T12:00:00Z", Range: time.Hour,
		Step: time.Minute})
	require.NoError(t, err)
	require.Equal(t, "/prometheus/api/v1/query_range", asked.URL.Path)
	require.Equal(t, "explain=true&end=2026-11-20T12%3A00%3A00Z&query=x&start=2026-11-20T11%3A00%3A00Z&step=60",
		"explain=true&"+withoutFirst(asked, "explain"))
	require.Equal(t, "Bearer secret", asked.Header.Get("Authorization"))
	out, err = explain(ops.ExplainConfig{Query: "/api/v1/readings?device=a%2Fb&device=c", JSON: true})
	require.NoError(t, err)
	require.Equal(t, "/api/v1/readings?device=a%2Fb&device=c&explain=true", asked.URL.String())
	require.Equal(t, body, out)
	status = 401
	_, err = explain(ops.ExplainConfig{Query: "x"})
	require.ErrorContains(t, err, "401")
}

func withoutFirst(r *http.Request, name string) string {
	values := r.URL.Query()
	values.Del(name)
	return values.Encode()
}
