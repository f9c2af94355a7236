package httpapi_test

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"binnacle/query/httpapi"

	"github.com/stretchr/testify/require"
)

// Whatever stands behind the ?, the answer is one that the client can read, or a problem that is its own.
func FuzzQueryStrings(f *testing.F) {
	for _, s := range []string{
		"", "device=m1&metric=temp", "from=-1d12h&to=now", "from=1795174200000", "from=2026-11-20T11:30:00.5+01:00",
		"to=-9223372036854775808",
		"format=csv&layout=long&limit=1", "format=ndjson&order=desc", "strict=true&timeout=1ms", "from=-1e9d", "from=-.d",
		"limit=%31", "a;b", "%", "from=now&from=now",
	} {
		f.Add(s)
	}
	s := newServer(f, nil)
	s.fill()
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/readings", nil)
		r.RemoteAddr = "127.0.0.1:1"
		r.URL.RawQuery = query
		r.Header.Set(httpapi.TenantHeader, "acme")
		w := httptest.NewRecorder()
		s.Config.Handler.ServeHTTP(w, r)
		body := w.Body.String()
		switch given, _ := url.ParseQuery(query); {
		case w.Code == http.StatusBadRequest:
			parseProblem(t, answer{status: w.Code, header: w.Header(), body: body})
		case w.Code == http.StatusGatewayTimeout && given.Has("timeout"):
			parseProblem(t, answer{status: w.Code, header: w.Header(), body: body})
		case w.Code != http.StatusOK:
			t.Fatalf("status %d: %s", w.Code, body)
		case given.Get("format") == "csv":
			_, err := csv.NewReader(strings.NewReader(body)).ReadAll()
			require.NoError(t, err)
		default:
			for line := range strings.Lines(body) {
				require.True(t, given.Get("format") != "ndjson" || json.Valid([]byte(line)), line)
			}
			require.True(t, given.Get("format") == "ndjson" || json.Valid([]byte(body)), body)
		}
	})
}
