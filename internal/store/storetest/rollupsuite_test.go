package storetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"binnacle/binning/rollup"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// rollupFixture is a store of rollups under test, without any container.
type rollupFixture struct {
	Rollups         store.RollupWriter
	CreateContainer func(name string)
	Now             func() time.Time      // the store's clock
	Wait            func(d time.Duration) // moves it
}

// runRollups checks an implementation of store.RollupWriter; open returns an empty one.
func runRollups(t *testing.T, open func(t *testing.T) rollupFixture) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, rollupFixture)
	}{
		{"what is created is read", rollupCreate},
		{"what has changed is not replaced", rollupReplace},
		{"one of two replacements at once wins", rollupRace},
		{"what is removed is gone", rollupDelete},
		{"what outlives its time is gone", rollupExpiry},
		{"a scan is of one key, range and some batches", rollupScan},
		{"without a container", rollupNoContainer},
		{"the clock is the store's", rollupClock},
		{"a context that has ended", rollupEnded},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

const rollupContainer = "rollups-2026-11"

var (
	manifestKey = store.RollupKey{Container: rollupContainer, TenantShard: "acme~4r", Name: rollup.ManifestKey}
	manifestID  = rollup.ManifestID(day)
)

// manifestDoc returns a manifest that says as of when it is.
func manifestDoc(asOf int64) []byte {
	doc, err := (&rollup.Manifest{TenantShard: manifestKey.TenantShard, Day: day, AsOf: asOf}).Encode()
	if err != nil {
		panic(err)
	}
	return doc
}

// rollupDoc returns a rollup of some hours without sections.
func rollupDoc(metric, batch string, from, to int, ttl int64) (store.RollupKey, string, []byte) {
	key := manifestKey
	key.Name = rollup.Key(metric, rollup.Last, rollup.Minute)
	id := rollup.ID(key.Name, day, from, 0, batch)
	var b rollup.Builder
	b.Begin(rollup.Header{ID: id, TenantShard: key.TenantShard, Key: key.Name, Day: day, Batch: batch, From: from, To: to,
		Grid: rollup.Minute, TTL: ttl}, nil)
	doc, err := b.End()
	if err != nil {
		panic(err)
	}
	return key, id, slices.Clone(doc)
}

func readAsOf(t *testing.T, f rollupFixture) (asOf int64, etag string) {
	t.Helper()
	v, _, _, err := f.Rollups.ReadRollup(t.Context(), manifestKey, manifestID)
	require.NoError(t, err)
	l, err := rollup.ParseManifest(v.Doc)
	require.NoError(t, err)
	return l.AsOf, v.ETag
}

func rollupCreate(t *testing.T, f rollupFixture) {
	f.CreateContainer(rollupContainer)
	_, _, _, err := f.Rollups.ReadRollup(t.Context(), manifestKey, manifestID)
	require.ErrorIs(t, err, store.ErrNotFound)
	receipt, err := f.Rollups.CreateRollup(t.Context(), manifestKey, manifestID, manifestDoc(7))
	require.NoError(t, err)
	require.Positive(t, receipt.RUs)
	asOf, etag := readAsOf(t, f)
	require.EqualValues(t, 7, asOf)
	require.NotEmpty(t, etag)
	_, err = f.Rollups.CreateRollup(t.Context(), manifestKey, manifestID, manifestDoc(8))
	require.ErrorIs(t, err, store.ErrExists)
	asOf, _ = readAsOf(t, f)
	require.EqualValues(t, 7, asOf)
	key, id, doc := rollupDoc("velocity", "b1", 8, 10, 0)
	_, err = f.Rollups.CreateRollup(t.Context(), key, id, doc)
	require.NoError(t, err)
	_, err = f.Rollups.CreateRollup(t.Context(), key, id, doc)
	require.ErrorIs(t, err, store.ErrExists)
}

func rollupReplace(t *testing.T, f rollupFixture) {
	f.CreateContainer(rollupContainer)
	_, err := f.Rollups.ReplaceRollup(t.Context(), manifestKey, manifestID, `"none"`, manifestDoc(1))
	require.ErrorIs(t, err, store.ErrChanged)
	_, err = f.Rollups.CreateRollup(t.Context(), manifestKey, manifestID, manifestDoc(1))
	require.NoError(t, err)
	_, first := readAsOf(t, f)
	_, err = f.Rollups.ReplaceRollup(t.Context(), manifestKey, manifestID, first, manifestDoc(2))
	require.NoError(t, err)
	asOf, second := readAsOf(t, f)
	require.EqualValues(t, 2, asOf)
	require.NotEqual(t, first, second)
	_, err = f.Rollups.ReplaceRollup(t.Context(), manifestKey, manifestID, first, manifestDoc(3))
	require.ErrorIs(t, err, store.ErrChanged)
	asOf, _ = readAsOf(t, f)
	require.EqualValues(t, 2, asOf)
}

func rollupRace(t *testing.T, f rollupFixture) {
	f.CreateContainer(rollupContainer)
	_, err := f.Rollups.CreateRollup(t.Context(), manifestKey, manifestID, manifestDoc(0))
	require.NoError(t, err)
	_, etag := readAsOf(t, f)
	const n = 8
	results := make(chan error, n)
	for i := range n {
		go func() {
			_, err := f.Rollups.ReplaceRollup(context.Background(), manifestKey, manifestID, etag, manifestDoc(int64(i+1)))
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

func rollupDelete(t *testing.T, f rollupFixture) {
	f.CreateContainer(rollupContainer)
	key, id, doc := rollupDoc("velocity", "b1", 0, 1, 0)
	_, err := f.Rollups.CreateRollup(t.Context(), key, id, doc)
	require.NoError(t, err)
	for range 2 {
		_, err = f.Rollups.DeleteRollup(t.Context(), key, id)
		require.NoError(t, err)
		_, _, _, err = f.Rollups.ReadRollup(t.Context(), key, id)
		require.ErrorIs(t, err, store.ErrNotFound)
	}
}

func rollupExpiry(t *testing.T, f rollupFixture) {
	f.CreateContainer(rollupContainer)
	key, id, doc := rollupDoc("velocity", "b1", 0, 1, 60)
	_, err := f.Rollups.CreateRollup(t.Context(), key, id, doc)
	require.NoError(t, err)
	require.Len(t, scanned(t, f, store.RollupScan{Key: key, Range: telemetry.Range{From: day.Start(), To: day.End()}}), 1)
	f.Wait(62 * time.Second)
	require.Empty(t, scanned(t, f, store.RollupScan{Key: key, Range: telemetry.Range{From: day.Start(), To: day.End()}}))
}

// scanned returns what a scan yields, as ids, sorted.
func scanned(t *testing.T, f rollupFixture, s store.RollupScan) (out []string) {
	t.Helper()
	charged := 0.0
	s.Charge = func(rus float64) error { charged += rus; return nil }
	usage, err := f.Rollups.ScanRollups(t.Context(), s, func(doc []byte) error {
		d, err := rollup.Parse(doc)
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

func rollupScan(t *testing.T, f rollupFixture) {
	f.CreateContainer(rollupContainer)
	var key store.RollupKey
	for _, metric := range []string{"velocity", "odometer"} {
		for _, batch := range []string{"b1", "b2"} {
			for hour := 0; hour < 24; hour += 2 {
				k, id, doc := rollupDoc(metric, batch, hour, hour+2, 0)
				_, err := f.Rollups.CreateRollup(t.Context(), k, id, doc)
				require.NoError(t, err)
				key = k
			}
		}
	}
	hours := func(from, to int) telemetry.Range {
		return telemetry.Range{From: day.Start() + int64(from)*3_600_000 + 1, To: day.Start() + int64(to)*3_600_000 + 1}
	}
	require.Len(t, scanned(t, f, store.RollupScan{Key: key, Range: hours(0, 24)}), 24)
	require.Equal(t, []string{"odometer.L.2026112004.0.b2", "odometer.L.2026112006.0.b2"},
		scanned(t, f, store.RollupScan{Key: key, Range: hours(5, 7), Batches: []string{"b2"}}))
	require.Equal(t, []string{"odometer.L.2026112004.0.b1", "odometer.L.2026112004.0.b2"},
		scanned(t, f, store.RollupScan{Key: key, Range: hours(4, 6), Batches: []string{"b2", "b1", "b3"}}))
	require.Empty(t, scanned(t, f, store.RollupScan{Key: key, Range: hours(4, 6), Batches: []string{}}))
	whole := key
	whole.Name = ""
	require.Equal(t, []string{"odometer.L.2026112004.0.b2", "velocity.L.2026112004.0.b2"},
		scanned(t, f, store.RollupScan{Key: whole, Names: []string{"odometer.L", "velocity.L", "weight.L"},
			Range: hours(4, 6), Batches: []string{"b2"}}))
	require.Empty(t, scanned(t, f, store.RollupScan{Key: whole, Names: []string{"weight.L"}, Range: hours(4, 6)}))
	other := key
	other.TenantShard = "acme~0"
	require.Empty(t, scanned(t, f, store.RollupScan{Key: other, Range: hours(0, 24)}))

	stop := errors.New("enough")
	_, err := f.Rollups.ScanRollups(t.Context(), store.RollupScan{Key: key, Range: hours(0, 24)},
		func([]byte) error { return stop })
	require.Equal(t, stop, err, "as it is")
	_, err = f.Rollups.ScanRollups(t.Context(), store.RollupScan{Key: key, Range: hours(0, 24),
		Charge: func(float64) error { return stop }}, func([]byte) error { return nil })
	require.Equal(t, stop, err, "as it is")
}

func rollupNoContainer(t *testing.T, f rollupFixture) {
	key, id, doc := rollupDoc("velocity", "b1", 0, 1, 0)
	_, err := f.Rollups.CreateRollup(t.Context(), key, id, doc)
	require.ErrorIs(t, err, store.ErrNoContainer)
	_, _, _, err = f.Rollups.ReadRollup(t.Context(), key, id)
	require.ErrorIs(t, err, store.ErrNoContainer)
	_, err = f.Rollups.ScanRollups(t.Context(), store.RollupScan{Key: key}, func([]byte) error { return nil })
	require.ErrorIs(t, err, store.ErrNoContainer)
}

// rollupClock requires that a read returns the time with which a write at that time is stamped, whether it finds a
// document or not.
func rollupClock(t *testing.T, f rollupFixture) {
	f.CreateContainer(rollupContainer)
	for i := range 3 {
		key, id, doc := rollupDoc(fmt.Sprintf("m%d", i), "b1", 0, 1, 0)
		_, before, _, err := f.Rollups.ReadRollup(t.Context(), key, id)
		require.ErrorIs(t, err, store.ErrNotFound)
		_, err = f.Rollups.CreateRollup(t.Context(), key, id, doc)
		require.NoError(t, err)
		v, after, _, err := f.Rollups.ReadRollup(t.Context(), key, id)
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

func rollupEnded(t *testing.T, f rollupFixture) {
	f.CreateContainer(rollupContainer)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	key, id, doc := rollupDoc("velocity", "b1", 0, 1, 0)
	_, err := f.Rollups.CreateRollup(ctx, key, id, doc)
	require.ErrorIs(t, err, context.Canceled)
	_, _, _, err = f.Rollups.ReadRollup(ctx, key, id)
	require.ErrorIs(t, err, context.Canceled)
	_, err = f.Rollups.ScanRollups(ctx, store.RollupScan{Key: key}, func([]byte) error { return nil })
	require.ErrorIs(t, err, context.Canceled)
}
