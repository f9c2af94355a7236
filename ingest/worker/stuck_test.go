package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/bins"
	"binnacle/ingest/decode"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/worker"
	"binnacle/ingest/write"
	"binnacle/internal/control"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

// of returns a message of a tenant's device with one value, at an instant.
func of(offset int64, tenant, device string, ts int64) admit.Record {
	return admit.Record{Offset: offset, Time: start, Value: fmt.Appendf(nil,
		`{"tenant":%q,"device":%q,"ts":%d,"values":{"a":%d.5}}`, tenant, device, ts, offset)}
}

// attempt makes one attempt at everything that is due, until nothing is.
func attempt(t *testing.T, l *ingest.Local) {
	t.Helper()
	for jobs := l.Due(); len(jobs) > 0; jobs = l.Due() {
		for _, j := range jobs {
			require.NoError(t, l.Try(context.Background(), j))
		}
	}
}

// busyStore is a store without any budget.
type busyStore struct {
	discard
	attempts int
}

// Last implements store.Writer.
func (b *busyStore) Last(context.Context, sharding.Key, store.Chain) (store.Tail, store.Receipt, error) {
	return store.Tail{}, store.Receipt{}, b.refuse()
}

// Create implements store.Writer.
func (b *busyStore) Create(context.Context, sharding.Key, string, []byte) (store.Receipt, error) {
	return store.Receipt{}, b.refuse()
}

func (b *busyStore) refuse() error {
	b.attempts++
	return &store.BusyError{RetryAfter: time.Millisecond}
}

// However many chains wait for a busy store, and however short its pauses are, it is asked a thousand times a second
// at most, by each worker.
func TestBusyStoreIsNotAskedForEachChain(t *testing.T) {
	const chains, seconds = 4000, 5
	w, busy := newWorld(t, nil), &busyStore{}
	l := w.process(func(c *ingest.Config, s *ingest.Stores) {
		s.Chunks, s.Catalog = busy, noCatalog{}
		c.Hold, c.RetryBackoff, c.MaxWrites = time.Second, time.Millisecond, chains
	})
	for i := range int64(chains) {
		require.NoError(t, l.Take(t.Context(), reading(i, fmt.Sprintf("d%d", i), w.now)))
	}
	w.now = w.now.Add(2 * time.Second) // all are due
	for range seconds * 10 {
		attempt(t, l)
		w.now = w.now.Add(100 * time.Millisecond)
	}
	require.Greater(t, busy.attempts, 2*chains)
	require.LessOrEqual(t, busy.attempts, chains+seconds*1000)
}

// Forty chains that can't be stored, whatever the reason, hold up neither another tenant nor another month: what can be
// written is written, what can't is tried seldom, and all of it is stored when the trouble is over.
func TestFailingTenantDoesNotBlockOthers(t *testing.T) {
	const stuck = 40
	for _, c := range []struct {
		name  string
		fault error
		most  int // attempts in ten minutes
	}{
		{"unknown", errors.New("connection reset"), stuck * 250},
		{"busy", &store.BusyError{RetryAfter: 20 * time.Second}, stuck * 40},
		{"key full", store.ErrKeyFull, stuck},
		{"denied", store.ErrDenied, stuck * 250},
		{"no container", nil, 300}, // one asks for all of them
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			attempts, over := 0, false
			w.Chunks.Fault = func(op storetest.Op) *storetest.Fault {
				bad := op.Key.TenantShard[:3] == "bad" && op.Kind == storetest.Create
				if bad && !over {
					attempts++
				}
				if !bad || over || c.fault == nil {
					return nil
				}
				return &storetest.Fault{Err: c.fault}
			}
			l := w.worker(func(cfg *ingest.Config) {
				cfg.RetryBackoff, cfg.CommitEvery, cfg.MaxWrites = 50*time.Millisecond, time.Second, 8
			})
			ts, offset := int64(start), int64(0)
			if c.fault == nil {
				ts -= 100 * telemetry.DayMillis // August has no container
			}
			for i := range stuck {
				require.NoError(t, l.Take(t.Context(), of(offset, "bad", fmt.Sprintf("d%d", i), ts)))
				offset++
			}
			for range 600 {
				require.NoError(t, l.Take(t.Context(), of(offset, "good", "g0", w.now.UnixMilli())))
				offset++
				w.now = w.now.Add(time.Second)
				attempt(t, l)
			}
			good := 0
			for _, d := range w.Chunks.Documents() {
				if d.Key.Device == "g0" {
					good++
				}
			}
			require.GreaterOrEqual(t, good, 50, "a chunk every ten seconds")
			require.GreaterOrEqual(t, attempts, 1)
			require.LessOrEqual(t, attempts, c.most)
			require.Zero(t, l.Floor(), "what is not stored is not committed")
			waiting := 0
			l.Stalled(func(f bins.Fault, chains int) { waiting += chains })
			require.Equal(t, stuck, waiting, "all of them are shown to wait")

			over = true
			w.Chunks.CreateContainer("chunks-2026-08")
			w.now = w.now.Add(7 * time.Hour) // longer than the longest pause
			attempt(t, l)
			require.NoError(t, l.Finish(ingesttest.Deadline(t)))
			require.Equal(t, offset, l.Floor())
			l.Stalled(func(f bins.Fault, chains int) { require.Zero(t, chains, f) })
			w.CheckChains()
		})
	}
}

// A container that is missing holds up the readings of its own days only, however short that period is: those of the
// same tenant's other days in that month are written.
func TestMissingDayDoesNotBlockItsMonth(t *testing.T) {
	const stuck = 40
	w := newWorld(t, nil)
	l := w.worker(func(cfg *ingest.Config) {
		cfg.RetryBackoff, cfg.CommitEvery, cfg.MaxWrites = 50*time.Millisecond, time.Second, 8
	})
	require.NoError(t, l.Take(t.Context(), of(0, "acme", "g0", start))) // registers the tenant
	directory := control.NewDirectory(control.DirectoryConfig{Documents: w.Docs, Now: func() time.Time { return w.now }})
	require.NoError(t, directory.SetPeriod(t.Context(), sharding.PeriodEpoch{Period: sharding.Day}))
	w.now = w.now.Add(40 * time.Hour)
	missing, today := "chunks-2026-11-21", "chunks-2026-11-22"
	require.NoError(t, directory.AskMonth(t.Context(), missing, ""))
	require.NoError(t, directory.AskMonth(t.Context(), today, ""))
	w.Chunks.CreateContainer(today)
	offset := int64(1)
	for i := range stuck {
		r := of(offset, "acme", fmt.Sprintf("d%d", i), start+telemetry.DayMillis)
		r.Time = w.now.UnixMilli()
		require.NoError(t, l.Take(t.Context(), r))
		offset++
	}
	for range 300 {
		r := of(offset, "acme", "g0", w.now.UnixMilli())
		r.Time = w.now.UnixMilli()
		require.NoError(t, l.Take(t.Context(), r))
		offset++
		w.now = w.now.Add(time.Second)
		attempt(t, l)
	}
	written := 0
	for _, d := range w.Chunks.Documents() {
		if d.Key.Container == today {
			written++
		}
	}
	require.GreaterOrEqual(t, written, 25, "a chunk every ten seconds")
	w.Chunks.CreateContainer(missing)
	w.now = w.now.Add(7 * time.Hour)
	attempt(t, l)
	require.NoError(t, l.Finish(ingesttest.Deadline(t)))
	require.Equal(t, offset, l.Floor())
	w.CheckChains()
}

// Creates without an answer keep their slots, but not those of others.
func TestHangingCreatesLeaveSlots(t *testing.T) {
	w := newWorld(t, nil)
	l := w.worker(func(c *ingest.Config) { c.MaxWrites = 32 })
	for i := range 100 {
		require.NoError(t, l.Take(t.Context(), of(int64(i), "loud", fmt.Sprintf("d%d", i), start)))
	}
	w.now = w.now.Add(time.Minute)
	hung := 0
	for _, j := range l.Due() {
		if _, ok := j.(*write.Lookup); ok {
			hung++
			continue
		}
		require.NoError(t, l.Try(t.Context(), j))
	}
	require.Equal(t, 24, hung)
	require.NoError(t, l.Take(t.Context(), of(100, "good", "d0", start)))
	w.now = w.now.Add(time.Minute)
	attempt(t, l)
	require.Len(t, w.Chunks.Documents(), 0, "the same month: both have part of it")

	require.NoError(t, l.Take(t.Context(), of(101, "good", "d0", start-25*telemetry.DayMillis)))
	w.now = w.now.Add(time.Minute)
	attempt(t, l)
	require.Len(t, w.Chunks.Documents(), 1)
}

// A partition key that is full is tried a few times a day, and said once.
func TestFullKeyIsRetriedSeldom(t *testing.T) {
	w := newWorld(t, nil)
	attempts := 0
	w.Chunks.Fault = func(op storetest.Op) *storetest.Fault {
		if op.Kind != storetest.Create {
			return nil
		}
		attempts++
		return &storetest.Fault{Err: store.ErrKeyFull}
	}
	l := w.worker(func(c *ingest.Config) { c.CommitEvery = time.Second })
	for i := range 24 * 60 {
		require.NoError(t, l.Take(t.Context(), one(int64(i), "d0")))
		w.now = w.now.Add(time.Minute)
		attempt(t, l)
	}
	require.GreaterOrEqual(t, attempts, 5)
	require.LessOrEqual(t, attempts, 9)
	require.Zero(t, l.Floor())
	require.Equal(t, 24*60, rowsOf(l), "it is answered from the head meanwhile")
}

// What the store will never take goes to the dead letters, as messages that can be published again; the chain goes on.
func TestRejectedChunkBecomesDeadLetter(t *testing.T) {
	for _, fault := range []error{store.ErrRejected, store.ErrTooLarge} {
		w := newWorld(t, nil)
		rejects, down := true, true
		w.Chunks.Fault = func(op storetest.Op) *storetest.Fault {
			if op.Kind == storetest.Create && rejects {
				return &storetest.Fault{Err: fmt.Errorf("create: %w", fault)}
			}
			return nil
		}
		deadLetters := &deadLetterSink{down: &down}
		l := w.process(func(_ *ingest.Config, s *ingest.Stores) { s.DeadLetters = deadLetters })
		for i := range 3 {
			require.NoError(t, l.Take(t.Context(), one(int64(i), "d0")))
		}
		w.now = w.now.Add(time.Minute)
		attempt(t, l)
		require.Empty(t, deadLetters.got)
		require.Zero(t, l.Floor(), "the dead letters are not acknowledged")
		require.Equal(t, 3, rowsOf(l), "the head shows them meanwhile")

		down = false
		w.now = w.now.Add(time.Minute)
		attempt(t, l)
		require.EqualValues(t, 3, l.Floor())
		require.Len(t, deadLetters.got, 3)
		for i, deadLetter := range deadLetters.got {
			require.Equal(t, decode.Unstorable, deadLetter.Bad.Reason)
			require.EqualValues(t, i, deadLetter.Record.Offset)
			require.Equal(t, "acme/d0", string(deadLetter.Record.Key))
			again := decode.New(decode.Options{}).Decode(decode.Record{Value: deadLetter.Record.Value,
				ContentType: "application/json"})
			require.Empty(t, again.Bad)
			require.Len(t, again.Readings, 1)
			require.Equal(t, int64(start+i), again.Readings[0].Time)
			require.Equal(t, []telemetry.Field{{Metric: "a", Value: telemetry.FloatValue(float64(i) + 0.5)}},
				again.Readings[0].Fields)
		}

		rejects = false
		require.NoError(t, l.Take(t.Context(), one(3, "d0")))
		require.NoError(t, l.Finish(ingesttest.Deadline(t)))
		require.EqualValues(t, 4, l.Floor())
		require.Len(t, w.Headers(), 1)
		require.Zero(t, w.Headers()[0].ID.Number, "the number was still free")
		require.EqualValues(t, 3, w.Headers()[0].First)
		heldRows(t, l)
	}
}

// letterbox takes dead letters, unless it is down.
type deadLetterSink struct {
	down *bool
	got  []write.DeadLetter
}

// Publish returns ingest.DeadLetterWriter.
func (b *deadLetterSink) Publish(_ context.Context, deadLetters []write.DeadLetter) error {
	if *b.down {
		return errors.New("the broker is away")
	}
	b.got = append(b.got, deadLetters...)
	return nil
}

// Whatever fails comes back: dead letters, entries of the catalog, marks.
func TestEveryFailureIsRetried(t *testing.T) {
	const seed = 12
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 3))
	w := newWorld(t, logOf(seed, 120))
	w.Chunks.Fault = func(storetest.Op) *storetest.Fault {
		switch rnd.IntN(6) {
		case 0:
			return &storetest.Fault{Err: errors.New("no answer")}
		case 1:
			return &storetest.Fault{Applied: true, Err: errors.New("no answer, but it happened")}
		case 2:
			return &storetest.Fault{Err: &store.BusyError{RetryAfter: time.Second}}
		}
		return nil
	}
	fails := func() error {
		if rnd.IntN(2) == 0 {
			return errors.New("no answer")
		}
		return nil
	}
	l := w.process(func(c *ingest.Config, s *ingest.Stores) {
		c.RetryBackoff, c.StampEvery = 50*time.Millisecond, time.Millisecond
		s.DeadLetters = flaky{w, fails}
	})
	w.Catalog.Fault = func(_, _, _ string) *storetest.Fault {
		if err := fails(); err != nil {
			return &storetest.Fault{Applied: rnd.IntN(2) == 0, Err: err}
		}
		return nil
	}
	for l.Floor() < int64(len(w.log)) {
		if at := l.Position(); at < int64(len(w.log)) {
			require.NoError(t, l.Take(ingesttest.Deadline(t), w.log[at]))
		} else {
			l.Drain()
		}
		w.now = w.now.Add(time.Second)
		for range 10 {
			for _, j := range l.Due() {
				require.NoError(t, l.Try(t.Context(), j))
			}
		}
		w.commit = l.Floor()
		w.checkCommitted()
		if s := l.Committed(w.commit, w.now); s != nil {
			require.NoError(t, l.Try(t.Context(), s))
		}
	}
	w.check()
}

type flaky struct {
	ingest.DeadLetterWriter
	fails func() error
}

// Publish returns ingest.DeadLetterWriter.
func (f flaky) Publish(ctx context.Context, deadLetters []write.DeadLetter) error {
	if err := f.fails(); err != nil {
		return err
	}
	return f.DeadLetterWriter.Publish(ctx, deadLetters)
}

// Rows that can't be written fill memory in the end. What keeps coming for others is taken and stored all the same:
// when nothing more can be taken, what is hopeless goes to the dead letters. In an outage of everything nothing does:
// there fetching pauses.
func TestHopelessChainGivesWay(t *testing.T) {
	for _, c := range []struct {
		name   string
		fault  error // of the bad tenant's creates; nil: its month has no container
		outage bool  // nobody's creates succeed
		spills bool
	}{
		{"key full", store.ErrKeyFull, false, true},
		{"no container", nil, false, true},
		{"no container, and the store is away", nil, true, false},
		{"no answer", errors.New("connection reset"), false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.Chunks.Fault = func(op storetest.Op) *storetest.Fault {
				switch {
				case op.Kind != storetest.Create:
				case c.outage:
					return &storetest.Fault{Err: errors.New("no connection")}
				case op.Key.TenantShard[:3] == "bad" && c.fault != nil:
					return &storetest.Fault{Err: c.fault}
				}
				return nil
			}
			const memory = 512 << 10
			l := w.worker(func(cfg *ingest.Config) {
				cfg.RetryBackoff, cfg.CommitEvery, cfg.MemoryBytes = 50*time.Millisecond, time.Second, memory
			})
			offset, paused := int64(0), 0
			put := func(tenant, device string, ts int64, bytes int) {
				text := fmt.Sprintf("%x", ingesttest.Random(bytes/2, offset))
				r := admit.Record{Offset: offset, Time: w.now.UnixMilli(),
					Value: fmt.Appendf(nil, `{"tenant":%q,"device":%q,"ts":%d,"values":{"a":%q}}`, tenant, device, ts, text)}
				require.NoError(t, l.Take(t.Context(), r))
				offset++
			}
			for range 20 {
				w.now = w.now.Add(time.Minute)
				ts := w.now.UnixMilli()
				if c.fault == nil {
					ts -= 100 * telemetry.DayMillis
				}
				for second := range 60 {
					w.now = w.now.Add(time.Second)
					if l.Held() < memory {
						put("bad", fmt.Sprintf("d%d", second%7), ts, 2000)
						put("good", "g0", w.now.UnixMilli(), 50)
					} else {
						paused++
					}
					attempt(t, l)
				}
			}
			good := 0
			for _, d := range w.Chunks.Documents() {
				if d.Key.Device == "g0" {
					good++
				}
			}
			if !c.spills {
				require.Empty(t, w.deadLetters)
				require.Greater(t, paused, 600)
				return
			}
			require.Less(t, paused, 500, "seconds of twenty minutes")
			require.Greater(t, good, 60)
			require.NotEmpty(t, w.deadLetters)
			for _, b := range w.deadLetters {
				require.Equal(t, decode.Unstorable, b.Bad.Reason)
				require.Contains(t, string(b.Record.Key), "bad/")
			}
			heldRows(t, l)
		})
	}
}

// All jobs that may be under way have room where their answers go.
func TestMaxJobsHasRoomForAll(t *testing.T) {
	c := worker.Config{MaxWrites: 7}
	require.Equal(t, 7+worker.MostOtherJobs(), c.MaxJobs())
}
