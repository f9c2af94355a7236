package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"binnacle/internal/store"
	"binnacle/internal/stream/topics"
	"binnacle/internal/tenant/access"
	"binnacle/query"
	"binnacle/query/httpapi"

	"github.com/stretchr/testify/require"
)

type worldHeads = store.Heads

// twoTopics is heads of a topic of each tenant: acme's has been read, and globex's is being read again.
type twoTopics struct{ worldHeads }

func (twoTopics) Heads(context.Context, store.HeadRequest) ([]store.PartitionHead, error) {
	none := func(func(store.HeadRows, error) bool) {}
	broken := func(yield func(store.HeadRows, error) bool) {
		yield(store.HeadRows{}, errors.New("fleet-globex/0 is gone"))
	}
	return []store.PartitionHead{
		{Topic: "fleet-acme", Partition: 0, Stream: 1, Position: 10, CaughtUp: 10, Rows: none},
		{Topic: "fleet-globex", Partition: 0, Stream: 2, Position: 48_211_907, CaughtUp: 48_300_000, Rows: none},
		{Topic: "fleet-globex", Partition: 1, Stream: 2, Position: 48_211_907, CaughtUp: 48_300_000, Rows: broken},
	}, errors.New("heads of fleet-globex/2 do not answer")
}

// twoLogs is their logs, or an error that names them.
type twoLogs struct{ err error }

func (l twoLogs) LogEnds(context.Context) ([]store.LogEnd, error) {
	return []store.LogEnd{{Topic: "fleet-acme", Partition: 0, End: 10},
		{Topic: "fleet-globex", Partition: 0, End: 48_300_123}}, l.err
}

// An answer to a tenant names no partition of a topic that is bound to another tenant: not which there are, nor
// how far they are read. A topic of others is answered as one that does not exist.
func TestTopicsOfOtherTenantsAreHidden(t *testing.T) {
	set, err := topics.Parse([]string{"/fleet-(.*)/=$1"}, "")
	require.NoError(t, err)
	broken := errors.New("topics fleet-acme,fleet-globex=globex")
	for name, log := range map[string]twoLogs{"log": {}, "broken log": {broken}} {
		s := newServer(t, func(qc *query.Config, _ *httpapi.Config) {
			qc.Heads, qc.Log, qc.Topics = twoTopics{qc.Heads}, log, set
		})
		s.world.Tenant("globex")
		ask := func(path string, after ...string) answer {
			a, err := s.do(t, http.MethodGet, path, http.Header{access.TenantHeader: {"acme"}, httpapi.AfterHeader: after})
			require.NoError(t, err)
			return a
		}
		for _, path := range []string{"/api/v1/readings?from=-1h", "/api/v1/readings?from=-1h&strict=true&timeout=1s",
			"/api/v1/gaps?device=m1", "/api/v1/attendance", "/api/v1/devices"} {
			a := ask(path)
			require.NotContains(t, a.body, "globex", "%s, %s", name, path)
			require.NotContains(t, a.body, "48", "%s, %s", name, path)
		}
		if log.err == nil {
			require.Contains(t, ask("/api/v1/readings?from=-1h").body, "some rows in ingesters' memory are missing")
		}
		theirs := ask("/api/v1/readings?from=-1h&timeout=1s", "fleet-globex/0/99999999")
		none := ask("/api/v1/readings?from=-1h&timeout=1s", "fleet-others/0/99999999")
		require.Equal(t, none.status, theirs.status)
		require.Equal(t, none.body, strings.ReplaceAll(theirs.body, "fleet-globex", "fleet-others"))
		require.Equal(t, 200, ask("/api/v1/devices", "fleet-acme/0/9").status)
	}
}
