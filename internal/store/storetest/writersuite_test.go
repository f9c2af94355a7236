package storetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

func createAndRead(t *testing.T, f fixture) {
	f.CreateContainer(container)
	for _, key := range []sharding.Key{m1, m2} {
		doc := document(key, number(0), 0, 5, 20_000)
		receipt, err := f.Writer.Create(t.Context(), key, number(0).String(), doc)
		require.NoError(t, err)
		require.Positive(t, receipt.RUs)
		got, receipt, err := f.Writer.Read(t.Context(), key, number(0).String(), "")
		require.NoError(t, err)
		require.Positive(t, receipt.RUs)
		sameChunk(t, doc, got)
	}
}

func createOnce(t *testing.T, f fixture) {
	f.CreateContainer(container)
	first, second := document(m1, number(0), 0, 5, 10), document(m1, number(0), 0, 6, 11)
	_, err := f.Writer.Create(t.Context(), m1, number(0).String(), first)
	require.NoError(t, err)
	for _, again := range [][]byte{second, first} {
		_, err = f.Writer.Create(t.Context(), m1, number(0).String(), again)
		require.ErrorIs(t, err, store.ErrExists)
		var exists *store.ExistsError
		require.ErrorAs(t, err, &exists)
		got, _, err := f.Writer.Read(t.Context(), m1, number(0).String(), exists.Session)
		require.NoError(t, err)
		sameChunk(t, first, got)
	}
}

// replaceChunk checks store.Replacer, where the writer is one.
func replaceChunk(t *testing.T, f fixture) {
	r, ok := f.Writer.(store.Replacer)
	require.True(t, ok)
	f.CreateContainer(container)
	first, second := document(m1, number(0), 0, 5, 10), document(m1, number(0), 0, 6, 11)
	version := func(etag string) store.Version { return store.Version{Key: m1, ID: number(0).String(), ETag: etag} }
	_, err := r.ReplaceChunk(t.Context(), version(`"none"`), first)
	require.ErrorIs(t, err, store.ErrChanged)
	_, err = f.Writer.Create(t.Context(), m1, number(0).String(), first)
	require.NoError(t, err)
	etag := func() (found string) {
		_, err := f.Reader.Scan(t.Context(), store.Scan{Key: m1, Range: telemetry.Range{From: day.Start(), To: day.End()}},
			func(doc []byte) error {
				var p struct {
					ETag string `json:"_etag"`
				}
				err := json.Unmarshal(doc, &p)
				found = p.ETag
				return err
			})
		require.NoError(t, err)
		require.NotEmpty(t, found)
		return found
	}
	old := etag()
	receipt, err := r.ReplaceChunk(t.Context(), version(old), second)
	require.NoError(t, err)
	require.Positive(t, receipt.RUs)
	require.NotEqual(t, old, etag())
	_, err = r.ReplaceChunk(t.Context(), version(old), first)
	require.ErrorIs(t, err, store.ErrChanged)
	got, _, err := f.Writer.Read(t.Context(), m1, number(0).String(), "")
	require.NoError(t, err)
	sameChunk(t, second, got)
}

func createUnderOtherKeys(t *testing.T, f fixture) {
	f.CreateContainer(container)
	otherShard := m1
	otherShard.TenantShard = "globex~0"
	for i, key := range []sharding.Key{m1, m2, otherShard} {
		_, err := f.Writer.Create(t.Context(), key, number(0).String(), document(key, number(0), int64(i), 9, 10))
		require.NoError(t, err)
	}
	for i, key := range []sharding.Key{m1, m2, otherShard} {
		got, _, err := f.Writer.Read(t.Context(), key, number(0).String(), "")
		require.NoError(t, err)
		sameChunk(t, document(key, number(0), int64(i), 9, 10), got)
	}
}

func createRace(t *testing.T, f fixture) {
	f.CreateContainer(container)
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			_, err := f.Writer.Create(t.Context(), m1, number(0).String(), document(m1, number(0), 0, int64(i), 10))
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, store.ErrExists) {
				t.Errorf("create: %v", err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, won.Load())
}

func createTooLarge(t *testing.T, f fixture) {
	f.CreateContainer(container)
	_, err := f.Writer.Create(t.Context(), m1, number(0).String(), document(m1, number(0), 0, 5, storetest.MaxDocument))
	require.ErrorIs(t, err, store.ErrTooLarge)
	_, _, err = f.Writer.Read(t.Context(), m1, number(0).String(), "")
	require.ErrorIs(t, err, store.ErrNotFound)
}

// createInFullKey requires that a full key refuses creates and serves reads, and that other keys go on.
func createInFullKey(t *testing.T, f fixture) {
	f.CreateContainer(container)
	const size = storetest.KeyBytes / 10
	n, err := uint32(0), error(nil)
	for ; err == nil && n < 20; n++ {
		_, err = f.Writer.Create(t.Context(), m1, number(n).String(),
			document(m1, number(n), int64(n)*10, int64(n)*10+9, size))
	}
	require.ErrorIs(t, err, store.ErrKeyFull)
	require.InDelta(t, 10, n, 1)
	n-- // the number that is still free
	for range 2 {
		_, err = f.Writer.Create(t.Context(), m1, number(n).String(), document(m1, number(n), 0, 1, size))
		require.ErrorIs(t, err, store.ErrKeyFull)
	}
	tail, _, err := f.Writer.Last(t.Context(), m1, store.Chain{Day: day, Stream: 1, Partition: 3})
	require.NoError(t, err)
	require.Equal(t, n-1, tail.Number)
	_, err = f.Writer.Create(t.Context(), m2, number(0).String(), document(m2, number(0), 0, 1, size))
	require.NoError(t, err)
}

func missingDocument(t *testing.T, f fixture) {
	f.CreateContainer(container)
	_, _, err := f.Writer.Read(t.Context(), m1, number(0).String(), "")
	require.ErrorIs(t, err, store.ErrNotFound)
	_, _, err = f.Writer.Last(t.Context(), m1, store.Chain{Day: day, Stream: 1, Partition: 3})
	require.ErrorIs(t, err, store.ErrNotFound)
	require.Empty(t, scan(t, f, store.Scan{Key: m1, Range: millis(0, 1000)}))
}

func deletedContainer(t *testing.T, f fixture) {
	chain := store.Chain{Day: day, Stream: 1, Partition: 3}
	doc := document(m1, number(0), 0, 5, 10)
	for range 2 {
		_, err := f.Writer.Create(t.Context(), m1, number(0).String(), doc)
		require.ErrorIs(t, err, store.ErrNoContainer)
		_, _, err = f.Writer.Read(t.Context(), m1, number(0).String(), "")
		require.ErrorIs(t, err, store.ErrNoContainer)
		_, _, err = f.Writer.Last(t.Context(), m1, chain)
		require.ErrorIs(t, err, store.ErrNoContainer)
		for _, key := range []sharding.Key{m1, {Container: container, TenantShard: m1.TenantShard}} {
			_, err = f.Reader.Scan(t.Context(), store.Scan{Key: key, Range: millis(0, 1000)},
				func([]byte) error { return errors.New("a document") })
			require.ErrorIs(t, err, store.ErrNoContainer)
		}

		f.CreateContainer(container)
		_, err = f.Writer.Create(t.Context(), m1, number(0).String(), doc)
		require.NoError(t, err)
		require.Len(t, scan(t, f, store.Scan{Key: m1, Range: millis(0, 1000)}), 1)
		_, _, err = f.Writer.Last(t.Context(), m1, chain)
		require.NoError(t, err)
		f.DeleteContainer(container)
	}
}

func lastOfChain(t *testing.T, f fixture) {
	f.CreateContainer(container)
	fill(t, f, m1, 12, 10)
	// Neighbours in the order of ids, and other keys.
	for _, id := range []chunk.ID{
		{Day: day - 1, Stream: 1, Partition: 3}, {Day: day + 1, Stream: 1, Partition: 3},
		{Day: day, Stream: 11, Partition: 3},
		{Day: day, Stream: 2, Partition: 3}, {Day: day, Stream: 1, Partition: 4}, {Day: day, Stream: 1, Partition: 2},
	} {
		shift := int64(id.Day-day) * telemetry.DayMillis
		_, err := f.Writer.Create(t.Context(), m1, id.String(), document(m1, id, shift, shift, 10))
		require.NoError(t, err)
		tail, _, err := f.Writer.Last(t.Context(), m1, store.Chain{Day: id.Day, Stream: id.Stream, Partition: id.Partition})
		require.NoError(t, err)
		require.Equal(t, store.Tail{Number: 0, Through: 9, From: day.Start() + shift, To: day.Start() + shift}, tail)
	}
	fill(t, f, m2, 3, 10)
	chain := store.Chain{Day: day, Stream: 1, Partition: 3}
	tail, receipt, err := f.Writer.Last(t.Context(), m1, chain)
	require.NoError(t, err)
	require.Equal(t, store.Tail{Number: 11, Through: 119, From: day.Start() + 110, To: day.Start() + 119}, tail)
	require.Positive(t, receipt.RUs)
	tail, _, err = f.Writer.Last(t.Context(), m2, chain)
	require.NoError(t, err)
	require.Equal(t, store.Tail{Number: 2, Through: 29, From: day.Start() + 20, To: day.Start() + 29}, tail)
	chain.Partition = 5
	_, _, err = f.Writer.Last(t.Context(), m1, chain)
	require.ErrorIs(t, err, store.ErrNotFound)
}

func contextEnded(t *testing.T, f fixture) {
	f.CreateContainer(container)
	fill(t, f, m1, 1, 10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.Writer.Create(ctx, m1, number(1).String(), document(m1, number(1), 10, 15, 10))
	require.ErrorIs(t, err, context.Canceled)
	_, _, err = f.Writer.Read(ctx, m1, number(0).String(), "")
	require.ErrorIs(t, err, context.Canceled)
	_, _, err = f.Writer.Last(ctx, m1, store.Chain{Day: day, Stream: 1, Partition: 3})
	require.ErrorIs(t, err, context.Canceled)
	_, err = f.Reader.Scan(ctx, store.Scan{Key: m1, Range: millis(0, 1000)}, func([]byte) error { return nil })
	require.ErrorIs(t, err, context.Canceled)
}

// deleteChunk checks store.Deleter, where the writer is one.
func deleteChunk(t *testing.T, f fixture) {
	d, ok := f.Writer.(store.Deleter)
	if !ok {
		t.Skip("it deletes nothing")
	}
	_, err := d.DeleteChunk(t.Context(), m1, number(0).String())
	require.NoError(t, err, "there is no container")
	f.CreateContainer(container)
	fill(t, f, m1, 2, 10)
	for range 2 {
		receipt, err := d.DeleteChunk(t.Context(), m1, number(0).String())
		require.NoError(t, err)
		require.Positive(t, receipt.RUs)
	}
	require.Equal(t, []string{"m1/1"}, scan(t, f, store.Scan{Key: m1, Range: millis(0, 100)}))
}
