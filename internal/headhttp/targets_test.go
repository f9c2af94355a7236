package headhttp_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"binnacle/internal/headhttp"

	"github.com/stretchr/testify/require"
)

// names is a DNS that a test sets.
type names struct {
	hosts map[string][]string
	srv   map[string][]*net.SRV
	asked int
}

var errNoName = errors.New("no such host")

func (n *names) LookupHost(_ context.Context, host string) ([]string, error) {
	n.asked++
	if a, ok := n.hosts[host]; ok {
		return a, nil
	}
	return nil, errNoName
}

func (n *names) LookupSRV(_ context.Context, _, _, name string) (string, []*net.SRV, error) {
	n.asked++
	if a, ok := n.srv[name]; ok {
		return name, a, nil
	}
	return "", nil, errNoName
}

func TestTargetsResolveNames(t *testing.T) {
	dns := &names{
		hosts: map[string][]string{"ingest": {"10.0.0.2", "10.0.0.1", "fd00::1"}, "10.9.9.9": {"10.9.9.9"}},
		srv:   map[string][]*net.SRV{"_heads._tcp.ingest": {{Target: "ingest-0.ingest.", Port: 7072}}},
	}
	now := time.Unix(0, 0)
	targets, err := headhttp.NewTargets(headhttp.TargetsConfig{
		Names: []string{"ingest:7072", "srv+_heads._tcp.ingest", "10.9.9.9:1", "ingest:7072"}, Scheme: "http",
		Every: 5 * time.Second,
		Now:   func() time.Time { return now }, Resolver: dns,
	})
	require.NoError(t, err)
	want := []string{"http://10.0.0.1:7072", "http://10.0.0.2:7072", "http://10.9.9.9:1", "http://[fd00::1]:7072",
		"http://ingest-0.ingest:7072"}
	for range 3 {
		got, err := targets(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.Equal(t, 4, dns.asked, "names are looked up now and then")

	now = now.Add(6 * time.Second)
	dns.hosts["ingest"] = []string{"10.0.0.3"}
	delete(dns.srv, "_heads._tcp.ingest")
	got, err := targets(t.Context())
	require.ErrorIs(t, err, errNoName)
	require.ElementsMatch(t, append(want, "http://10.0.0.3:7072"), got,
		"one that may be gone is asked rather than forgotten")

	dns.srv["_heads._tcp.ingest"] = nil
	got, err = targets(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"http://10.0.0.3:7072", "http://10.9.9.9:1"}, got)
}

func TestInvalidTargetNames(t *testing.T) {
	_, err := headhttp.NewTargets(headhttp.TargetsConfig{Scheme: "http",
		Names: []string{"ingest", "ingest:0", ":7072", "srv+", "ingest:http", "a:1"}})
	for _, wrong := range []string{`"ingest"`, `"ingest:0"`, `":7072"`, `"srv+"`, `"ingest:http"`} {
		require.ErrorContains(t, err, wrong)
	}
	require.NotContains(t, err.Error(), `"a:1"`)
	_, err = headhttp.NewTargets(headhttp.TargetsConfig{Scheme: "http"})
	require.ErrorContains(t, err, "no ingester is named")
	_, err = headhttp.NewTargets(headhttp.TargetsConfig{Scheme: "ftp", Names: []string{"a:1"}})
	require.ErrorContains(t, err, "ftp")
}
