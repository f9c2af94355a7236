package emulator_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

// serverlessDB makes the database db and the container chunks in a serverless account.
func serverlessDB(t *testing.T, s *emulator.Server) (*azcosmos.DatabaseClient, *azcosmos.ContainerClient) {
	t.Helper()
	c := client(t, s)
	_, err := c.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: "db"}, nil)
	require.NoError(t, err)
	db, err := c.NewDatabase("db")
	require.NoError(t, err)
	_, err = db.CreateContainer(t.Context(), hierarchical("chunks"), nil)
	require.NoError(t, err)
	co, err := db.NewContainer("chunks")
	require.NoError(t, err)
	return db, co
}

// A serverless account refuses throughput in the words that public issues quote: Orleans.CosmosDB#46, simplechat#33,
// azure-sdk-for-java#18776, and the page of container copy jobs.
func TestServerlessRefusesThroughput(t *testing.T) {
	now := newClock()
	s := open(t, emulator.Config{Now: now.now, Capacity: "serverless"})
	db, co := serverlessDB(t, s)
	const offers = "Reading or replacing offers is not supported for serverless accounts."
	manual, auto := azcosmos.NewManualThroughputProperties(400), azcosmos.NewAutoscaleThroughputProperties(1000)
	for _, p := range []*azcosmos.ThroughputProperties{&manual, &auto} {
		_, err := db.CreateContainer(t.Context(), hierarchical("other"),
			&azcosmos.CreateContainerOptions{ThroughputProperties: p})
		require.Equal(t, 400, code(err))
		require.ErrorContains(t, err, "Setting offer throughput or autopilot on container is not supported for serverless "+
			"accounts.")
		_, err = client(t, s).CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: "other"},
			&azcosmos.CreateDatabaseOptions{ThroughputProperties: p})
		require.Equal(t, 400, code(err))
		require.ErrorContains(t, err, "Shared throughput database creation is not supported for serverless accounts.")
		_, err = co.ReplaceThroughput(t.Context(), *p, nil)
		require.Equal(t, 400, code(err))
		require.ErrorContains(t, err, offers)
	}
	_, err := co.ReadThroughput(t.Context(), nil)
	require.ErrorContains(t, err, offers)
	_, err = db.ReadThroughput(t.Context(), nil)
	require.ErrorContains(t, err, offers)
	resp, _ := send(t, s, http.MethodGet, "/offers", "offers", "", "")
	require.Equal(t, 400, resp.StatusCode)

	spent := spend(t, co, 1e9)
	require.InDelta(t, 5000, spent, 12, "what one container may use in a second")
	for n := 1; n < 7; n++ {
		parts, err := s.Partitions("db", "chunks")
		require.NoError(t, err)
		require.Len(t, parts, n)
		for _, p := range parts {
			require.InDelta(t, max(5000, 1000*float64(n))/float64(n), p.Budget, 1e-9, "%d physical partitions", n)
		}
		require.NoError(t, s.Split("db", "chunks", parts[n-1].ID))
	}
}

// A serverless account stays what it is over restarts, and becomes provisioned in place, for good.
func TestServerlessBecomesProvisioned(t *testing.T) {
	now, dir := newClock(), t.TempDir()
	cfg := emulator.Config{Now: now.now, DataDir: dir, Capacity: "serverless"}
	reopen := func(s *emulator.Server) *emulator.Server {
		require.NoError(t, s.Close())
		s, err := emulator.Open(cfg)
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.Close() }) // a second time is no error
		return s
	}
	s, err := emulator.Open(cfg)
	require.NoError(t, err)
	_, co := serverlessDB(t, s)
	_, err = co.CreateItem(t.Context(), key("s", "d"), encode(t, chunk{ID: "x", TenantShard: "s", Device: "d"}), nil)
	require.NoError(t, err)
	require.NoError(t, s.Split("db", "chunks", "0"))
	cfg.Capacity = ""
	s = reopen(s)
	require.Equal(t, "serverless", s.Capacity())

	l := httptest.NewServer(s)
	t.Cleanup(l.Close)
	ask := func(method, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, l.URL+"/_emulator/capacity", strings.NewReader(body))
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, strings.TrimSpace(string(answer))
	}
	answered := func(status int, answer string) func(int, string) {
		return func(s int, a string) {
			t.Helper()
			require.Equal(t, fmt.Sprint(status, answer), fmt.Sprint(s, a))
		}
	}
	answered(200, `{"mode":"serverless"}`)(ask(http.MethodGet, ""))
	for _, body := range []string{"", "{}", `{"mode":"autoscale"}`, `{"made":"provisioned"}`} {
		status, _ := ask(http.MethodPut, body)
		require.Equal(t, 400, status, body)
	}
	answered(200, `{"mode":"provisioned"}`)(ask(http.MethodPut, `{"mode":"provisioned"}`))
	answered(200, `{"mode":"provisioned"}`)(ask(http.MethodPut, `{"mode":"provisioned"}`))
	status, _ := ask(http.MethodPut, `{"mode":"serverless"}`)
	require.Equal(t, 400, status, "there is no way back")

	cfg.Capacity = "serverless"
	for range 2 {
		db, err := client(t, s).NewDatabase("db")
		require.NoError(t, err)
		co, err := db.NewContainer("chunks")
		require.NoError(t, err)
		read, err := co.ReadThroughput(context.Background(), nil)
		require.NoError(t, err)
		rus, ok := read.ThroughputProperties.ManualThroughput()
		require.True(t, ok)
		require.EqualValues(t, 10_000, rus, "two physical partitions")
		require.EqualValues(t, 400, *read.MinThroughput)
		parts, err := s.Partitions("db", "chunks")
		require.NoError(t, err)
		require.InDelta(t, 5000, parts[0].Budget, 1e-9)
		_, err = co.ReadItem(context.Background(), key("s", "d"), "x", nil)
		require.NoError(t, err)
		s = reopen(s)
		require.Equal(t, "provisioned", s.Capacity(), "the flag is of new accounts")
	}
}
