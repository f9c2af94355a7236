package rollups_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/binning/chunk"
	"binnacle/binning/rollup"
	"binnacle/internal/erasure"
	"binnacle/internal/rollups"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"

	"github.com/stretchr/testify/require"
)

// What no reader would take is not written, however few series the first part has and however often values fall: then
// the others of a metric's families do without those who tell resets. A device that is too large to be recomputed by
// itself is found out to be once.
func TestReadersRefuseBeyondLimits(t *testing.T) {
	w := newWorld(t, 25*time.Hour)
	writer := w.writer(func(c *rollups.Config) { c.Hold, c.Days = time.Nanosecond, 0 })
	target := writer.TargetsOf(day)[0]
	var ours []string // in the order of names
	for i := 0; len(ours) < 11; i++ {
		name := fmt.Sprintf("d%04d", i)
		if w.tenant.Placement.Key(name, day, 0).TenantShard == target.TenantShard {
			ours = append(ours, name)
		}
	}
	var groups []chunk.Group
	for i := range 900 {
		groups = append(groups, countersWithResets("other", fmt.Sprintf("%04d", i), 1))
	}
	large := ours[0]
	w.put(large, append([]chunk.Group{countersWithResets("level", "", 1)}, groups...)...)
	for _, name := range ours[1:] {
		groups = nil
		for i := range 90 {
			groups = append(groups, countersWithResets("level", fmt.Sprintf("%04d", i), 24*60))
		}
		w.put(name, groups...)
	}
	w.now = w.now.Add(2 * margin)
	round := func() rollups.Report {
		t.Helper()
		r, err := writer.Round(t.Context(), target)
		require.NoError(t, err)
		return r
	}
	require.Equal(t, rollup.AllDay, round().Built)
	status, err := writer.Status(t.Context(), target)
	require.NoError(t, err)
	require.Empty(t, status.Without)
	families := make(map[string]string)
	for _, l := range status.Metrics {
		families[l.Metric] = l.Families
	}
	require.Equal(t, map[string]string{"level": "LSM", "other": "LFSM"}, families)
	for _, g := range []rollup.Grid{rollup.Minute, rollup.HalfHour} {
		require.Zero(t, w.documents(target, rollup.Key("level", rollup.First, g)), "what does not count is taken away")
	}

	w.put(large, countersWithResets("level", "", 24*60))
	w.now = w.now.Add(2 * margin)
	r := round()
	require.Equal(t, 1, r.LateDevices)
	require.Equal(t, 1, r.Raw)
	require.Equal(t, 3, r.Read, "the late one, and then both")
	w.now = w.now.Add(2 * margin)
	r = round()
	require.Equal(t, 1, r.Raw)
	require.Zero(t, r.Read)
}

// A round that fails leaves nothing behind, and one that goes on failing is tried the less often.
func TestFailedRounds(t *testing.T) {
	w := newWorld(t, 24*time.Hour)
	metrics := []string{"odometer", "velocity", "weight"}
	w.fleet(3, 100, metrics...)
	w.now = w.now.Add(13 * time.Hour)
	failing := true
	w.rollups.Fault = func(op storetest.RollupOp) *storetest.Fault {
		if failing && op.Kind == storetest.CreateRollup &&
			op.Key.Name == rollup.Key("weight", rollup.Extremes, rollup.HalfHour) {
			return &storetest.Fault{Err: store.ErrDenied}
		}
		return nil
	}
	writer := w.writer(func(c *rollups.Config) {
		c.Every, c.LateEvery, c.Families = time.Minute, 10*time.Minute, "LFSM"
	})
	target := writer.TargetsOf(day)[0]
	_, err := writer.Round(t.Context(), target)
	require.ErrorIs(t, err, store.ErrDenied)
	require.Greater(t, w.rollups.Calls(storetest.CreateRollup), 10)
	require.Zero(t, w.documents(target, rollup.SeriesIndexKey))
	for _, metric := range metrics {
		for _, f := range rollup.AllFamilies {
			require.Zero(t, w.documents(target, rollup.Key(metric, f, rollup.Minute)), metric)
			require.Zero(t, w.documents(target, rollup.Key(metric, f, rollup.HalfHour)), metric)
		}
	}
	tries := func(d time.Duration) (n int) {
		for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(time.Minute) {
			before := w.names
			writer.Once(t.Context())
			if w.names > before {
				n++
			}
		}
		return n
	}
	require.Equal(t, 14, tries(time.Hour), "at once, after 1, 2, 4 and then every 5 minutes")
	failing = false
	tries(10 * time.Minute)
	require.Zero(t, tries(time.Hour), "all is made")
}

// With a hold of half a day minutes have the families of a few bytes, and half hours have all: as batches of their own,
// and of devices that are corrected. Keys of few devices have the last samples alone.
func TestDefaultFamiliesOfALongHold(t *testing.T) {
	for devices, want := range map[int][]string{1: {"L"}, 200: {"LF", "LFSM"}} {
		w := newWorld(t, 24*time.Hour)
		w.fleet(devices, 100, "velocity")
		w.now = w.now.Add(13 * time.Hour)
		writer := w.writer(func(c *rollups.Config) { c.Days = 0 })
		sealed, folded := 0, 0
		for range 3 {
			for _, target := range writer.TargetsOf(day) {
				r, err := writer.Round(t.Context(), target)
				require.NoError(t, err)
				sealed, folded = sealed+r.Built.Count(), folded+r.Corrected
				require.Zero(t, r.Raw)
				s, err := writer.Status(t.Context(), target)
				require.NoError(t, err)
				for _, l := range s.Metrics {
					require.Equal(t, want, familiesOf(s.Manifest))
					require.Equal(t, want[0], l.Families)
				}
			}
			w.put("m1", countersWithResets("velocity", "", 50))
			w.now = w.now.Add(2 * margin)
		}
		require.Equal(t, len(writer.TargetsOf(day))*rollup.HoursOfDay, sealed)
		require.Equal(t, 2, folded)
	}
}

// A manifest says until when an hour counts: until the first of its chunks expires (rule V6).
func TestHoursCountUntilTheirChunksExpire(t *testing.T) {
	w := newWorld(t, 25*time.Hour)
	w.ttl = 7200
	w.put("m1", countersWithResets("level", "", 60))
	w.ttl = 3600
	w.put("m1", countersWithResets("level", "", 30))
	expires := w.now.Unix() + 3600
	w.now = w.now.Add(2 * margin)
	writer := w.writer(func(c *rollups.Config) { c.Hold, c.Days = time.Nanosecond, 0 })
	counted := 0
	for _, target := range writer.TargetsOf(day) {
		_, err := writer.Round(t.Context(), target)
		require.NoError(t, err)
		s, err := writer.Status(t.Context(), target)
		require.NoError(t, err)
		if s.Manifest.Until[0] > 0 {
			require.EqualValues(t, expires, s.Manifest.Until[0])
			counted++
		}
		require.Zero(t, s.Manifest.Until[3])
	}
	require.Equal(t, 1, counted)
}

// familiesOf returns the families of each batch that has a metric, minutes first.
func familiesOf(l *rollup.Manifest) (out []string) {
	for i := range l.Batches {
		if b := &l.Batches[i]; len(b.Metrics) > 0 {
			out = append(out, b.Metrics[0].Families.String())
		}
	}
	return out
}

// Falls that no document has room for are not held while others are counted.
func TestResetsAreBounded(t *testing.T) {
	const half = rollup.MaxResets / 2
	require.Equal(t, 2, rollups.Kept(half, half))
	require.Zero(t, rollups.Kept(half, half, 1))
	require.Zero(t, rollups.Kept(half, half, 1, 1))
}

// A maker that stands still after its look at the orders of erasure stores nothing before it has looked again (rule
// E-R10).
func TestNothingIsStoredLongAfterTheOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 25*time.Hour)
		w.fleet(2, 10, "fuel", "odometer", "velocity")
		w.now = w.now.Add(24 * time.Hour)
		looks, stored, looked := 0, 0, time.Now()
		writer := w.writer(func(c *rollups.Config) {
			c.Erasures = func(context.Context, string) (erasure.List, error) {
				looked = time.Now()
				if looks++; looks < 12 && looks%3 == 0 {
					time.Sleep(10 * time.Minute)
				}
				return nil, nil
			}
		})
		w.rollups.Fault = func(op storetest.RollupOp) *storetest.Fault {
			if op.Kind == storetest.CreateRollup {
				stored++
				require.Less(t, time.Since(looked), 4*time.Minute)
			}
			return nil
		}
		for _, target := range writer.TargetsOf(day) {
			for n := 0; ; n++ { // a commit that failed is tried again
				_, err := writer.Round(t.Context(), target)
				if err == nil {
					break
				}
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Less(t, n, 5)
			}
		}
		require.Positive(t, stored)
		require.Greater(t, looks, 5)
	})
}
