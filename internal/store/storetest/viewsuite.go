package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"binnacle/binning/lane"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// ViewFixture is a store of lanes under test, without any container.
type ViewFixture struct {
	Views           store.ViewWriter
	CreateContainer func(name string)
	Now             func() time.Time      // the store's clock
	Wait            func(d time.Duration) // moves it
}

// RunViews checks an implementation of store.ViewWriter; open returns an empty one.
func RunViews(t *testing.T, open func(t *testing.T) ViewFixture) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, ViewFixture)
	}{
		{"what is created is read", viewCreate},
		{"what has changed is not replaced", viewReplace},
		{"one of two who replace at once wins", viewRace},
		{"what is removed is gone", viewDelete},
		{"what outlives its time is gone", viewExpiry},
		{"a scan is of one key, range and some batches", viewScan},
		{"without a container", viewNoContainer},
		{"the clock is the store's", viewClock},
		{"a context that has ended", viewEnded},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

const viewContainer = "views-2026-11"

var (
	ledgerKey = store.ViewKey{Container: viewContainer, TenantShard: "acme~4r", Lane: lane.LedgerKey}
	ledgerID  = lane.LedgerID(day)
)

// ledgerDoc is a ledger that says as of when it is.
func ledgerDoc(asOf int64) []byte {
	doc, err := (&lane.Ledger{TenantShard: ledgerKey.TenantShard, Day: day, AsOf: asOf}).Encode()
	if err != nil {
		panic(err)
	}
	return doc
}

// laneDoc is a lane of some hours without sections.
func laneDoc(metric, batch string, from, to int, ttl int64) (store.ViewKey, string, []byte) {
	key := ledgerKey
	key.Lane = lane.Key(metric, lane.Last, lane.Minute)
	id := lane.ID(key.Lane, day, from, 0, batch)
	var b lane.Builder
	b.Begin(lane.Header{ID: id, TenantShard: key.TenantShard, Key: key.Lane, Day: day, Batch: batch, From: from, To: to,
		Grid: lane.Minute, TTL: ttl}, nil)
	doc, err := b.End()
	if err != nil {
		panic(err)
	}
	return key, id, slices.Clone(doc)
}

func readAsOf(t *testing.T, f ViewFixture) (asOf int64, etag string) {
	t.Helper()
	v, _, _, err := f.Views.ReadView(t.Context(), ledgerKey, ledgerID)
	require.NoError(t, err)
	l, err := lane.ParseLedger(v.Doc)
	require.NoError(t, err)
	return l.AsOf, v.ETag
}

func viewCreate(t *testing.T, f ViewFixture) {
	f.CreateContainer(viewContainer)
	_, _, _, err := f.Views.ReadView(t.Context(), ledgerKey, ledgerID)
	require.ErrorIs(t, err, store.ErrNotFound)
	receipt, err := f.Views.CreateView(t.Context(), ledgerKey, ledgerID, ledgerDoc(7))
	require.NoError(t, err)
	require.Positive(t, receipt.RUs)
	asOf, etag := readAsOf(t, f)
	require.EqualValues(t, 7, asOf)
	require.NotEmpty(t, etag)
	_, err = f.Views.CreateView(t.Context(), ledgerKey, ledgerID, ledgerDoc(8))
	require.ErrorIs(t, err, store.ErrExists)
	asOf, _ = readAsOf(t, f)
	require.EqualValues(t, 7, asOf)
	key, id, doc := laneDoc("velocity", "b1", 8, 10, 0)
	_, err = f.Views.CreateView(t.Context(), key, id, doc)
	require.NoError(t, err)
	_, err = f.Views.CreateView(t.Context(), key, id, doc)
	require.ErrorIs(t, err, store.ErrExists)
}

func viewReplace(t *testing.T, f ViewFixture) {
	f.CreateContainer(viewContainer)
	_, err := f.Views.ReplaceView(t.Context(), ledgerKey, ledgerID, `"none"`, ledgerDoc(1))
	require.ErrorIs(t, err, store.ErrChanged)
	_, err = f.Views.CreateView(t.Context(), ledgerKey, ledgerID, ledgerDoc(1))
	require.NoError(t, err)
	_, first := readAsOf(t, f)
	_, err = f.Views.ReplaceView(t.Context(), ledgerKey, ledgerID, first, ledgerDoc(2))
	require.NoError(t, err)
	asOf, second := readAsOf(t, f)
	require.EqualValues(t, 2, asOf)
	require.NotEqual(t, first, second)
	_, err = f.Views.ReplaceView(t.Context(), ledgerKey, ledgerID, first, ledgerDoc(3))
	require.ErrorIs(t, err, store.ErrChanged)
	asOf, _ = readAsOf(t, f)
	require.EqualValues(t, 2, asOf)
}

func viewRace(t *testing.T, f ViewFixture) {
	f.CreateContainer(viewContainer)
	_, err := f.Views.CreateView(t.Context(), ledgerKey, ledgerID, ledgerDoc(0))
	require.NoError(t, err)
	_, etag := readAsOf(t, f)
	const n = 8
	results := make(chan error, n)
	for i := range n {
		go func() {
			_, err := f.Views.ReplaceView(context.Background(), ledgerKey, ledgerID, etag, ledgerDoc(int64(i+1)))
			results <- err
		}()
	}
	won := 0
	for range n {
		if err := <-results; err == nil {
			won++
		} else {
			require.ErrorIs(t, err, store.ErrChanged)
		}
	}
	require.Equal(t, 1, won)
}

func viewDelete(t *testing.T, f ViewFixture) {
	f.CreateContainer(viewContainer)
	key, id, doc := laneDoc("velocity", "b1", 0, 1, 0)
	_, err := f.Views.CreateView(t.Context(), key, id, doc)
	require.NoError(t, err)
	for range 2 {
		_, err = f.Views.DeleteView(t.Context(), key, id)
		require.NoError(t, err)
		_, _, _, err = f.Views.ReadView(t.Context(), key, id)
		require.ErrorIs(t, err, store.ErrNotFound)
	}
}

func viewExpiry(t *testing.T, f ViewFixture) {
	f.CreateContainer(viewContainer)
	key, id, doc := laneDoc("velocity", "b1", 0, 1, 60)
	_, err := f.Views.CreateView(t.Context(), key, id, doc)
	require.NoError(t, err)
	require.Len(t, lanes(t, f, store.LaneScan{Key: key, Range: telemetry.Range{From: day.Start(), To: day.End()}}), 1)
	f.Wait(62 * time.Second)
	require.Empty(t, lanes(t, f, store.LaneScan{Key: key, Range: telemetry.Range{From: day.Start(), To: day.End()}}))
}

// lanes is what a scan yields, as ids, sorted.
func lanes(t *testing.T, f ViewFixture, s store.LaneScan) (out []string) {
	t.Helper()
	charged := 0.0
	s.Charge = func(rus float64) error { charged += rus; return nil }
	usage, err := f.Views.ScanLanes(t.Context(), s, func(doc []byte) error {
		d, err := lane.Parse(doc)
		require.NoError(t, err)
		require.NotEmpty(t, d.ETag)
		out = append(out, d.ID)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, len(out), usage.Documents)
	require.InDelta(t, usage.RUs, charged, 1e-6)
	slices.Sort(out)
	return out
}

func viewScan(t *testing.T, f ViewFixture) {
	f.CreateContainer(viewContainer)
	var key store.ViewKey
	for _, metric := range []string{"velocity", "odometer"} {
		for _, batch := range []string{"b1", "b2"} {
			for hour := 0; hour < 24; hour += 2 {
				k, id, doc := laneDoc(metric, batch, hour, hour+2, 0)
				_, err := f.Views.CreateView(t.Context(), k, id, doc)
				require.NoError(t, err)
				key = k
			}
		}
	}
	hours := func(from, to int) telemetry.Range {
		return telemetry.Range{From: day.Start() + int64(from)*3_600_000 + 1, To: day.Start() + int64(to)*3_600_000 + 1}
	}
	require.Len(t, lanes(t, f, store.LaneScan{Key: key, Range: hours(0, 24)}), 24)
	require.Equal(t, []string{"odometer.L.2026112004.0.b2", "odometer.L.2026112006.0.b2"},
		lanes(t, f, store.LaneScan{Key: key, Range: hours(5, 7), Batches: []string{"b2"}}))
	require.Equal(t, []string{"odometer.L.2026112004.0.b1", "odometer.L.2026112004.0.b2"},
		lanes(t, f, store.LaneScan{Key: key, Range: hours(4, 6), Batches: []string{"b2", "b1", "b3"}}))
	require.Empty(t, lanes(t, f, store.LaneScan{Key: key, Range: hours(4, 6), Batches: []string{}}))
	other := key
	other.TenantShard = "acme~0"
	require.Empty(t, lanes(t, f, store.LaneScan{Key: other, Range: hours(0, 24)}))

	stop := errors.New("enough")
	_, err := f.Views.ScanLanes(t.Context(), store.LaneScan{Key: key, Range: hours(0, 24)},
		func([]byte) error { return stop })
	require.Equal(t, stop, err, "as it is")
	_, err = f.Views.ScanLanes(t.Context(), store.LaneScan{Key: key, Range: hours(0, 24),
		Charge: func(float64) error { return stop }}, func([]byte) error { return nil })
	require.Equal(t, stop, err, "as it is")
}

func viewNoContainer(t *testing.T, f ViewFixture) {
	key, id, doc := laneDoc("velocity", "b1", 0, 1, 0)
	_, err := f.Views.CreateView(t.Context(), key, id, doc)
	require.ErrorIs(t, err, store.ErrNoContainer)
	_, _, _, err = f.Views.ReadView(t.Context(), key, id)
	require.ErrorIs(t, err, store.ErrNoContainer)
	_, err = f.Views.ScanLanes(t.Context(), store.LaneScan{Key: key}, func([]byte) error { return nil })
	require.ErrorIs(t, err, store.ErrNoContainer)
}

// What a read says of the time is what a write at that time is stamped with, whether it finds something or not.
func viewClock(t *testing.T, f ViewFixture) {
	f.CreateContainer(viewContainer)
	for i := range 3 {
		key, id, doc := laneDoc(fmt.Sprintf("m%d", i), "b1", 0, 1, 0)
		_, before, _, err := f.Views.ReadView(t.Context(), key, id)
		require.ErrorIs(t, err, store.ErrNotFound)
		_, err = f.Views.CreateView(t.Context(), key, id, doc)
		require.NoError(t, err)
		v, after, _, err := f.Views.ReadView(t.Context(), key, id)
		require.NoError(t, err)
		var stamped struct {
			At int64 `json:"_ts"`
		}
		require.NoError(t, json.Unmarshal(v.Doc, &stamped))
		require.InDelta(t, f.Now().Unix(), stamped.At, 1)
		require.InDelta(t, stamped.At, before.Unix(), 1)
		require.InDelta(t, stamped.At, after.Unix(), 1)
		f.Wait(100 * time.Second)
	}
}

func viewEnded(t *testing.T, f ViewFixture) {
	f.CreateContainer(viewContainer)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	key, id, doc := laneDoc("velocity", "b1", 0, 1, 0)
	_, err := f.Views.CreateView(ctx, key, id, doc)
	require.ErrorIs(t, err, context.Canceled)
	_, _, _, err = f.Views.ReadView(ctx, key, id)
	require.ErrorIs(t, err, context.Canceled)
	_, err = f.Views.ScanLanes(ctx, store.LaneScan{Key: key}, func([]byte) error { return nil })
	require.ErrorIs(t, err, context.Canceled)
}
