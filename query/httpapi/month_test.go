package httpapi_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/query"
	"binnacle/query/httpapi"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// watched is a client that looks now and then how much memory is in use.
type watched struct {
	discard
	next int64
	peak uint64
}

func (w *watched) Write(b []byte) (int, error) {
	if w.bytes >= w.next {
		w.next = w.bytes + 2<<20
		w.peak = max(w.peak, inUse())
	}
	return w.discard.Write(b)
}

// inUse is what is reachable.
func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A month of readings streams within the memory of a query that has no room for its values, by what is counted and by
// what is in use. (Of Parquet a row group is held.)
func TestMonthIsStreamed(t *testing.T) {
	if testing.Short() {
		t.Skip("what is in use under the race detector says nothing")
	}
	const days, devices, rows, metrics = 30, 6, 240, 10 // rows of each device and day
	w := querytest.New(t, noon)
	w.Tenant("acme")
	rnd := rand.New(rand.NewPCG(1, 1))
	begin := noon.AddDate(0, 0, -days).Truncate(24 * time.Hour)
	named := ""
	for d := range devices {
		device := fmt.Sprintf("m%d", d)
		named += "&device=" + device
		for day := range days {
			var records []querytest.Record
			for i := range rows {
				at := begin.AddDate(0, 0, day).Add(time.Duration(i) * 6 * time.Minute)
				r := record(int64((d*days+day)*rows+i), device, at, nil)
				for m := range metrics {
					r.Fields = append(r.Fields, float(fmt.Sprintf("metric_%d", m), rnd.Float64()))
				}
				records = append(records, r)
			}
			w.Chunk(records...)
		}
	}
	w.Heads.Set(store.PartitionHead{Stream: 1, Position: devices * days * rows})
	now := func() time.Time { return w.Now }
	const memory = 2 << 20 // the values alone are 3.5 MB, decoded or not
	q, err := query.New(query.Config{Reader: w.Store, Heads: w.Heads, Directory: w.Directory, Catalog: w.Catalog,
		MemoryBytes: memory, TotalMemoryBytes: 64 << 20, CacheBytes: -1, Now: now})
	require.NoError(t, err)
	h, err := httpapi.New(httpapi.Config{Querier: q, Now: now})
	require.NoError(t, err)
	for _, c := range []struct {
		asked string
		least int64  // bytes of the answer
		most  uint64 // bytes in use
	}{
		{"format=ndjson" + named, 12 << 20, 10 << 20},
		{"format=ndjson&order=desc", 12 << 20, 10 << 20},
		{"format=parquet" + named, 3 << 20, 40 << 20},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/readings?from=-60d&"+c.asked, nil)
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set(httpapi.TenantHeader, "acme")
		out := &watched{discard: discard{header: http.Header{}, status: 200}}
		before := inUse()
		h.ServeHTTP(out, r)
		require.Equal(t, 200, out.status, c.asked)
		require.Greater(t, out.bytes, c.least, c.asked)
		used := max(out.peak, before) - before
		t.Logf("%s: %d MB, with %.1f MB in use", c.asked, out.bytes>>20, float64(used)/(1<<20))
		require.Less(t, used, c.most, c.asked)
	}
}
