package storetest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

func scanRange(t *testing.T, f fixture) {
	f.CreateContainer(container)
	fill(t, f, m1, 5, 10)
	fill(t, f, m2, 5, 10)
	otherShard := m1
	otherShard.TenantShard = "acme~0"
	fill(t, f, otherShard, 5, 10)
	for _, c := range []struct {
		from, to int64
		want     []string
	}{
		{0, 1000, []string{"m1/0", "m1/1", "m1/2", "m1/3", "m1/4"}},
		{10, 20, []string{"m1/1"}},
		{9, 20, []string{"m1/0", "m1/1"}},
		{10, 21, []string{"m1/1", "m1/2"}},
		{49, 50, []string{"m1/4"}},
		{50, 1000, nil},
		{-1000, 0, nil},
		{12, 13, []string{"m1/1"}},
		{13, 13, []string{"m1/1"}},
	} {
		got := scan(t, f, store.Scan{Key: m1, Range: millis(c.from, c.to)})
		require.Equal(t, c.want, got, "from %d to %d", c.from, c.to)
	}
	missing := m1
	missing.Container = "chunks-2026-12"
	usage, err := f.Reader.Scan(t.Context(), store.Scan{Key: missing, Range: millis(0, 1000)},
		func([]byte) error { return errors.New("a document") })
	require.ErrorIs(t, err, store.ErrNoContainer)
	require.Zero(t, usage.Documents)
}

func scanOrder(t *testing.T, f fixture) {
	f.CreateContainer(container)
	const n = 130 // more than a page
	// Numbers and instants run against each other, so that an order by id would show.
	for i := range n {
		from := int64(n-i) * 10
		_, err := f.Writer.Create(t.Context(), m1, number(uint32(i)).String(),
			document(m1, number(uint32(i)), from, from+9, 10))
		require.NoError(t, err)
	}
	var want []string
	for i := range n {
		want = append(want, fmt.Sprintf("m1/%d", i))
	}
	require.Equal(t, want, scan(t, f, store.Scan{Key: m1, Range: millis(0, 10_000), Descending: true}))
	slices.Reverse(want)
	require.Equal(t, want, scan(t, f, store.Scan{Key: m1, Range: millis(0, 10_000)}))
}

func scanPrefix(t *testing.T, f fixture) {
	f.CreateContainer(container)
	var want []string
	for i := range 40 {
		key := m1
		key.Device = fmt.Sprintf("d%d", i)
		fill(t, f, key, 4, 2000)
		want = append(want, key.Device+"/1", key.Device+"/2")
	}
	otherShard := m1
	otherShard.TenantShard = "acme~4"
	fill(t, f, otherShard, 4, 10)
	prefix := sharding.Key{Container: container, TenantShard: m1.TenantShard}
	require.ElementsMatch(t, want, scan(t, f, store.Scan{Key: prefix, Range: millis(10, 30)}))
	named := prefix
	some := []string{"d3", "d7", "none", "d39"}
	require.ElementsMatch(t, []string{"d3/1", "d3/2", "d7/1", "d7/2", "d39/1", "d39/2"},
		scan(t, f, store.Scan{Key: named, Devices: some, Range: millis(10, 30)}))
	for len(some) < store.MaxScanDevices {
		some = append(some, fmt.Sprintf("a device with a rather long name %d", len(some)))
	}
	require.Len(t, scan(t, f, store.Scan{Key: named, Devices: some, Range: millis(10, 30)}), 6)
	require.Empty(t, scan(t, f, store.Scan{Key: named, Devices: []string{}, Range: millis(10, 30)}))
	prefix.TenantShard = "acme"
	require.Empty(t, scan(t, f, store.Scan{Key: prefix, Range: millis(10, 30)}))
}

func scanSince(t *testing.T, f fixture) {
	f.CreateContainer(container)
	stored := func(of sharding.Key, n uint32) (at int64) {
		_, err := f.Writer.Create(t.Context(), of, number(n).String(),
			document(of, number(n), int64(n)*10, int64(n)*10+9, 10))
		require.NoError(t, err)
		usage, err := f.Reader.Scan(t.Context(), store.Scan{Key: of, Range: millis(int64(n)*10, int64(n)*10+1)},
			func(doc []byte) error {
				var p struct {
					ETag string `json:"_etag"`
					At   int64  `json:"_ts"`
				}
				require.NoError(t, json.Unmarshal(doc, &p))
				require.NotEmpty(t, p.ETag)
				at = p.At
				return nil
			})
		require.NoError(t, err)
		require.InDelta(t, at, usage.Date.Unix(), 1, "the clock that stamps documents")
		return at
	}
	first := stored(m1, 0)
	f.Wait(10 * time.Second)
	second := stored(m1, 1)
	require.InDelta(t, 10, second-first, 1)
	stored(m2, 0)
	f.Wait(10 * time.Second)
	third := stored(m1, 2)
	for _, desc := range []bool{false, true} {
		for since, want := range map[int64][]string{
			0: {"m1/0", "m1/1", "m1/2"}, first: {"m1/0", "m1/1", "m1/2"}, first + 1: {"m1/1", "m1/2"}, second: {"m1/1", "m1/2"},
			third: {"m1/2"}, third + 1: nil,
		} {
			if desc {
				want = slices.Clone(want)
				slices.Reverse(want)
			}
			require.Equal(t, want, scan(t, f, store.Scan{Key: m1, Range: millis(0, 1000), Since: since, Descending: desc}))
		}
	}
	require.Equal(t, []string{"m1/1"}, scan(t, f, store.Scan{Key: m1, Range: millis(0, 20), Since: second}),
		"and of the range")
	require.Equal(t, []string{"m1/0", "m1/1"}, scan(t, f, store.Scan{Key: m1, Range: millis(0, 1000), Before: third}))
	require.Equal(t, []string{"m1/1"},
		scan(t, f, store.Scan{Key: m1, Range: millis(0, 1000), Since: second, Before: third}))
	prefix := sharding.Key{Container: container, TenantShard: m1.TenantShard}
	require.ElementsMatch(t, []string{"m1/1", m2.Device + "/0", "m1/2"},
		scan(t, f, store.Scan{Key: prefix, Range: millis(0, 1000), Since: second}))
	require.ElementsMatch(t, []string{m2.Device + "/0"},
		scan(t, f, store.Scan{Key: prefix, Devices: []string{m2.Device}, Range: millis(0, 1000), Since: second}))
}

// scanWindows requires that a scan with several windows, each with its own since, yields a document of two windows
// once.
func scanWindows(t *testing.T, f fixture) {
	f.CreateContainer(container)
	fill(t, f, m1, 4, 10) // 0 to 9, 10 to 19, …
	var at int64
	_, err := f.Reader.Scan(t.Context(), store.Scan{Key: m1, Range: millis(30, 31)}, func(doc []byte) error {
		var p struct {
			At int64 `json:"_ts"`
		}
		at = max(at, p.At)
		require.NoError(t, json.Unmarshal(doc, &p))
		at = max(at, p.At)
		return nil
	})
	require.NoError(t, err)
	f.Wait(10 * time.Second)
	fill(t, f, m2, 4, 10)
	window := func(from, to, since int64) store.Window { return store.Window{Range: millis(from, to), Since: since} }
	prefix := sharding.Key{Container: container, TenantShard: m1.TenantShard}
	require.ElementsMatch(t, []string{"m1/0", m2.Device + "/0", m2.Device + "/3"},
		scan(t, f, store.Scan{Key: prefix, Windows: []store.Window{window(0, 10, 0), window(30, 40, at+5)}}))
	require.Equal(t, []string{"m1/1", "m1/2", "m1/3"},
		scan(t, f, store.Scan{Key: m1, Windows: []store.Window{window(10, 30, 0), window(25, 40, at-100)}}))
	require.ElementsMatch(t, []string{m2.Device + "/1"}, scan(t, f, store.Scan{Key: prefix, Devices: []string{m2.Device},
		Windows: []store.Window{window(10, 20, at+5), window(30, 40, at+1000)}}))
	var most []store.Window
	for range store.MaxScanWindows {
		most = append(most, window(10, 20, at-100))
	}
	require.Equal(t, []string{"m1/1"}, scan(t, f, store.Scan{Key: m1, Windows: most}))
}

func scanYield(t *testing.T, f fixture) {
	f.CreateContainer(container)
	fill(t, f, m1, 5, 10)
	for _, key := range []sharding.Key{m1, {Container: container, TenantShard: m1.TenantShard}} {
		stop, seen := errors.New("enough"), 0
		usage, err := f.Reader.Scan(t.Context(), store.Scan{Key: key, Range: millis(0, 1000)}, func([]byte) error {
			seen++
			if seen == 2 {
				return stop
			}
			return nil
		})
		require.Equal(t, stop, err, "as it is")
		require.Equal(t, 2, seen)
		require.NotZero(t, usage.Date)
		require.Positive(t, usage.RUs)
		require.Equal(t, 2, usage.Documents)
	}
}

// scanWithin requires that a scan leaves a document alone while yield has it, whatever else is scanned.
func scanWithin(t *testing.T, f fixture) {
	f.CreateContainer(container)
	fill(t, f, m1, 10, 100)
	fill(t, f, m2, 10, 100)
	_, err := f.Reader.Scan(t.Context(), store.Scan{Key: m1, Range: millis(0, 1000)}, func(doc []byte) error {
		before := bytes.Clone(doc)
		_, err := f.Reader.Scan(t.Context(), store.Scan{Key: m2, Range: millis(0, 1000)}, func([]byte) error { return nil })
		require.NoError(t, err)
		require.Equal(t, string(before), string(doc))
		clear(doc) // it is ours
		return nil
	})
	require.NoError(t, err)
	require.Len(t, scan(t, f, store.Scan{Key: m1, Range: millis(0, 1000)}), 10, "and of ours alone")
}

// scanCharge requires that a scan reports its charge as it goes, and ends when that is refused.
func scanCharge(t *testing.T, f fixture) {
	f.CreateContainer(container)
	fill(t, f, m1, 5, 10)
	charged := 0.0
	for _, key := range []sharding.Key{m1, {Container: container, TenantShard: m1.TenantShard}} {
		charged = 0
		usage, err := f.Reader.Scan(t.Context(), store.Scan{Key: key, Range: millis(0, 1000),
			Charge: func(rus float64) error {
				charged += rus
				return nil
			}}, func([]byte) error {
			require.Positive(t, charged, "before the documents")
			return nil
		})
		require.NoError(t, err)
		require.InDelta(t, usage.RUs, charged, 1e-9)

		dear := errors.New("too dear")
		usage, err = f.Reader.Scan(t.Context(), store.Scan{Key: key, Range: millis(0, 1000),
			Charge: func(float64) error { return dear }},
			func([]byte) error { return errors.New("a document") })
		require.Equal(t, dear, err, "as it is")
		require.Positive(t, usage.RUs)
		require.Zero(t, usage.Documents)
	}
}

// scanDropped requires that a scan of a container that is dropped meanwhile fails instead of ending early.
func scanDropped(t *testing.T, f fixture) {
	f.CreateContainer(container)
	const n = 300 // of each key: together more than a page
	for _, key := range []sharding.Key{m1, m2} {
		for i := range n {
			_, err := f.Writer.Create(t.Context(), key, number(uint32(i)).String(),
				document(key, number(uint32(i)), int64(i), int64(i), 10_000))
			require.NoError(t, err)
		}
	}
	prefix := sharding.Key{Container: container, TenantShard: m1.TenantShard}
	seen := 0
	_, err := f.Reader.Scan(t.Context(), store.Scan{Key: prefix, Range: millis(0, 1000)}, func([]byte) error {
		if seen++; seen == 1 {
			f.DeleteContainer(container)
		}
		return nil
	})
	if seen == 2*n {
		require.NoError(t, err, "all of them were read at once")
		return
	}
	require.ErrorIs(t, err, store.ErrNoContainer, "after %d documents", seen)
}
