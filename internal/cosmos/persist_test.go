package cosmos_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/lab/emulator/fault"
	"binnacle/internal/store"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

// failed is an answer of a store that fails for the moment, and charges a request unit for it.
func failed(status, substatus int) answer {
	return answer{status: status, body: `{"code":"x","message":"not now"}`, headers: map[string]string{
		"x-ms-request-charge": "1", "x-ms-substatus": strconv.Itoa(substatus)}}
}

func page(documents, next string) answer {
	a := answer{status: 200, body: `{"Documents":[` + documents + `]}`,
		headers: map[string]string{"x-ms-request-charge": "3"}}
	if next != "" {
		a.headers["x-ms-continuation"] = next
	}
	return a
}

// scanned returns the documents of a scan.
func scanned(ctx context.Context, c *cosmos.Client) (docs []string, usage store.Usage, err error) {
	usage, err = c.Chunks().Scan(ctx, store.Scan{Key: key, Range: anytime}, func(doc []byte) error {
		docs = append(docs, string(doc))
		return nil
	})
	return docs, usage, err
}

// A read goes on where the store has failed for the moment: each document comes once, and each attempt is paid for.
func TestReadsAreSentAgainWhileStoreFails(t *testing.T) {
	reset := answer{err: &netError{syscall.ECONNRESET}}
	cut := page(`{"id":"b"}`, "")
	cut.body, cut.broken = cut.body[:20], &netError{syscall.ECONNRESET}
	for name, c := range map[string]struct {
		fails answer
		sent  int // how often the SDK sends it for each attempt of ours
		paid  float64
	}{
		"408": {failed(408, 0), 2, 2}, "410 of a split under way": {failed(410, 1007), 1, 1},
		"410 of a partition that is gone": {failed(410, 1002), 1, 1}, "410": {failed(410, 0), 1, 1},
		"449": {failed(449, 0), 1, 1}, "500": {failed(500, 0), 2, 2}, "502": {failed(502, 0), 2, 2},
		"503": {failed(503, 0), 1, 1}, "504": {failed(504, 0), 2, 2},
		"lost connection": {reset, 1, 0}, "cut page": {cut, 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: []answer{page(`{"id":"a"}`, "more")}}
				for range 2 * c.sent {
					s.answers = append(s.answers, c.fails)
				}
				s.answers = append(s.answers, page(`{"id":"b"},{"id":"c"}`, ""))
				client, waits := client(t, s, nil)
				docs, usage, err := scanned(t.Context(), client)
				require.NoError(t, err)
				require.Equal(t, []string{`{"id":"a"}`, `{"id":"b"}`, `{"id":"c"}`}, docs)
				require.Equal(t, []time.Duration{25 * time.Millisecond, 50 * time.Millisecond}, *waits)
				require.InDelta(t, 3+2*c.paid+3, usage.RUs, 1e-9)
				require.Empty(t, s.answers)
			})
		})
	}
}

type netError struct{ syscall.Errno }

func (e *netError) Error() string { return "read tcp: " + e.Errno.Error() }

// What another attempt does not mend is an error at once, and so is what its caller sends again.
func TestWhatIsNotSentAgain(t *testing.T) {
	create := func(ctx context.Context, c *cosmos.Client) error {
		_, err := c.Chunks().Create(ctx, key, "x", []byte(`{}`))
		return err
	}
	scan := func(ctx context.Context, c *cosmos.Client) error {
		_, _, err := scanned(ctx, c)
		return err
	}
	for name, c := range map[string]struct {
		fails answer
		send  func(context.Context, *cosmos.Client) error
	}{
		"bad request": {failed(400, 0), scan}, "forbidden": {failed(403, 5300), scan},
		"no container": {failed(404, 1003), scan}, "create of a chunk": {failed(503, 0), create},
		"lost create of a chunk": {answer{err: &netError{syscall.EPIPE}}, create},
		"drop of a container": {failed(503, 0), func(ctx context.Context, c *cosmos.Client) error {
			return c.Containers().Delete(ctx, "chunks-2026-11")
		}},
		"item of a load test": {failed(503, 0), func(ctx context.Context, c *cosmos.Client) error {
			_, err := c.Items("naive").Create(ctx, []string{"a"}, "x", []byte(`{"id":"x"}`))
			return err
		}},
		"query of a physical partition that is gone": {failed(410, 1002), func(ctx context.Context, c *cosmos.Client) error {
			return c.Foreign("other", "things").Query(ctx, "7", cosmos.ForeignQuery{SQL: "SELECT * FROM c"},
				func([]byte) error { return nil })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: []answer{created("1"), c.fails}}
				client, waits := client(t, s, nil)
				require.NoError(t, create(t.Context(), client))
				require.Error(t, c.send(t.Context(), client))
				require.Empty(t, *waits)
				require.Empty(t, s.answers)
			})
		})
	}
}

// While the store fails a request is sent again for as long as its context says; then its error has the last answer.
func TestPersistenceEnds(t *testing.T) {
	for name, c := range map[string]struct {
		ctx  func(context.Context) (context.Context, context.CancelFunc)
		took time.Duration
	}{
		"of a query": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return store.WithPersistence(ctx, 5*time.Second), func() {}
		}, 5 * time.Second},
		"until a deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 7*time.Second)
		}, 7 * time.Second},
		"of nobody": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return ctx, func() {}
		}, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, client := openEmulator(t, emulator.Config{Unlimited: true, Now: time.Now}, nil)
				require.NoError(t, client.Containers().Create(t.Context(), key.Container, small))
				require.NoError(t, server.Faults().Replace(1, fault.Rule{Operations: []string{fault.Query}, Status: 503,
					LatencyMs: 100}))
				ctx, cancel := c.ctx(t.Context())
				defer cancel()
				began := time.Now()
				_, _, err := scanned(ctx, client)
				require.LessOrEqual(t, time.Since(began), c.took+200*time.Millisecond, "a pause, and the last attempt")
				require.Greater(t, time.Since(began), c.took/2)
				var failing *store.FailingError
				require.ErrorAs(t, err, &failing)
				require.Equal(t, "the store answers 503", failing.Answer())
				require.InDelta(t, server.Faults().State().Rules[0].Hits, failing.Attempts, 1, "the end may come in an attempt")
				require.ErrorContains(t, err, "cosmos answered 503: ")
			})
		})
	}
}

// A context that ends between two attempts, or in one, leaves the last answer in the error.
func TestEndWhileStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := openEmulator(t, emulator.Config{Unlimited: true, Now: time.Now}, nil)
		require.NoError(t, client.Containers().Create(t.Context(), key.Container, small))
		for _, rules := range [][]fault.Rule{
			{{Status: 410, Substatus: 1007}}, {{Status: 410, Substatus: 1007, Count: 3}, {Hang: true}},
		} {
			require.NoError(t, server.Faults().Replace(1, rules...))
			ctx, cancel := context.WithCancelCause(store.WithPersistence(t.Context(), time.Hour))
			time.AfterFunc(time.Minute, func() { cancel(errors.New("the query has taken its time")) })
			_, _, err := scanned(ctx, client)
			require.ErrorIs(t, err, context.Canceled)
			var failing *store.FailingError
			require.ErrorAs(t, err, &failing)
			require.Equal(t, "the store answers 410/1007", failing.Answer())
		}
	})
}

// However an answer is lost, a write that nobody else has made is made once, and that of somebody else is not taken for
// it.
func TestWritesOfUnknownOutcome(t *testing.T) {
	lost := fault.Rule{Operations: []string{fault.Create, fault.Replace}, Applied: true, Status: 503, Count: 1}
	undone := lost
	undone.Applied = false
	ctx := t.Context()
	server, client := openEmulator(t, emulator.Config{Unlimited: true}, func(cfg *cosmos.Config) {
		cfg.Sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	})
	docs := client.Documents()
	doc := store.Document{Kind: tenant.Kind, ID: "acme", Body: []byte(`{"b":[1,{"x":0.1}],"a":"é"}`)}
	read := func() store.Document {
		d, found, err := docs.Read(ctx, doc.Kind, doc.ID)
		require.NoError(t, err)
		require.True(t, found)
		return d
	}
	for name, rule := range map[string]fault.Rule{"applied": lost, "not applied": undone} {
		t.Run("control document, "+name, func(t *testing.T) {
			doc := doc
			doc.ID = "tenant-" + name[:3]
			require.NoError(t, server.Faults().Replace(1, rule))
			etag, err := docs.Create(ctx, doc)
			require.NoError(t, err)
			_, err = docs.Create(ctx, doc)
			require.ErrorIs(t, err, store.ErrExists, "without a failure the first one counts")
			require.NoError(t, server.Faults().Replace(1, rule))
			doc.ETag, doc.Body = etag, []byte(`{"a":2}`)
			next, err := docs.Replace(ctx, doc)
			require.NoError(t, err)
			require.NotEqual(t, etag, next)
			doc.ETag = next
			_, err = docs.Replace(ctx, doc)
			require.NoError(t, err, "the ETag is that of what is stored")
		})
		t.Run("rollup, "+name, func(t *testing.T) {
			rollups := client.Rollups()
			require.NoError(t, client.Containers().Create(ctx, "rollups-2026-11", small))
			at := store.RollupKey{Container: "rollups-2026-11", TenantShard: "acme~0", Name: name}
			body := fmt.Sprintf(`{"id":"x","tenantShard":"acme~0","rollup":%q,"n":1}`, name)
			require.NoError(t, server.Faults().Replace(1, rule))
			_, err := rollups.CreateRollup(ctx, at, "x", []byte(body))
			require.NoError(t, err)
			stored, _, _, err := rollups.ReadRollup(ctx, at, "x")
			require.NoError(t, err)
			require.NoError(t, server.Faults().Replace(1, rule))
			_, err = rollups.ReplaceRollup(ctx, at, "x", stored.ETag, []byte(body[:len(body)-2]+"2}"))
			require.NoError(t, err)
		})
	}
	server.Faults().Clear()
	etag, err := docs.Create(ctx, doc)
	require.NoError(t, err)
	t.Run("of another one", func(t *testing.T) {
		require.NoError(t, server.Faults().Replace(1, undone))
		doc := doc
		doc.Body = []byte(`{"a":"e"}`)
		_, err := docs.Create(ctx, doc)
		require.ErrorIs(t, err, store.ErrExists)
		doc.ETag = `"of long ago"`
		require.NoError(t, server.Faults().Replace(1, undone))
		_, err = docs.Replace(ctx, doc)
		require.ErrorIs(t, err, store.ErrChanged)
		require.Equal(t, etag, read().ETag)
	})
	t.Run("that can't be looked at", func(t *testing.T) {
		gone := fault.Rule{Operations: []string{fault.Read}, Status: 503}
		require.NoError(t, server.Faults().Replace(1, lost, gone))
		doc := doc
		doc.ID = "unknown"
		_, err := docs.Create(ctx, doc)
		require.Error(t, err)
		require.NotErrorIs(t, err, store.ErrExists)
	})
	t.Run("that a replica lacks", func(t *testing.T) {
		for name, answer := range map[string]fault.Rule{"by its session": {Status: 404, Substatus: 1002},
			"without one": {Status: 404}} {
			answer.Operations = []string{fault.Read}
			require.NoError(t, server.Faults().Replace(1, lost, answer))
			doc := doc
			doc.ID = "lagging " + name
			_, err := docs.Create(ctx, doc)
			require.ErrorContains(t, err, "what became of the write is not known")
			require.NotErrorIs(t, err, store.ErrExists)
			server.Faults().Clear()
			stored, _, err := docs.Read(ctx, doc.Kind, doc.ID)
			require.NoError(t, err)
			require.NoError(t, server.Faults().Replace(1, lost, answer))
			stored.Body = []byte(`{"a":2}`)
			_, err = docs.Replace(ctx, stored)
			require.ErrorContains(t, err, "what became of the write is not known")
			require.NotErrorIs(t, err, store.ErrChanged)
		}
	})
}

// Of every answer a share of failures is as if there were none, with reads of all kinds.
func TestReadsOfFailingStore(t *testing.T) {
	for _, share := range []float64{0.005, 0.02, 0.15, 0.5} {
		server, client := openEmulator(t, emulator.Config{Unlimited: true}, func(cfg *cosmos.Config) {
			cfg.Sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
		})
		ctx := store.WithPersistence(t.Context(), math.MaxInt64)
		require.NoError(t, client.Containers().Create(ctx, key.Container, small))
		for i := range 20 {
			id := fmt.Sprintf("20261120.1.00000.%010d", i)
			_, err := client.Chunks().Create(ctx, key, id, fmt.Appendf(nil,
				`{"id":%q,"tenantShard":%q,"device":%q,"from":%d,"to":%[4]d}`, id, key.TenantShard, key.Device, i))
			require.NoError(t, err)
		}
		rules := []fault.Rule{{Status: http.StatusServiceUnavailable, Probability: share},
			{Status: http.StatusGone, Substatus: 1007, Probability: share}, {Operations: []string{fault.Metadata}, Status: 503,
				Probability: share}}
		require.NoError(t, server.Faults().Replace(7, rules...))
		for range 40 {
			docs, _, err := scanned(ctx, client)
			require.NoError(t, err)
			require.Len(t, docs, 20)
			_, _, err = client.Feed().Changes(ctx, "", time.Unix(0, 0))
			require.NoError(t, err)
			_, err = client.Documents().List(ctx, tenant.Kind)
			require.NoError(t, err)
			_, err = client.Containers().ReadThroughput(ctx, key.Container)
			require.NoError(t, err)
			_, err = client.Catalog().Pages(ctx, "acme", 0)
			require.NoError(t, err)
		}
	}
}
