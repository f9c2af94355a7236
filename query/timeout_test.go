package query_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/merge"
	"binnacle/query/querytest"
	"binnacle/query/read/plan"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// hang waits for the end of the context, as a request does to a service that takes it and never answers.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

type hangingStore struct{}

func (hangingStore) Scan(ctx context.Context, _ store.Scan, _ func([]byte) error) (store.Usage, error) {
	return store.Usage{}, hang(ctx)
}

type hangingCatalog struct{ store.Catalog }

func (hangingCatalog) Pages(ctx context.Context, _ string, _ int64) ([]store.PageInfo, error) {
	return nil, hang(ctx)
}

type storeHeads = store.Heads

type hangingHeads struct{ storeHeads }

func (hangingHeads) Heads(ctx context.Context, _ store.HeadRequest) ([]store.PartitionHead, error) {
	return nil, hang(ctx)
}

func (hangingHeads) CatalogUpdates(ctx context.Context, _ string) (store.HeadUpdates, error) {
	return store.HeadUpdates{}, hang(ctx)
}

type hangingLog struct{}

func (hangingLog) LogEnds(ctx context.Context) ([]store.LogEnd, error) { return nil, hang(ctx) }

// everyQuery is one of each kind.
func everyQuery(q *query.Querier) map[string]func(context.Context) error {
	return everyQueryOf(q, "acme")
}

func everyQueryOf(q *query.Querier, tenant string) map[string]func(context.Context) error {
	r := query.Request{Tenant: tenant, Range: lastHour()}
	named := r
	named.Devices = []string{"m1"}
	search := query.Search{Tenant: tenant, Limit: 10}
	return map[string]func(context.Context) error{
		"readings": func(ctx context.Context) error {
			_, err := q.Readings(ctx, r, func(query.Row) error { return nil })
			return err
		},
		"readings of a device": func(ctx context.Context) error {
			_, err := q.Readings(ctx, named, func(query.Row) error { return nil })
			return err
		},
		"series": func(ctx context.Context) error {
			_, err := q.Series(ctx, r, func(query.Curve) error { return nil })
			return err
		},
		"statistics": func(ctx context.Context) error {
			_, err := q.Statistics(ctx, r, 0, func(query.Statistic) error { return nil })
			return err
		},
		"aggregates": func(ctx context.Context) error {
			buckets, err := merge.EveryStep(merge.Bounds{Range: r.Range, Most: 10}, 0)
			if err != nil {
				return err
			}
			_, err = q.Aggregates(ctx, r, query.Aggregation{Buckets: buckets}, func(query.Aggregated) error { return nil })
			return err
		},
		"latest": func(ctx context.Context) error {
			_, err := q.Latest(ctx, r, func(query.Last) error { return nil })
			return err
		},
		"nearest": func(ctx context.Context) error {
			_, err := q.Nearest(ctx, named, func(query.Last) error { return nil })
			return err
		},
		"changes": func(ctx context.Context) error {
			_, err := q.Changes(ctx, r, r.Range.From, func(query.Change) error { return nil })
			return err
		},
		"gaps": func(ctx context.Context) error {
			_, _, err := q.Evidence(ctx, query.GapsRequest{Tenant: tenant, Device: "m1", Range: lastHour(), Sequence: "x"})
			return err
		},
		"attendance": func(ctx context.Context) error {
			_, _, err := q.Attendance(ctx, query.AttendanceRequest{Tenant: tenant, Range: lastHour(), Step: time.Minute,
				Limit: 10})
			return err
		},
		"devices":     func(ctx context.Context) error { _, _, err := q.Devices(ctx, search); return err },
		"metrics":     func(ctx context.Context) error { _, _, err := q.Metrics(ctx, tenant, "", 10); return err },
		"facets":      func(ctx context.Context) error { _, _, _, err := q.Facets(ctx, search, nil); return err },
		"cardinality": func(ctx context.Context) error { _, err := q.Cardinality(ctx, search); return err },
		"admitted":    func(ctx context.Context) error { return q.Admit(ctx, tenant, hang) },
	}
}

// Whatever does not answer, every query ends when its time is over, also those that wait for the same read.
func TestQueryTimeout(t *testing.T) {
	lists := []string{"devices", "metrics", "facets", "cardinality"}
	for name, c := range map[string]struct {
		broken func(*query.Config)
		only   []string // that need what is broken; nil: all but lists
	}{
		"store":   {func(c *query.Config) { c.Reader = hangingStore{} }, nil},
		"heads":   {func(c *query.Config) { c.Heads = hangingHeads{c.Heads} }, nil},
		"catalog": {func(c *query.Config) { c.Catalog = hangingCatalog{c.Catalog} }, append(lists, "attendance", "gaps")},
	} {
		for _, timeout := range []time.Duration{0, time.Second, time.Hour} {
			t.Run(name+" "+timeout.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := querytest.New(t, noon)
					days(w, []string{"m1"}, 1, 2)
					q := newQuerier(t, w, c.broken)
					all := everyQuery(q)
					for _, kind := range lists {
						if c.only == nil {
							delete(all, kind)
						}
					}
					for kind := range all {
						if c.only != nil && !contains(c.only, kind) {
							delete(all, kind)
						}
					}
					for kind, run := range all {
						ctx, want := t.Context(), 30*time.Second
						if timeout > 0 {
							ctx, want = query.WithTimeout(ctx, timeout), min(want, timeout)
						}
						done := make(chan error)
						began := time.Now()
						for range 3 {
							go func() { done <- run(ctx) }()
						}
						for range 3 {
							var late *query.TimeoutError
							require.ErrorAs(t, <-done, &late, kind)
							require.Equal(t, want, late.After, kind)
							require.Equal(t, want, time.Since(began), kind)
						}
					}
				})
			})
		}
	}
}

func contains(all []string, one string) bool {
	for _, s := range all {
		if s == one {
			return true
		}
	}
	return false
}

// A snapshot that has to be read again, and a log that a strict query asks, are waited for no longer either.
func TestQueryTimeoutOfSnapshotAndLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := querytest.New(t, noon)
		days(w, []string{"m1"}, 1, 2)
		w.Heads.OnCall(func() {
			require.NoError(t, w.Directory.AskMonth(context.Background(), "chunks-2026-10", ""))
		})
		q := newQuerier(t, w, func(c *query.Config) { c.Directory = staleDirectory{c.Directory} })
		began := time.Now()
		_, _, err := tryAsk(t, q, query.Request{Tenant: "acme", Range: telemetry.Range{From: 0, To: telemetry.MaxMillis}})
		var late *query.TimeoutError
		require.ErrorAs(t, err, &late)
		require.Equal(t, 30*time.Second, time.Since(began))

		q = newQuerier(t, w, func(c *query.Config) { c.Log = hangingLog{} })
		began = time.Now()
		rows, res := ask(t, q, query.Request{Tenant: "acme", Range: lastHour(), Strict: true})
		require.NotEmpty(t, rows, "there is time left to read")
		require.False(t, res.Complete)
		require.Equal(t, 15*time.Second, time.Since(began))
	})
}

// staleDirectory has no container, and can't read which there are.
type staleDirectory struct{ plan.Directory }

func (staleDirectory) Snapshot() *control.Snapshot { return &control.Snapshot{} }

func (staleDirectory) Refresh(ctx context.Context) (*control.Snapshot, error) { return nil, hang(ctx) }

// That the store does not answer is logged, once in a while, and counted.
func TestSilentStoreIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := querytest.New(t, noon)
		days(w, []string{"m1"}, 1, 2)
		registry := prometheus.NewRegistry()
		var log bytes.Buffer
		q := newQuerier(t, w, func(c *query.Config) {
			c.Reader, c.Registerer, c.Logger = hangingStore{}, registry, slog.New(slog.NewTextHandler(&log, nil))
		})
		for range 3 {
			_, _, err := tryAsk(t, q, query.Request{Tenant: "acme", Range: lastHour()})
			require.ErrorContains(t, err, "the store does not answer within 30s: read chunks of")
		}
		require.Contains(t, log.String(), `msg="the store does not answer" read="read chunks of \"acme~`)
		require.ErrorIs(t, q.Admit(t.Context(), "acme", hang), context.DeadlineExceeded)
		require.NoError(t, testutil.GatherAndCompare(registry, bytes.NewBufferString(`
			# HELP binnacle_query_timeouts_total Queries that exceeded --query-timeout, by what they waited for: store, other.
			# TYPE binnacle_query_timeouts_total counter
			binnacle_query_timeouts_total{waiting_for="other"} 1
			binnacle_query_timeouts_total{waiting_for="store"} 3
		`), "binnacle_query_timeouts_total"))
	})
}

// failingStore fails at each attempt, and then hangs or gives up.
type failingStore struct{ hangs bool }

func (s failingStore) Scan(ctx context.Context, _ store.Scan, _ func([]byte) error) (store.Usage, error) {
	failing := &store.FailingError{Attempts: 7, Status: "410/1007",
		Last: errors.New("cosmos answered 410/1007: of account x")}
	if given := store.PersistenceOf(ctx); given == nil || given.For != 30*time.Second {
		return store.Usage{}, errors.New("the time of the query is 30 s")
	}
	if s.hangs {
		return store.Usage{}, fmt.Errorf("%w: %w", hang(ctx), failing)
	}
	return store.Usage{}, failing
}

// A query that has used its time, or has given up, says what the store has answered, and only that to its client.
func TestQueryTellsHowStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := querytest.New(t, noon)
		days(w, []string{"m1"}, 1, 2)
		for _, s := range []failingStore{{false}, {true}} {
			q := newQuerier(t, w, func(c *query.Config) { c.Reader = s })
			_, _, err := tryAsk(t, q, query.Request{Tenant: "acme", Range: lastHour()})
			require.ErrorContains(t, err, "cosmos answered 410/1007: of account x (attempt 7)")
			require.Equal(t, s.hangs, errors.Is(err, context.DeadlineExceeded))
			require.Equal(t, !s.hangs, errors.Is(err, query.ErrUnavailable))
			require.Equal(t, ": the store answers 410/1007", query.FailureOf(err))
		}
		require.Empty(t, query.FailureOf(errors.New("another one")))
	})
}

// A stream may take as long as its reader takes rows. Its time begins anew with each row, and ends it in the end.
func TestStreamsOutliveTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := querytest.New(t, noon)
		days(w, []string{"m1"}, 1, 20)
		q := newQuerier(t, w, nil)
		began, rows := time.Now(), 0
		_, err := q.Readings(t.Context(), query.Request{Tenant: "acme", Range: lastHour()}, func(query.Row) error {
			rows++
			time.Sleep(7 * time.Second)
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, 60, rows)
		require.Equal(t, 7*time.Minute, time.Since(began))

		_, err = q.Readings(t.Context(), query.Request{Tenant: "acme", Range: lastHour()}, func(query.Row) error {
			time.Sleep(time.Hour)
			return nil
		})
		require.NoError(t, err, "a row that is taken is no time of the query")

		began = time.Now()
		err = q.Admit(t.Context(), "acme", func(ctx context.Context) error {
			_, err := q.Readings(ctx, query.Request{Tenant: "acme", Range: lastHour()}, func(query.Row) error {
				time.Sleep(7 * time.Second)
				return ctx.Err()
			})
			return err
		})
		require.ErrorIs(t, err, context.DeadlineExceeded, "a part of another query is no stream")
		require.Less(t, time.Since(began), 40*time.Second)
	})
}
