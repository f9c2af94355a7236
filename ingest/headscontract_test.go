package ingest_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/worker"
	"binnacle/internal/control"
	"binnacle/internal/headhttp"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"
	"binnacle/query/querytest"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// An ingester's head keeps the contract of store.Heads, fed by a broker. A bin is cut when the clock has gone on.
func TestHeadsOfAnIngester(t *testing.T) {
	runHeads(t, func(t *testing.T) headFixture {
		r := newRig(t, 1)
		var later atomic.Int64
		in := r.ingester(func(c *ingest.Config, _ *ingest.Stores) {
			c.Hold, c.Linger = time.Minute, time.Hour // nothing goes between two questions
			c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		})
		r.run(in)
		require.Eventually(t, in.CaughtUp, patience, time.Millisecond)
		return headFixture{
			Heads: in,
			Take: func(offset int64, readings ...telemetry.Reading) {
				var batch []kafka.Message
				for _, reading := range readings {
					batch = append(batch, kafka.Message{Time: time.UnixMilli(reading.Time), Value: decode.AppendJSON(nil, reading)})
				}
				r.publish(0, batch...)
				require.Eventually(t, func() bool {
					heads, err := in.Heads(context.Background(), store.HeadRequest{})
					limits, _ := in.Limits(context.Background(), "") // readings of a new tenant wait until that is registered
					return err == nil && len(heads) == 1 && heads[0].Position == offset+int64(len(readings)) &&
						len(limits.Deferred) == 0
				}, patience, time.Millisecond)
			},
			Store: func() {
				later.Add(int64(2 * time.Minute))
				r.settled()
			},
			Documents: func() [][]byte { return documentsOf(r.Chunks) },
		}
	})
}

// localHeads is a worker alone as store.Heads.
type localHeads struct{ *ingest.Local }

func (l localHeads) Heads(ctx context.Context, r store.HeadRequest) ([]store.PartitionHead, error) {
	return []store.PartitionHead{l.HeadRead(r)}, ctx.Err()
}

func (l localHeads) Devices(ctx context.Context, r store.ListRequest) ([]store.HeadDevice, error) {
	return l.Local.Bins().ListDevices(r), ctx.Err()
}

func (l localHeads) CatalogUpdates(ctx context.Context, tenant string) (store.HeadUpdates, error) {
	return l.Local.Bins().CatalogPending(tenant), ctx.Err()
}

// A worker's head keeps the contract of store.Heads.
func TestHeadsOfAWorker(t *testing.T) {
	runHeads(t, func(t *testing.T) headFixture {
		w, ctx := ingesttest.NewStores(t, "2024-10"), ingesttest.Deadline(t)
		now := time.UnixMilli(past).AddDate(2, 0, 0)
		cfg := ingest.Config{Now: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler),
			Config: worker.Config{Register: true, Topic: topic, Hold: time.Hour, Past: -1, CatalogEvery: -1,
				CatalogWait: -1, Linger: time.Second, CommitEvery: time.Nanosecond, StampEvery: time.Hour,
				RetryBackoff: time.Nanosecond}}
		dir := control.NewDirectory(control.DirectoryConfig{Documents: w.Docs, Now: cfg.Now})
		_, err := dir.Refresh(ctx)
		require.NoError(t, err)
		l := ingest.NewLocal(cfg, ingest.Stores{Chunks: w.Chunks, Catalog: w.Catalog, Directory: dir,
			Streams: stream.NewStreams(w.Docs)}, worker.Assignment{Stream: 1, Owner: 1 << 32})
		return headFixture{
			Heads: localHeads{l},
			Take: func(offset int64, readings ...telemetry.Reading) {
				for i, r := range readings {
					rec := admit.Record{Offset: offset + int64(i), Time: r.Time, Value: decode.AppendJSON(nil, r)}
					require.NoError(t, l.Take(ctx, rec))
				}
			},
			Store: func() {
				require.NoError(t, l.Finish(ctx))
				now = now.Add(time.Minute) // stored rows linger in heads for less
				require.NoError(t, l.Step(ctx))
			},
			Documents: func() [][]byte { return documentsOf(w.Chunks) },
		}
	})
}

func documentsOf(m *storetest.Memory) (docs [][]byte) {
	for _, d := range m.Documents() {
		docs = append(docs, d.Doc)
	}
	return docs
}

// The heads of queries' tests keep the contract of store.Heads.
func TestHeadsOfAWorld(t *testing.T) { runHeads(t, worldHeads) }

// Heads over HTTP keep the contract of store.Heads that they keep without.
func TestHeadsOverHTTP(t *testing.T) {
	runHeads(t, func(t *testing.T) headFixture {
		f := worldHeads(t)
		server := httptest.NewServer(headhttp.Handler(headhttp.HandlerConfig{
			Heads: f.Heads, Secret: func() string { return "secret" }, Logger: slog.New(slog.DiscardHandler),
		}))
		t.Cleanup(server.Close)
		f.Heads = headhttp.NewClient(headhttp.ClientConfig{
			Targets: func(context.Context) ([]string, error) { return []string{server.URL}, nil },
			Secret:  func() string { return "secret" }, Timeout: time.Minute,
		})
		return f
	})
}

// worldHeads returns the heads of an empty world.
func worldHeads(t *testing.T) headFixture {
	w := querytest.New(t, time.Date(2024, 10, 28, 12, 0, 0, 0, time.UTC))
	var (
		mu       sync.Mutex // guards what is stored
		open     []querytest.Record
		position int64
	)
	show := func() { w.Heads.SetOnly(store.PartitionHead{Stream: 1, Position: position, Owner: 1}, open...) }
	show()
	return headFixture{
		Heads: w.Heads,
		Take: func(offset int64, readings ...telemetry.Reading) {
			for i, r := range readings {
				at := telemetry.Position{Stream: 1, Offset: offset + int64(i)}
				open = append(open, querytest.Record{Position: at, Reading: r})
			}
			position = offset + int64(len(readings))
			show()
		},
		Store: func() {
			type chain struct {
				tenant, device string
				store.Chain
			}
			bins := make(map[chain][]querytest.Record)
			for _, r := range open {
				of := chain{r.Tenant, r.Device, store.Chain{Day: telemetry.DayOf(r.Time), Stream: 1}}
				bins[of] = append(bins[of], r)
			}
			mu.Lock()
			for _, records := range bins {
				w.Chunk(records...)
			}
			mu.Unlock()
			open = nil
			show()
		},
		Documents: func() [][]byte {
			mu.Lock()
			defer mu.Unlock()
			return documentsOf(w.Store)
		},
	}
}
