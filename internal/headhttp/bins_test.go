package headhttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"binnacle/internal/headhttp"

	"github.com/stretchr/testify/require"
)

// Each process reports what it holds, or why it does not; only those with the secret may ask.
func TestBinsOfAllProcesses(t *testing.T) {
	held := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"topics":%q}`, r.URL.Query().Get("tenant"))
	})
	process := func(bins http.Handler) string {
		server := httptest.NewServer(headhttp.Handler(headhttp.HandlerConfig{Heads: &process{}, Bins: bins,
			Secret: func() string { return "s" }}))
		t.Cleanup(server.Close)
		return server.URL
	}
	text := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("held")) })
	urls := []string{process(held), process(nil), process(text)}
	ask := url.Values{"tenant": {"acme"}}
	all, err := client("s", urls...).Bins(t.Context(), ask)
	require.NoError(t, err)
	require.Len(t, all, 3)
	require.Equal(t, strings.TrimPrefix(urls[0], "http://"), all[0].Process)
	require.JSONEq(t, `{"topics":"acme"}`, string(all[0].Bins))
	require.Regexp(t, "404", all[1].Error)
	require.Regexp(t, "not JSON", all[2].Error)
	require.Empty(t, all[1].Bins)

	all, err = client("wrong", urls[0]).Bins(t.Context(), ask)
	require.NoError(t, err)
	require.Regexp(t, "401 .*secret", all[0].Error)
	require.Empty(t, all[0].Bins)
}

// A process that does not answer is named after the timeout, and a name that can't be looked up is an error.
func TestBinsOfProcessesThatDoNotAnswer(t *testing.T) {
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(hangs.Close)
	unknown := errors.New("no such host")
	c := headhttp.NewClient(headhttp.ClientConfig{Timeout: time.Millisecond, Targets: func(context.Context) ([]string,
		error) {
		return []string{hangs.URL}, unknown
	}})
	all, err := c.Bins(t.Context(), nil)
	require.ErrorIs(t, err, unknown)
	require.Len(t, all, 1)
	require.Equal(t, "no answer in time", all[0].Error)
}
