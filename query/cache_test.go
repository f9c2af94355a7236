package query_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/querytest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// seriesOf is the series of a request, one line each.
func seriesOf(t *testing.T, q *query.Querier, r query.Request) (lines []string, res query.Result) {
	t.Helper()
	res, err := q.Series(t.Context(), r, func(c query.Curve) error {
		line := fmt.Sprintf("%s %v %s", c.Device, c.Labels, c.Metric)
		for _, s := range c.Stretches {
			line += fmt.Sprintf(" %v %v %v %v", s.Kind, s.Times, s.Bits, s.Texts)
		}
		lines = append(lines, line)
		return nil
	})
	require.NoError(t, err)
	return lines, res
}

// What was read before is not read again: only what was stored since, give or take the clocks.
func TestCacheReadsOnlyNewChunks(t *testing.T) {
	w := querytest.New(t, noon)
	days(w, []string{"m1", "m2"}, 3, 2)
	registry := prometheus.NewRegistry()
	q := newQuerier(t, w, func(c *query.Config) { c.Registerer = registry })
	w.Now = w.Now.Add(10 * time.Minute)
	day := telemetry.Range{From: noon.AddDate(0, 0, -1).UnixMilli(), To: w.Now.UnixMilli()}
	r := query.Request{Tenant: "acme", Range: day, Metrics: []string{"x"}}
	first, res := seriesOf(t, q, r)
	require.Len(t, first, 2)
	require.Equal(t, []int{6, 0}, []int{res.Stats.Documents, res.Stats.Cached})

	again, res := seriesOf(t, q, r)
	require.Equal(t, first, again)
	require.Equal(t, []int{0, 6}, []int{res.Stats.Documents, res.Stats.Cached})
	rows, res := ask(t, q, r)
	require.Len(t, rows, 12)
	require.Equal(t, []int{0, 6}, []int{res.Stats.Documents, res.Stats.Cached}, "rows, too")

	w.Now = w.Now.Add(10 * time.Minute)
	w.Chunk(record(1000, "m1", noon.Add(5*time.Minute), float("x", 7), float("y", 1)))
	r.Range.To = w.Now.UnixMilli()
	r.Range.From += 20 * time.Minute.Milliseconds()
	later, res := seriesOf(t, q, r)
	require.Equal(t, []int{1, 6}, []int{res.Stats.Documents, res.Stats.Cached}, "a dashboard's next look")
	require.NotEqual(t, first, later)
	fresh, _ := seriesOf(t, newQuerier(t, w, nil), r)
	require.Equal(t, fresh, later)

	r.Range.From -= 24 * time.Hour.Milliseconds()
	longer, res := seriesOf(t, q, r)
	require.Equal(t, []int{7, 7}, []int{res.Stats.Documents, res.Stats.Cached},
		"a longer range reads what lies before; the new one is as new as the clocks are apart")
	fresh, _ = seriesOf(t, newQuerier(t, w, nil), r)
	require.Equal(t, fresh, longer)
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
		# HELP binnacle_query_cache_documents_total Chunks of answers, by whether they were read before (hit) or for this answer (miss).
		# TYPE binnacle_query_cache_documents_total counter
		binnacle_query_cache_documents_total{result="hit"} 25
		binnacle_query_cache_documents_total{result="miss"} 14
	`), "binnacle_query_cache_documents_total"))
}

// A document that was put in the place of another is another one, by its ETag; one that is gone, or has expired, is not
// answered for ever.
func TestCacheDropsReplacedAndDeletedChunks(t *testing.T) {
	w := querytest.New(t, noon)
	days(w, []string{"m1"}, 1, 2)
	w.Heads.Forget()
	q := newQuerier(t, w, func(c *query.Config) { c.CacheAge = time.Hour })
	r := query.Request{Tenant: "acme", Range: lastHour()}
	w.Now = w.Now.Add(10 * time.Minute)
	first, _ := seriesOf(t, q, r)

	docs := w.Store.Documents()
	last := docs[len(docs)-1]
	c, err := chunk.Parse(last.Doc)
	require.NoError(t, err)
	f, err := c.Frame(nil)
	require.NoError(t, err)
	f.Groups[0].Columns[0].Bits[0] = telemetry.FloatValue(99).Bits()
	changed, err := chunk.Encode(c.Header, f)
	require.NoError(t, err)
	w.Now = w.Now.Add(10 * time.Minute)
	w.Store.Damage(last.Key, last.ID, changed)
	second, _ := seriesOf(t, q, r)
	require.NotEqual(t, first, second)
	uncached, _ := seriesOf(t, newQuerier(t, w, nil), r)
	require.Equal(t, uncached, second, "replaced")

	w.Now = w.Now.Add(10 * time.Minute)
	w.Store.Damage(last.Key, last.ID, nil)
	third, _ := seriesOf(t, q, r)
	require.Equal(t, second, third, "nothing shows that it is gone")
	w.Now = w.Now.Add(40 * time.Minute)
	fourth, res := seriesOf(t, q, r)
	require.Equal(t, 2, res.Stats.Documents, "an hour after it was read it is all read again")
	uncached, _ = seriesOf(t, newQuerier(t, w, nil), r)
	require.Equal(t, uncached, fourth)

	c.Header.TTL, c.Header.Cut = 3600, w.Now.UnixMilli()
	expiring, err := chunk.Encode(c.Header, f)
	require.NoError(t, err)
	w.Store.Damage(last.Key, last.ID, expiring)
	fifth, _ := seriesOf(t, q, r)
	require.Equal(t, second, fifth)
	w.Now = w.Now.Add(59 * time.Minute)
	sixth, _ := seriesOf(t, q, r)
	require.Equal(t, second, sixth)
	w.Store.Damage(last.Key, last.ID, nil)
	w.Now = w.Now.Add(time.Minute)
	seventh, _ := seriesOf(t, q, r)
	require.Equal(t, fourth, seventh, "its time to live is over")
}

// A copy of a chunk (rule T5) has the cut of its source, and lives for the rest of its time from when it was stored.
func TestCacheShowsCopiedChunks(t *testing.T) {
	w := querytest.New(t, noon)
	days(w, []string{"m1"}, 1, 2)
	w.Heads.Forget()
	docs := w.Store.Documents()
	last := docs[len(docs)-1]
	c, err := chunk.Parse(last.Doc)
	require.NoError(t, err)
	f, err := c.Frame(nil)
	require.NoError(t, err)
	c.Header.TTL, c.Header.Cut = 3600, w.Now.Add(-2*time.Hour).UnixMilli()
	copied, err := chunk.Encode(c.Header, f)
	require.NoError(t, err)
	q, r := newQuerier(t, w, nil), query.Request{Tenant: "acme", Range: lastHour()}
	first, _ := seriesOf(t, q, r)
	w.Store.Damage(last.Key, last.ID, copied)
	w.Now = w.Now.Add(10 * time.Minute)
	again, res := seriesOf(t, newQuerier(t, w, nil), r)
	require.True(t, res.Complete)
	require.Equal(t, first, again)
}

// A container that is dropped takes what is known of it along.
func TestCacheDropsDeletedContainer(t *testing.T) {
	w := querytest.New(t, noon)
	days(w, []string{"m1"}, 1, 2)
	q := newQuerier(t, w, nil)
	r := query.Request{Tenant: "acme", Range: lastHour()}
	first, _ := seriesOf(t, q, r)
	require.NotEmpty(t, first)
	for _, d := range w.Store.Documents() {
		w.Store.DeleteContainer(d.Key.Container)
	}
	_, err := q.Series(t.Context(), r, func(query.Curve) error { return nil })
	require.ErrorIs(t, err, query.ErrUnavailable, "it has not expired")
}

// Equal queries that run at the same time read once, or twice where the first has begun to read before the second was
// asked; and none misses what was stored before it was asked.
func TestCacheSharesReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := querytest.New(t, noon)
		days(w, []string{"m1"}, 1, 2)
		w.Now = w.Now.Add(10 * time.Minute)
		q := newQuerier(t, w, nil)
		var mu sync.Mutex // guards scans
		scans := 0
		w.Store.Fault = func(op storetest.Op) *storetest.Fault {
			if op.Kind == storetest.Scan {
				mu.Lock()
				scans++
				mu.Unlock()
				time.Sleep(time.Second)
			}
			return nil
		}
		r := query.Request{Tenant: "acme", Devices: []string{"m1"}, Range: lastHour(), Metrics: []string{"x"}}
		var all sync.WaitGroup
		run := func(values int) {
			all.Go(func() {
				n := 0
				res, err := q.Series(t.Context(), r, func(c query.Curve) error {
					for _, s := range c.Stretches {
						n += len(s.Times)
					}
					return nil
				})
				require.NoError(t, err)
				require.True(t, res.Complete)
				require.Equal(t, values, n)
			})
		}
		run(7) // the store looks when the second is over
		synctest.Wait()
		w.Chunk(record(1000, "m1", noon.Add(-30*time.Minute), float("x", 1)))
		for range 8 {
			run(7)
		}
		all.Wait()
		require.Equal(t, 2, scans)
	})
}

// An answer from what another query has read is held against what heads know to be stored, too: a replica that lags
// makes both incomplete.
func TestCacheSharedReadMayLackChunks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := querytest.New(t, noon)
		days(w, []string{"m1"}, 1, 2)
		w.Now = w.Now.Add(10 * time.Minute)
		w.Heads.SetOnly(store.PartitionHead{Stream: 1, Position: 1 << 40, Owner: 1})
		last := w.Store.Documents()[2]
		q := newQuerier(t, w, func(c *query.Config) {
			c.Reader = scanner(func(ctx context.Context, s store.Scan, yield func([]byte) error) (store.Usage, error) {
				time.Sleep(time.Second)
				return w.Store.Scan(ctx, s, func(doc []byte) error {
					if c, err := chunk.Parse(doc); err != nil || c.Header.ID.String() == last.ID {
						return err
					}
					return yield(doc)
				})
			})
		})
		r := query.Request{Tenant: "acme", Range: lastHour(), Metrics: []string{"x"}}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				lines, res := seriesOf(t, q, r)
				require.Len(t, lines, 1)
				require.NotEmpty(t, res.Incomplete)
			})
		}
		all.Wait()
	})
}

// A query that has waited for others takes what they have read only as far as it goes.
func TestCacheSharedReadMayBeShorter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := querytest.New(t, noon)
		for i := range int64(10) {
			w.Chunk(record(i, "m1", noon.Add(-time.Duration(i)*30*time.Minute), float("x", float64(i))))
		}
		w.Heads.Set(head(0, 1, 1<<40, 0))
		w.Store.Fault = func(op storetest.Op) *storetest.Fault {
			if op.Kind == storetest.Scan {
				time.Sleep(time.Second)
			}
			return nil
		}
		q := newQuerier(t, w, nil)
		var all sync.WaitGroup
		for _, from := range []time.Duration{-4 * time.Hour, -4 * time.Hour, -5 * time.Hour} {
			r := query.Request{Tenant: "acme", Metrics: []string{"x"}, Devices: []string{"m1"},
				Range: telemetry.Range{From: noon.Add(from).UnixMilli(), To: noon.Add(-90 * time.Minute).UnixMilli()}}
			all.Go(func() {
				got, res := seriesOf(t, q, r)
				want, _ := seriesOf(t, newQuerier(t, w, nil), r)
				require.Equal(t, want, got)
				require.Zero(t, res.Stats.Reread, "nothing was missing")
			})
			synctest.Wait()
		}
		all.Wait()
	})
}

// The query that reads for others may end: one of them reads then. And the store is not read for nobody.
func TestCacheSharedReadSurvivesCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := querytest.New(t, noon)
		days(w, []string{"m1"}, 1, 2)
		ended := 0
		q := newQuerier(t, w, func(c *query.Config) {
			c.Timeout = 24 * time.Hour
			c.Reader = scanner(func(ctx context.Context, s store.Scan, yield func([]byte) error) (store.Usage, error) {
				select {
				case <-time.After(time.Minute):
				case <-ctx.Done():
					ended++
					return store.Usage{}, ctx.Err()
				}
				return w.Store.Scan(ctx, s, yield)
			})
		})
		r := query.Request{Tenant: "acme", Devices: []string{"m1"}, Range: lastHour()}
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			_, err := q.Series(ctx, r, func(query.Curve) error { return errors.New("an answer") })
			require.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		for range 3 {
			all.Go(func() {
				lines, _ := seriesOf(t, q, r)
				require.Len(t, lines, 2)
			})
		}
		synctest.Wait()
		leave()
		all.Wait()
		require.Equal(t, 1, ended)
	})
}

// A query of a short range does not wait while a much longer one of the same key is read.
func TestCacheShortRangeDoesNotWaitForLongOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := querytest.New(t, noon)
		days(w, []string{"m1"}, 3, 2)
		month := telemetry.Range{From: noon.AddDate(0, 0, -19).UnixMilli(), To: noon.UnixMilli()}
		q := newQuerier(t, w, func(c *query.Config) {
			c.Timeout = 24 * time.Hour
			c.Reader = scanner(func(ctx context.Context, s store.Scan, yield func([]byte) error) (store.Usage, error) {
				if s.Range.To-s.Range.From > 2*telemetry.DayMillis && s.Range.From < month.To-3*telemetry.DayMillis {
					time.Sleep(time.Minute)
				}
				return w.Store.Scan(ctx, s, yield)
			})
		})
		r := query.Request{Tenant: "acme", Devices: []string{"m1"}, Range: month, Metrics: []string{"x"}}
		var all sync.WaitGroup
		began := time.Now()
		all.Go(func() {
			lines, _ := seriesOf(t, q, r)
			require.Len(t, lines, 1)
			require.Equal(t, time.Minute, time.Since(began))
		})
		synctest.Wait()
		short := r
		short.Range = lastHour()
		lines, res := seriesOf(t, q, short)
		require.Len(t, lines, 1)
		require.Equal(t, []int{3, 0}, []int{res.Stats.Documents, res.Stats.Cached})
		require.Zero(t, time.Since(began))
		all.Wait()
		_, res = seriesOf(t, q, short)
		require.Equal(t, 3, res.Stats.Cached, "afterwards it is known")
	})
}

// A query that waits for a short range does not read a long one for others that have come to wait too, under limits of
// its own.
func TestCacheShortRangeIsNotWidened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := querytest.New(t, noon)
		days(w, []string{"m1"}, 3, 2)
		w.Now = w.Now.Add(10 * time.Minute)
		q := newQuerier(t, w, func(c *query.Config) {
			c.Timeout = 24 * time.Hour
			c.Reader = scanner(func(ctx context.Context, s store.Scan, yield func([]byte) error) (store.Usage, error) {
				pause := time.Minute
				if s.Range.From < noon.AddDate(0, 0, -2).UnixMilli() {
					pause = time.Hour
				}
				time.Sleep(pause)
				return w.Store.Scan(ctx, s, yield)
			})
		})
		short := query.Request{Tenant: "acme", Devices: []string{"m1"}, Range: lastHour(), Metrics: []string{"x"}}
		long := short
		long.Range.From = noon.AddDate(0, 0, -19).UnixMilli()
		var all sync.WaitGroup
		began := time.Now()
		ask := func(r query.Request, took time.Duration) {
			all.Go(func() {
				lines, _ := seriesOf(t, q, r)
				require.Len(t, lines, 1)
				require.LessOrEqual(t, time.Since(began), took)
			})
			synctest.Wait()
		}
		ask(short, time.Minute)
		ask(short, 2*time.Minute)
		ask(long, time.Hour+5*time.Minute)
		ask(short, 3*time.Minute) // by itself
		all.Wait()
	})
}

// A long read that nobody waits for any more before it has begun does not keep others from what is known.
func TestCacheDropsRangeNobodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := querytest.New(t, noon)
		days(w, []string{"m1"}, 3, 2)
		w.Now = w.Now.Add(10 * time.Minute)
		slow := true
		q := newQuerier(t, w, func(c *query.Config) {
			c.Timeout = 24 * time.Hour
			c.Reader = scanner(func(ctx context.Context, s store.Scan, yield func([]byte) error) (store.Usage, error) {
				if slow {
					time.Sleep(time.Minute)
				}
				return w.Store.Scan(ctx, s, yield)
			})
		})
		short := query.Request{Tenant: "acme", Devices: []string{"m1"}, Range: lastHour(), Metrics: []string{"x"}}
		long := short
		long.Range.From = noon.AddDate(0, 0, -19).UnixMilli()
		var all sync.WaitGroup
		all.Go(func() {
			lines, _ := seriesOf(t, q, short)
			require.Len(t, lines, 1)
		})
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		for range 2 {
			all.Go(func() {
				_, err := q.Series(ctx, long, func(query.Curve) error { return errors.New("an answer") })
				require.ErrorIs(t, err, context.Canceled)
			})
		}
		synctest.Wait()
		leave()
		all.Wait()
		slow = false
		_, res := seriesOf(t, q, short)
		require.Equal(t, []int{0, 3}, []int{res.Stats.Documents, res.Stats.Cached})
	})
}

// scanner is a store.Reader.
type scanner func(ctx context.Context, s store.Scan, yield func([]byte) error) (store.Usage, error)

func (f scanner) Scan(ctx context.Context, s store.Scan, yield func([]byte) error) (store.Usage, error) {
	return f(ctx, s, yield)
}

// A query of its own limits does not fail those who wait for it.
func TestCacheLimitErrorIsNotShared(t *testing.T) {
	w := querytest.New(t, noon)
	days(w, []string{"m1", "m2", "m3"}, 2, 50)
	q := newQuerier(t, w, func(c *query.Config) { c.MemoryBytes, c.TotalMemoryBytes = 24<<10, 10<<20 })
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			r := query.Request{Tenant: "acme", Range: lastHour(), Metrics: []string{"x"}, Devices: []string{"m1"}}
			if i%2 == 0 {
				r.Range = always
			}
			_, err := q.Series(t.Context(), r, func(query.Curve) error { return nil })
			if i%2 == 1 {
				require.NoError(t, err)
			} else if err != nil {
				require.ErrorAs(t, err, new(*query.LimitError))
			}
		})
	}
	all.Wait()
}
