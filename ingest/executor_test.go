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
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/stream"

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
