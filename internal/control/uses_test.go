package control_test

import (
	"fmt"
	"sync"
	"testing"

	"binnacle/internal/control"
	"binnacle/internal/control/controltest"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// What several queriers tell is added up, by day, and is let go of after a week.
func TestUsesAddUp(t *testing.T) {
	docs := controltest.NewDocuments(t)
	const today = telemetry.Day(20777)
	none, err := control.UsesSince(t.Context(), docs, "acme", 0)
	require.NoError(t, err)
	require.Empty(t, none)
	add := func(tenant string, day telemetry.Day, some map[string]control.Use) {
		t.Helper()
		require.NoError(t, control.AddUses(t.Context(), docs, tenant, day, some))
	}
	add("acme", today-7, map[string]control.Use{"a": {Queries: 1, Saved: 10}, "b": {Queries: 2}})
	add("acme", today, map[string]control.Use{"a": {Queries: 3, Saved: 0.5}})
	add("acme", today-7, map[string]control.Use{"a": {Queries: 1, Saved: 10}})
	add("globex", today, map[string]control.Use{"a": {Queries: 100}})
	since := func(day telemetry.Day) map[string]control.Use {
		t.Helper()
		uses, err := control.UsesSince(t.Context(), docs, "acme", day)
		require.NoError(t, err)
		return uses
	}
	require.Equal(t, map[string]control.Use{"a": {Queries: 5, Saved: 20.5}, "b": {Queries: 2}}, since(today-7))
	require.Equal(t, map[string]control.Use{"a": {Queries: 3, Saved: 0.5}}, since(today-6))
	add("acme", today+1, map[string]control.Use{"a": {Queries: 1}})
	require.Equal(t, map[string]control.Use{"a": {Queries: 4, Saved: 0.5}}, since(0), "the first day is over a week old")

	many := make(map[string]control.Use)
	for i := range 1000 {
		many[fmt.Sprintf("m%03d", i)] = control.Use{Queries: int64(i + 2)}
	}
	add("acme", today+1, many)
	require.Len(t, since(today+1), 100)
	require.Contains(t, since(today+1), "m999")
	require.NotContains(t, since(today+1), "m899", "those that were asked for most")
}

// A querier that others were faster than adds what it has to theirs.
func TestUsesOfManyQueriers(t *testing.T) {
	docs := controltest.NewDocuments(t)
	var all sync.WaitGroup
	for range 4 { // none can be overtaken more than three times
		all.Go(func() {
			err := control.AddUses(t.Context(), docs, "acme", 1, map[string]control.Use{"a": {Queries: 1}})
			if err != nil {
				t.Errorf("%v", err)
			}
		})
	}
	all.Wait()
	uses, err := control.UsesSince(t.Context(), docs, "acme", 0)
	require.NoError(t, err)
	require.EqualValues(t, 4, uses["a"].Queries)
}
