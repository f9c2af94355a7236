package ops_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"binnacle/internal/ops"

	"github.com/stretchr/testify/require"
)

var passed = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })

// asked returns the status that a handler answers a request from an address to a host with, with headers as pairs.
func asked(h http.Handler, from, host string, headers ...string) int {
	r := httptest.NewRequest(http.MethodGet, "/api/v1/rejected", nil)
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey,
		net.Addr(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 7071})))
	r.RemoteAddr, r.Host = from, host
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func TestTrustedHosts(t *testing.T) {
	t.Parallel()
	h := ops.TrustedHosts{Names: []string{"binnacle.lan"}}.Guard(passed)
	for _, host := range []string{"localhost", "LOCALHOST:7070", "localhost.:7070", "127.0.0.1:7070", "127.8.9.1",
		"[::1]:7070", "[::ffff:127.0.0.1]:7070", "10.0.0.5:7070", "binnacle.lan", "Binnacle.LAN:7070"} {
		require.Equal(t, http.StatusNoContent, asked(h, "127.0.0.1:4711", host), host)
	}
	for _, host := range []string{"evil.example", "evil.example:7070", "localhost.evil.example", "127.0.0.1.evil.example",
		"evil.localhost", "10.0.0.6:7070", "0.0.0.0:7070", ""} {
		require.Equal(t, http.StatusForbidden, asked(h, "127.0.0.1:4711", host), host)
		require.Equal(t, http.StatusForbidden, asked(h, "[::1]:4711", host), host)
		require.Equal(t, http.StatusNoContent, asked(h, "10.0.0.9:4711", host), "from elsewhere")
	}
}

func TestOperatorsNeedTokenOrLoopback(t *testing.T) {
	t.Parallel()
	const here, there = "127.0.0.1:4711", "10.0.0.9:4711"
	token := "first"
	guarded := ops.TrustedHosts{}.Operators(func() string { return token }, passed)
	open := ops.TrustedHosts{}.Operators(nil, passed)
	for _, h := range []http.Handler{guarded, open} {
		require.Equal(t, http.StatusNoContent, asked(h, here, "localhost:7071"))
		require.Equal(t, http.StatusForbidden, asked(h, here, "evil.example"))
		require.Equal(t, http.StatusUnauthorized, asked(h, there, "localhost:7071"))
		require.Equal(t, http.StatusUnauthorized, asked(h, there, "10.0.0.5:7071", "Authorization", "Bearer "))
		require.Equal(t, http.StatusUnauthorized, asked(h, here, "localhost", "X-Forwarded-For", "10.0.0.9"), "by a proxy")
	}
	require.Equal(t, http.StatusUnauthorized, asked(open, there, "10.0.0.5", "Authorization", "Bearer first"))
	require.Equal(t, http.StatusNoContent, asked(guarded, there, "binnacle:7071", "Authorization", "Bearer first"))
	require.Equal(t, http.StatusNoContent, asked(guarded, here, "evil.example", "Authorization", "bearer first"))
	require.Equal(t, http.StatusUnauthorized, asked(guarded, there, "10.0.0.5", "Authorization", "Bearer second"))
	require.Equal(t, http.StatusUnauthorized, asked(guarded, there, "10.0.0.5", "Authorization", "first"))
	token = "second"
	require.Equal(t, http.StatusNoContent, asked(guarded, there, "10.0.0.5", "Authorization", "Bearer second"))
}
