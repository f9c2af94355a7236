package cosmos_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/store"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// The client knows the time of the account by its answers, says once that the machine's clock is wrong, and notices
// that it was set.
func TestClockOfTheAccount(t *testing.T) {
	var off atomic.Int64 // of the account, from the machine
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	account := func() time.Time { return noon.Add(time.Duration(off.Load())) }
	var log bytes.Buffer
	metrics := prometheus.NewRegistry()
	off.Store(int64(5 * time.Hour))
	_, c := openEmulator(t, emulator.Config{Now: account}, func(c *cosmos.Config) {
		c.Now = func() time.Time { return noon }
		c.Logger, c.Registerer = slog.New(slog.NewTextHandler(&log, nil)), metrics
	})
	require.Equal(t, noon.Add(5*time.Hour), c.Clock().Now())
	require.ErrorContains(t, c.CheckClock(t.Context()), "2026-11-23T17:00:00Z")
	require.Equal(t, 1, strings.Count(log.String(), "the clock of this machine is wrong"))
	require.NoError(t, testutil.GatherAndCompare(metrics, strings.NewReader(`
# HELP binnacle_cosmos_clock_offset_seconds Seconds by which the clock of Cosmos DB is ahead of this machine's; 0 where this one may be right.
# TYPE binnacle_cosmos_clock_offset_seconds gauge
binnacle_cosmos_clock_offset_seconds 18000
`), "binnacle_cosmos_clock_offset_seconds"))

	off.Store(int64(-time.Second))
	_, err := c.Containers().List(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.CheckClock(t.Context()))
	require.Contains(t, log.String(), "right again")

	lost, err := cosmos.New(cosmos.Config{Endpoint: "http://127.0.0.1:1/", Credential: cosmos.FixedKey(emulator.Key),
		Transport: nowhere{}})
	require.NoError(t, err)
	defer lost.Close()
	require.Error(t, lost.CheckClock(t.Context()))
	require.ErrorIs(t, lost.Clock().Check(), store.ErrClockUnknown)
}

// nowhere is the network of an account that cannot be reached.
type nowhere struct{}

func (nowhere) Do(*http.Request) (*http.Response, error) { return nil, errors.New("no route to host") }
