package httpapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"binnacle/query/httpapi"

	"github.com/stretchr/testify/require"
)

// connection is one whose deadline for reading is looked at.
type connection struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
}

func (c *connection) SetReadDeadline(at time.Time) error {
	c.deadlines = append(c.deadlines, at)
	return nil
}

// A body must come in time; when it is there, the request may take longer. What has no body has all the time.
func TestBodyTimeout(t *testing.T) {
	c := &connection{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequest(http.MethodPost, "/api/v1/readings", strings.NewReader("device=m1"))
	httpapi.LimitBodyTime(c, r)
	require.Len(t, c.deadlines, 1)
	require.False(t, c.deadlines[0].IsZero())
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.Equal(t, "device=m1", string(body))
	require.Len(t, c.deadlines, 2)
	require.True(t, c.deadlines[1].IsZero())
	httpapi.LimitBodyTime(c, httptest.NewRequest(http.MethodGet, "/api/v1/readings", nil))
	require.Len(t, c.deadlines, 2)
}

// It holds for forms.
func TestFormTimeout(t *testing.T) {
	s := newServer(t, nil)
	s.fill()
	c := &connection{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequest(http.MethodPost, "/api/v1/readings", strings.NewReader("device=m1"))
	r.RemoteAddr = "127.0.0.1:5"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set(httpapi.TenantHeader, "acme")
	s.Config.Handler.ServeHTTP(c, r)
	require.Equal(t, 200, c.Code, c.Body)
	require.Len(t, c.deadlines, 2)
	require.True(t, c.deadlines[1].IsZero())
}

// It holds for a request for an explanation.
func TestExplainedFormTimeout(t *testing.T) {
	s := newServer(t, nil)
	s.fill()
	c := &connection{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequest(http.MethodPost, "/api/v1/readings?explain=true", strings.NewReader("device=m1"))
	r.RemoteAddr = "127.0.0.1:5"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set(httpapi.TenantHeader, "acme")
	httpapi.Explained(s.Config.Handler).ServeHTTP(c, r)
	require.Equal(t, 200, c.Code, c.Body)
	require.Len(t, c.deadlines, 2)
	require.True(t, c.deadlines[1].IsZero())
}
