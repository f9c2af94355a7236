package erase_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"binnacle/binning/rollup"
	"binnacle/internal/erasure"
	"binnacle/internal/rollups"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

// targets are the first-level keys of acme by day.
func (w *world) targets() (out []rollups.Target) {
	v, err := w.directory.Refresh(w.t.Context())
	require.NoError(w.t, err)
	tenant, _ := v.Tenant("acme")
	for day := firstDay; day < firstDay+days; day++ {
		for _, x := range tenant.Placement.Visits(nil, telemetry.Range{From: day.Start(), To: day.End()}) {
			out = append(out, rollups.Target{Tenant: tenant, Chunks: x.Container, TenantShard: x.TenantShard, Day: day})
		}
	}
	return out
}

func (w *world) rollupWriter() *rollups.Writer {
	writer, err := rollups.New(rollups.Config{Chunks: w.memory, Rollups: w.rollups, Now: w.now, Hold: time.Minute,
		Tenants: func() []tenant.Tenant { return nil }, Sleep: func(context.Context, time.Duration) error { return nil },
		Erasures: func(ctx context.Context, tenant string) (erasure.List, error) {
			v, err := w.directory.Refresh(ctx)
			if err != nil {
				return nil, err
			}
			return v.Erasures(tenant), nil
		}})
	require.NoError(w.t, err)
	return writer
}

// makeRollups does a round for each key and day.
func (w *world) makeRollups() error {
	var errs []error
	writer := w.rollupWriter()
	for _, target := range w.targets() {
		_, err := writer.Round(w.t.Context(), target)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// shown returns the days of the devices that stored rollups show, and how many documents there are by key and day.
func (w *world) shown() (of map[string][]telemetry.Day, documents map[string]int) {
	of, documents = map[string][]telemetry.Day{}, map[string]int{}
	for _, target := range w.targets() {
		key := store.RollupKey{Container: sharding.RollupsContainer(target.Chunks), TenantShard: target.TenantShard}
		day := telemetry.Range{From: target.Day.Start(), To: target.Day.End()}
		_, err := w.rollups.ScanRollups(w.t.Context(), store.RollupScan{Key: key, Range: day}, func(doc []byte) error {
			d, err := rollup.Parse(slices.Clone(doc))
			require.NoError(w.t, err)
			if d.Day != target.Day {
				return nil
			}
			documents[target.TenantShard+"/"+target.Day.String()]++
			for _, s := range d.SeriesIndex {
				if !slices.Contains(of[s.Device], d.Day) {
					of[s.Device] = append(of[s.Device], d.Day)
				}
			}
			return nil
		})
		require.NoError(w.t, err)
	}
	return of, documents
}

// Rule E-R10: rollups that show a device of before the sweep go, whatever fails on the way, and while rounds go on;
// those of other days and keys stay; what the device reports afterwards is shown by new ones. They name the device on
// no day without rows.
func TestRollupsOfAnErasedDeviceAreTakenAway(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC) // the days are over
			w := newWorldAt(t, func() time.Time { return now }, 1e8)
			now = now.Add(time.Hour)
			require.NoError(t, w.makeRollups())
			every := []telemetry.Day{firstDay, firstDay + 1, firstDay + 2}
			of, before := w.shown()
			require.Equal(t, map[string][]telemetry.Day{"m0": every, "m1": every, "m2": every}, of)

			o := w.order(erasure.Order{Tenant: "acme", Device: "m1", From: firstDay, To: firstDay + 2}, 50)
			s := w.sweeper()
			require.NoError(t, s.Round(t.Context()))
			w.create("acme", "m1", header(firstDay, 4, 50)) // it reports again
			w.rollups.Fault = func(storetest.RollupOp) *storetest.Fault {
				if rnd.IntN(6) > 0 {
					return nil
				}
				return &storetest.Fault{Applied: rnd.IntN(2) == 0, Err: errors.New("no answer")}
			}
			for n := 0; w.orderOf(o).ClearedAt.IsZero(); n++ {
				require.Less(t, n, 1000)
				_, _ = w.makeRollups(), s.Round(t.Context())
				if rnd.IntN(10) == 0 {
					s = w.sweeper()
				}
				now = now.Add(20 * time.Second)
			}
			w.rollups.Fault = nil
			of, after := w.shown()
			require.Equal(t, []telemetry.Day{firstDay + 2}, of["m1"])
			for place, n := range before {
				if after[place] != 0 {
					require.Equal(t, n, after[place])
				}
			}
			now = now.Add(time.Hour)
			require.NoError(t, w.makeRollups())
			of, _ = w.shown()
			require.ElementsMatch(t, []telemetry.Day{firstDay, firstDay + 2}, of["m1"])
			require.ElementsMatch(t, every, of["m0"])
			require.ElementsMatch(t, every, of["m2"])
			require.NoError(t, s.Round(t.Context()))
		})
	}
}

// Rule E-R10: no rollup names a device that had no rows when rollups were made, and whose rows are erased since.
func TestErasedBeforeItWasShown(t *testing.T) {
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	w := newWorldAt(t, func() time.Time { return now }, 1e8)
	require.NoError(t, w.makeRollups())
	now = now.Add(time.Hour)
	w.create("acme", "m9", header(firstDay, 0, -1))
	w.clear(w.order(erasure.Order{Tenant: "acme", Device: "m9", From: firstDay, To: firstDay + 1}, 50), &now)
	now = now.Add(time.Hour)
	require.NoError(t, w.makeRollups())
	of, _ := w.shown()
	require.NotContains(t, of, "m9")
}

// clear sweeps an order, and clears rollups, while time passes.
func (w *world) clear(o *erasure.Order, now *time.Time) {
	for s := w.sweeper(); w.orderOf(o).ClearedAt.IsZero(); *now = now.Add(20 * time.Second) {
		require.NoError(w.t, s.Round(w.t.Context()))
	}
}

// A certificate counts each document of rollups once, however often its deletion was tried.
func TestClearedDocumentsAreCountedOnce(t *testing.T) {
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	w := newWorldAt(t, func() time.Time { return now }, 1e8)
	now = now.Add(time.Hour)
	require.NoError(t, w.makeRollups())
	count := func() (n int) {
		for _, docs := range w.rollupDocuments() {
			n += len(docs)
		}
		return n
	}
	before, deletes := count(), 0
	w.rollups.Fault = func(op storetest.RollupOp) *storetest.Fault {
		if op.Kind != storetest.DeleteRollup {
			return nil
		}
		if deletes++; deletes%5 != 0 {
			return nil
		}
		return &storetest.Fault{Err: errors.New("no answer")}
	}
	o := w.order(erasure.Order{Tenant: "acme", Device: "m1", To: erasure.EveryDay}, 50)
	for s := w.sweeper(); w.orderOf(o).ClearedAt.IsZero(); now = now.Add(20 * time.Second) {
		_ = s.Round(t.Context()) // is tried again
	}
	cleared := 0
	for _, p := range w.orderOf(o).Cleared {
		cleared += p.Documents
	}
	require.Equal(t, before-count(), cleared)
	require.Positive(t, cleared)
}

// orderOf returns an order as it is stored now.
func (w *world) orderOf(o *erasure.Order) *erasure.Order {
	v, err := w.directory.Refresh(w.t.Context())
	require.NoError(w.t, err)
	for _, x := range v.AllErasures() {
		if x.ID == o.ID {
			return x
		}
	}
	require.Fail(w.t, "the order is gone")
	return nil
}

// Rule E-R10: documents of a batch that nobody uses are found by its series index for as long as one of them is there.
func TestRemainsOfBatchAreTakenAway(t *testing.T) {
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	w := newWorldAt(t, func() time.Time { return now }, 1e8)
	now = now.Add(time.Hour)
	require.NoError(t, w.makeRollups())
	deletes := 0
	w.rollups.Fault = func(op storetest.RollupOp) *storetest.Fault {
		if op.Kind != storetest.DeleteRollup {
			return nil
		}
		if deletes++; deletes%3 != 0 {
			return nil
		}
		return &storetest.Fault{Err: errors.New("no answer")} // the rest stays
	}
	writer := w.rollupWriter()
	for _, target := range w.targets() {
		_, err := writer.Rebuild(t.Context(), target)
		require.NoError(t, err)
		require.NoError(t, writer.Drop(t.Context(), target))
	}
	w.rollups.Fault = nil
	_, documents := w.shown()
	require.NotEmpty(t, documents)
	w.clear(w.order(erasure.Order{Tenant: "acme", From: firstDay, To: firstDay + days}, 50), &now)
	_, documents = w.shown()
	require.Empty(t, documents)
}
