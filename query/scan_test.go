package query_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/querytest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// days stores chunks of devices on each of some days before noon, rows a chunk, three chunks a device and day.
func days(w *querytest.World, devices []string, n, rows int) {
	offset := int64(0)
	for day := range n {
		for _, d := range devices {
			for c := range 3 {
				var records []querytest.Record
				for i := range rows {
					offset++
					at := noon.AddDate(0, 0, day-n+1).Add(time.Duration(-c*rows-i-1) * time.Second)
					records = append(records, record(offset, d, at, float("x", float64(i)), float("y", float64(offset)*1.1)))
				}
				w.Chunk(records...)
			}
		}
	}
	w.Heads.Set(head(0, 1, 1<<40, 0))
}

// When a month does not fit the memory, days do; when a day does not either, the error says what to narrow.
func TestMemory(t *testing.T) {
	devices := []string{"m1", "m2", "m3", "m4", "m5", "m6"}
	w := querytest.New(t, noon)
	days(w, devices, 12, 100)
	registry := prometheus.NewRegistry()
	limited := func(bytes int64) *query.Querier {
		registry = prometheus.NewRegistry()
		return newQuerier(t, w, func(c *query.Config) {
			c.MemoryBytes, c.Fanout, c.Registerer, c.CacheBytes = bytes, 2, registry, -1
		})
	}
	want, res := ask(t, limited(64<<20), query.Request{Tenant: "acme", Range: always})
	require.Len(t, want, 12*6*300)
	month := res.Stats.Documents
	for _, r := range []query.Request{{Tenant: "acme", Range: always}, {Tenant: "acme", Range: always, Devices: devices},
		{Tenant: "acme", Range: always, Descending: true}} {
		q := limited(128 << 10)
		rows, res := ask(t, q, r)
		if r.Descending {
			slices.Reverse(rows)
		}
		sameRows(t, want, rows)
		require.Greater(t, res.Stats.Documents, month, "it was tried by the month")
		require.LessOrEqual(t, peak(t, registry), 128.0*1024)

		_, _, err := tryAsk(t, limited(8<<10), r)
		var tooMuch *query.LimitError
		require.ErrorAs(t, err, &tooMuch)
		require.Contains(t, err.Error(), "ask for a shorter range (from, to)")
		require.Contains(t, err.Error(), "devices (device)")
		require.Contains(t, err.Error(), "name the metrics (metric)")
	}
	one := query.Request{Tenant: "acme", Range: always, Devices: []string{"m1"}}
	for _, one.Descending = range []bool{false, true} {
		rows, _ := ask(t, limited(128<<10), one)
		require.Len(t, rows, 12*300)
		_, _, err := tryAsk(t, limited(4<<10), one)
		require.ErrorAs(t, err, new(*query.LimitError))
		require.NotContains(t, err.Error(), "(device)", "there is but one")
	}
}

func peak(t *testing.T, r *prometheus.Registry) float64 {
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "binnacle_query_peak_bytes" {
			return f.GetMetric()[0].GetHistogram().GetSampleSum()
		}
	}
	t.Fatal("no peak")
	return 0
}

func TestCorruptChunkError(t *testing.T) {
	w := querytest.New(t, noon)
	days(w, []string{"m1"}, 1, 10)
	for name, change := range map[string]func([]byte) []byte{
		"cut":      func(doc []byte) []byte { return doc[:len(doc)/2] },
		"not JSON": func([]byte) []byte { return []byte("x") },
		"foreign": func(doc []byte) []byte {
			foreign, err := chunk.Encode(chunk.Header{
				ID: chunk.ID{Day: telemetry.DayOf(noon.UnixMilli())}, TenantShard: "globex~0", Device: "m1", After: -1,
			}, querytest.FrameOf([]querytest.Record{record(1, "m1", noon, float("secret", 1))}))
			require.NoError(t, err)
			return foreign
		},
	} {
		q := newQuerier(t, w, func(c *query.Config) { c.Reader = &altered{Reader: w.Store, change: change} })
		for _, devices := range [][]string{nil, {"m1"}} {
			rows, _, err := tryAsk(t, q, query.Request{Tenant: "acme", Devices: devices, Range: always})
			require.ErrorIs(t, err, chunk.ErrCorrupt, name)
			require.Empty(t, rows, name)
		}
	}
}

// altered changes documents on their way; nil leaves one out.
type altered struct {
	store.Reader
	change func([]byte) []byte
}

func (a *altered) Scan(ctx context.Context, s store.Scan, yield func([]byte) error) (store.Usage, error) {
	return a.Reader.Scan(ctx, s, func(doc []byte) error {
		if doc = a.change(doc); doc == nil {
			return nil
		}
		return yield(doc)
	})
}

func TestStoreError(t *testing.T) {
	w := querytest.New(t, noon)
	days(w, []string{"m1", "m2"}, 20, 2)
	calls := 0
	var mu sync.Mutex // guards calls
	w.Store.Fault = func(op storetest.Op) *storetest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if calls--; calls == 0 {
			return &storetest.Fault{Err: errors.New("gone")}
		}
		return nil
	}
	q := newQuerier(t, w, nil)
	for _, devices := range [][]string{nil, {"m1"}, {"m1", "m2"}} {
		for _, nth := range []int{1, 2} {
			mu.Lock()
			calls = nth
			mu.Unlock()
			_, res, err := tryAsk(t, q, query.Request{Tenant: "acme", Devices: devices, Range: always})
			if devices != nil && len(devices) < nth {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, query.ErrUnavailable, "%v %d", devices, nth)
			require.False(t, res.Complete)
		}
	}
}

// An error of emit, or a context that ends, ends the query and everything that it has started.
func TestEmitEndsTheQuery(t *testing.T) {
	w := querytest.New(t, noon)
	days(w, []string{"m1", "m2"}, 20, 2)
	q := newQuerier(t, w, nil)
	enough := errors.New("enough")
	for _, devices := range [][]string{nil, {"m1", "m2"}} {
		for _, desc := range []bool{false, true} {
			n := 0
			_, err := q.Readings(t.Context(), query.Request{Tenant: "acme", Devices: devices, Range: always, Descending: desc},
				func(query.Row) error {
					if n++; n == 3 {
						return enough
					}
					return nil
				})
			require.Equal(t, enough, err)
			require.Equal(t, 3, n)
			ctx, cancel := context.WithCancel(t.Context())
			_, err = q.Readings(ctx, query.Request{Tenant: "acme", Devices: devices, Range: always, Descending: desc},
				func(query.Row) error {
					cancel()
					return nil
				})
			if devices != nil {
				require.ErrorIs(t, err, context.Canceled)
			}
		}
	}
}

// A reader that has read a whole chain and sees a gap reads again, or says that the answer is incomplete (R4).
func TestGapsInChains(t *testing.T) {
	w := querytest.New(t, noon)
	days(w, []string{"m1", "m2"}, 1, 2)
	day := telemetry.DayOf(noon.UnixMilli())
	whole := telemetry.Range{From: day.Start(), To: day.End()}
	part := telemetry.Range{From: day.Start() + 1, To: day.End()}
	hidden := 0 // how often chunk 1 of m1 is left out
	q := newQuerier(t, w, func(c *query.Config) {
		c.CacheBytes = -1 // it would know the chunk from the query before
		var mu sync.Mutex // guards hidden
		c.Reader = &altered{w.Store, func(doc []byte) []byte {
			parsed, err := chunk.Parse(doc)
			require.NoError(t, err)
			mu.Lock()
			defer mu.Unlock()
			if parsed.Header.Device == "m1" && parsed.Header.ID.Number == 1 && hidden > 0 {
				hidden--
				return nil
			}
			return doc
		}}
	})
	gap := []string{"the store answers 2 of 3 chunks of device m1, day 20261120"}
	for _, c := range []struct {
		name    string
		devices []string
		r       telemetry.Range
		hidden  int
		rows    int
		missing []string
	}{
		{"no gap", nil, whole, 0, 12, nil},
		{"once, read again", nil, whole, 1, 12, nil},
		{"twice", nil, whole, 2, 10, gap},
		{"of one device, whose rows are out already", []string{"m1"}, whole, 1, 4,
			[]string{"the store returned a chunk of device m1, day 20261120, too late: repeat the query"}},
		{"of one device, twice", []string{"m1"}, whole, 2, 4, gap},
		{"not the whole day, once", nil, part, 1, 12, nil},
		{"not the whole day, twice", nil, part, 2, 10, gap},
	} {
		for _, desc := range []bool{false, true} {
			hidden = c.hidden
			rows, res := ask(t, q, query.Request{Tenant: "acme", Devices: c.devices, Range: c.r, Descending: desc})
			require.Len(t, rows, c.rows, c.name)
			require.Equal(t, c.missing, res.Incomplete, c.name)
			hidden = 0
		}
	}
}

func TestManyQueriesAtOnce(t *testing.T) {
	w := querytest.New(t, noon)
	days(w, []string{"m1", "m2", "m3"}, 4, 20)
	w.Log.Set(9)
	q := newQuerier(t, w, func(c *query.Config) { c.Log = w.Log })
	want, _ := ask(t, q, query.Request{Tenant: "acme", Range: always})
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			r := query.Request{Tenant: "acme", Range: always, Strict: i%4 == 0}
			if i%2 == 0 {
				r.Devices = []string{"m1", "m2", "m3"}
			}
			var rows []query.Row
			res, err := q.Readings(t.Context(), r, func(row query.Row) error {
				row.Values = slices.Clone(row.Values)
				rows = append(rows, row)
				return nil
			})
			if err != nil || !res.Complete || len(rows) != len(want) {
				t.Errorf("query %d: %d rows of %d, %+v, %v", i, len(rows), len(want), res, err)
			}
		})
	}
	all.Wait()
}
