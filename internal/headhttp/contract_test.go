package headhttp_test

import (
	"log/slog"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"binnacle/internal/headhttp"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/query/querytest"
)

// The heads of queries' tests keep the contract of store.Heads.
func TestHeadsOfAWorld(t *testing.T) { storetest.RunHeads(t, headFixture) }

// Heads over HTTP keep the contract of store.Heads that they keep without.
func TestHeadsContract(t *testing.T) {
	storetest.RunHeads(t, func(t *testing.T) storetest.HeadFixture {
		f := headFixture(t)
		server := httptest.NewServer(headhttp.Handler(headhttp.HandlerConfig{
			Heads: f.Heads, Secret: func() string { return "secret" }, Logger: slog.New(slog.DiscardHandler),
		}))
		t.Cleanup(server.Close)
		f.Heads = client("secret", server.URL)
		return f
	})
}

// headFixture returns the heads of an empty world, for the suite of store.Heads.
func headFixture(t *testing.T) storetest.HeadFixture {
	w := querytest.New(t, time.Date(2024, 10, 28, 12, 0, 0, 0, time.UTC))
	var (
		mu       sync.Mutex // guards what is stored
		open     []querytest.Record
		position int64
	)
	show := func() { w.Heads.SetOnly(store.PartitionHead{Stream: 1, Position: position, Owner: 1}, open...) }
	show()
	return storetest.HeadFixture{
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
		Documents: func() (docs [][]byte) {
			mu.Lock()
			defer mu.Unlock()
			for _, d := range w.Store.Documents() {
				docs = append(docs, d.Doc)
			}
			return docs
		},
	}
}
