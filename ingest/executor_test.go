package ingest_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/worker"
	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/stream"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

// The end of a failure that was logged is logged too, once.
func TestRecoveryIsLogged(t *testing.T) {
	stores := ingesttest.NewStores(t, "2024-10")
	var log syncBuffer
	failures := 3
	stores.Chunks.Fault = func(storetest.Op) *storetest.Fault {
		if failures--; failures >= 0 {
			return &storetest.Fault{Err: store.ErrBusy}
		}
		return nil
	}
	l := ingest.NewLocal(ingest.Config{
		Config: worker.Config{Register: true, Past: -1, RetryBackoff: time.Millisecond},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}, ingest.Stores{Chunks: stores.Chunks, Catalog: stores.Catalog, Streams: stream.NewStreams(stores.Docs),
		Directory: control.NewDirectory(control.DirectoryConfig{Documents: stores.Docs})}, worker.Assignment{Stream: 1})
	for i := range int64(3) {
		value := []byte(`{"tenant":"acme","device":"m1","ts":1730000000000,"values":{"a":1}}`)
		require.NoError(t, l.Take(t.Context(), admit.Record{Offset: i, Time: past, Value: value}))
	}
	require.NoError(t, l.Finish(t.Context()))
	require.Equal(t, 3, strings.Count(log.String(), "attempt failed, will retry"), log.String())
	require.Equal(t, 1, strings.Count(log.String(), "succeeds again"), log.String())
}

// An order erases the rows of a chunk that the store refuses, and the fence of its chain is stored in its place: the
// first chunk of a chain meets none, and the order may have been swept by then (rule E-R8).
func TestChunkThatIsErasedBeforeItIsStored(t *testing.T) {
	stores := ingesttest.NewStores(t, "2024-10")
	directory := control.NewDirectory(control.DirectoryConfig{Documents: stores.Docs})
	orders := erasure.NewOrders(stores.Docs, time.Now)
	stores.Chunks.Fault = func(op storetest.Op) *storetest.Fault {
		if op.Kind != storetest.Create || op.Call > 1 {
			return nil
		}
		o, err := orders.Announce(t.Context(), erasure.Order{Tenant: "acme", To: erasure.EveryDay})
		require.NoError(t, err)
		require.NoError(t, orders.Acknowledge(t.Context(), o.ID, []erasure.Position{{Stream: 1}}))
		_, err = directory.Refresh(t.Context())
		require.NoError(t, err)
		return &storetest.Fault{Err: store.ErrBusy}
	}
	l := ingest.NewLocal(ingest.Config{Config: worker.Config{Register: true, Past: -1, RetryBackoff: time.Millisecond}},
		ingest.Stores{Chunks: stores.Chunks, Catalog: stores.Catalog, Streams: stream.NewStreams(stores.Docs),
			Directory: directory}, worker.Assignment{Stream: 1})
	value := []byte(`{"tenant":"acme","device":"m1","ts":1730000000000,"values":{"a":1}}`)
	require.NoError(t, l.Take(t.Context(), admit.Record{Offset: 0, Time: past, Value: value}))
	require.NoError(t, l.Finish(t.Context()))
	stored := stores.Chunks.Documents()
	require.Len(t, stored, 1)
	c, err := store.ParseStoredChunk(stored[0].Doc)
	require.NoError(t, err)
	require.True(t, c.IsFence())
	require.Zero(t, c.Through)
}

// Of a tenant with a damaged document no orders of erasure are known: no chunk of it is stored meanwhile, not even one
// that was sent before, and no entry of the catalog.
func TestChunkOfATenantThatIsDamagedMeanwhile(t *testing.T) {
	stores := ingesttest.NewStores(t, "2024-10")
	directory := control.NewDirectory(control.DirectoryConfig{Documents: stores.Docs})
	change := func(body func(store.Document) []byte) {
		d, _, err := stores.Docs.Read(t.Context(), tenant.Kind, "acme")
		require.NoError(t, err)
		d.Body = body(d)
		_, err = stores.Docs.Replace(t.Context(), d)
		require.NoError(t, err)
		_, err = directory.Refresh(t.Context())
		require.NoError(t, err)
	}
	var right []byte
	stores.Chunks.Fault = func(op storetest.Op) *storetest.Fault {
		if op.Kind != storetest.Create || op.Call > 1 {
			return nil
		}
		change(func(d store.Document) []byte { right = d.Body; return []byte(`{"epoch":7}`) })
		return &storetest.Fault{Err: store.ErrBusy}
	}
	stores.Catalog.Fault = func(op, _, _ string) *storetest.Fault {
		if op == storetest.OpCreate && right == nil {
			return &storetest.Fault{Err: store.ErrBusy}
		}
		return nil
	}
	l := ingest.NewLocal(ingest.Config{Config: worker.Config{Register: true, Past: -1, RetryBackoff: time.Nanosecond}},
		ingest.Stores{Chunks: stores.Chunks, Catalog: stores.Catalog, Streams: stream.NewStreams(stores.Docs),
			Directory: directory}, worker.Assignment{Stream: 1})
	value := []byte(`{"tenant":"acme","device":"m1","ts":1730000000000,"values":{"a":1}}`)
	require.NoError(t, l.Take(t.Context(), admit.Record{Offset: 0, Time: past, Value: value}))
	l.Drain()
	for range 10 {
		for _, j := range l.Due() {
			require.NoError(t, l.Try(t.Context(), j))
		}
	}
	require.NotNil(t, right)
	require.Empty(t, stores.Chunks.Documents())
	_, isListed := stores.Catalog.Entry("acme", "m1")
	require.False(t, isListed)
	change(func(store.Document) []byte { return right })
	require.NoError(t, l.Finish(t.Context()))
	require.Len(t, stores.Chunks.Documents(), 1)
	_, isListed = stores.Catalog.Entry("acme", "m1")
	require.True(t, isListed)
}
