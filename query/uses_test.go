package query_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/binning/rollup"
	"binnacle/internal/control"
	"binnacle/internal/control/controltest"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// A querier adds up which lanes it was asked for. One that may not write that says so once, and again only after it
// could; it answers as before, and later uses are counted as soon as it may.
func TestUsesThatMayNotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, uses := querytest.New(t, noon), controltest.NewDocuments(t)
		denied := false
		uses.Fault = func(op, _, _ string) *controltest.Fault {
			if denied && (op == controltest.OpCreate || op == controltest.OpReplace) {
				return &controltest.Fault{Err: fmt.Errorf("403 Forbidden: %w", store.ErrDenied)}
			}
			return nil
		}
		var log bytes.Buffer
		q := newQuerier(t, w, func(c *query.Config) {
			c.Rollups, c.Logger = w.Rollups, slog.New(slog.NewTextHandler(&log, nil))
		})
		w.Chunk(record(1, "m1", noon.Add(-time.Minute), float("temp", 1)))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- q.TellUses(ctx, uses) }()
		ask := func() {
			t.Helper()
			series := 0
			_, err := q.RollupSeries(t.Context(), query.Request{Tenant: "acme", Metrics: []string{"temp"},
				Range: telemetry.Range{From: noon.Add(-time.Hour).UnixMilli(), To: noon.UnixMilli()}},
				query.RollupsRequest{Grid: rollup.Minute, Families: rollup.Families{rollup.Last}}, func(*query.RollupCurve) error {
					series++
					return nil
				})
			require.NoError(t, err)
			require.Equal(t, 1, series)
			time.Sleep(query.UsesEvery)
			synctest.Wait()
		}
		for _, step := range []struct {
			denied        bool
			said, counted int
		}{{true, 1, 0}, {true, 1, 0}, {false, 1, 1}, {false, 1, 2}, {true, 2, 2}, {true, 2, 2}, {false, 2, 3}} {
			denied = step.denied
			ask()
			require.Equal(t, step.said, strings.Count(log.String(), "which lanes are asked for is not counted"), log.String())
			all, err := control.UsesSince(t.Context(), uses, "acme", 0)
			require.NoError(t, err)
			require.EqualValues(t, step.counted, all["temp"].Queries)
		}
		require.Contains(t, log.String(), "container uses")
		require.Contains(t, log.String(), "403 Forbidden")
		cancel()
		require.NoError(t, <-done)
	})
}
