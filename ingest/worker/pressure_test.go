package worker_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/worker"
	"binnacle/ingest/write"
	"binnacle/internal/stream/deadletter"
	"binnacle/internal/telemetry"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

// one returns a message of a device with one value.
func one(offset int64, device string) admit.Record {
	return admit.Record{Offset: offset, Time: start, Value: fmt.Appendf(nil,
		`{"tenant":"acme","device":%q,"ts":%d,"values":{"a":%d.5}}`, device, start+offset, offset)}
}

// do does those of the jobs that are wanted and answers the others.
func do(t *testing.T, l *ingest.Local, jobs []write.Job, wanted func(write.Job) bool) (left []write.Job) {
	for _, j := range jobs {
		if !wanted(j) {
			left = append(left, j)
			continue
		}
		require.NoError(t, l.Do(context.Background(), j))
	}
	return left
}

func isPublish(j write.Job) bool       { _, ok := j.(*write.Publish); return ok }
func isCatalogUpdate(j write.Job) bool { _, ok := j.(*write.CatalogUpdate); return ok }

func not(f func(write.Job) bool) func(write.Job) bool {
	return func(j write.Job) bool { return !f(j) }
}

// A producer that keeps sending bad records must not put off the chunks of a device that reports all the time: there is
// always a dead letter on its way that is older than the bin's last reading (rule W5).
func TestBadRecordsDoNotDelayChunks(t *testing.T) {
	w := newWorld(t, nil)
	l := w.worker(func(c *ingest.Config) { c.Hold = time.Second })
	ctx := ingesttest.Deadline(t)
	var left []write.Job
	offset := int64(0)
	for range 100 {
		for range 5 {
			require.NoError(t, l.Take(ctx, one(offset, "d0")))
			require.NoError(t, l.Take(ctx, admit.Record{Offset: offset + 1, Time: start, Value: []byte("bad")}))
			require.NoError(t, l.Take(ctx, one(offset+2, "d0")))
			offset += 3
		}
		w.now = w.now.Add(100 * time.Millisecond)
		// A dead letter is acknowledged only when the next ones are waiting.
		burials := do(t, l, l.Due(), not(isPublish))
		left = do(t, l, left, func(write.Job) bool { return true })
		left = append(left, burials...)
	}
	n := len(w.Chunks.Documents())
	require.GreaterOrEqual(t, n, 7, "a chunk a second")
	require.LessOrEqual(t, n, 14, "no crumbs")
	w.CheckChains()
}

// Memory is relieved of what is too much, once: rows that are on their way out, or linger, are going already.
func TestReliefCutsNoMoreThanNeeded(t *testing.T) {
	w := newWorld(t, nil)
	l := w.worker(func(c *ingest.Config) { c.Hold, c.MemoryBytes, c.Linger = time.Hour, 1<<19, time.Minute })
	ctx := ingesttest.Deadline(t)
	offset := int64(0)
	for l.Held() < 85<<19/100 {
		require.NoError(t, l.Take(ctx, one(offset, fmt.Sprintf("d%03d", offset%100))))
		offset++
	}
	for range 50 {
		w.now = w.now.Add(100 * time.Millisecond)
		require.NoError(t, l.Step(ctx))
	}
	n := len(w.Chunks.Documents())
	require.GreaterOrEqual(t, n, 5)
	require.LessOrEqual(t, n, 12, "5 %% of the memory was too much, and a bin of a hundred has 0.85 %% of it")
}

// A chain that must wait, here for a dead letter, does not keep memory from being relieved of others.
func TestReliefSkipsWaitingChains(t *testing.T) {
	w := newWorld(t, nil)
	l := w.worker(func(c *ingest.Config) { c.Hold, c.MemoryBytes = time.Hour, 1<<20 })
	ctx := ingesttest.Deadline(t)
	offset := int64(0)
	for l.Held() < 70<<20/100 {
		require.NoError(t, l.Take(ctx, one(offset, fmt.Sprintf("d%02d", offset%20))))
		offset++
	}
	require.NoError(t, l.Take(ctx, admit.Record{Offset: offset, Time: start, Value: []byte("bad")}))
	offset++
	for l.Held() < 1<<20 {
		require.NoError(t, l.Take(ctx, one(offset, "waits")))
		offset++
	}
	for range 20 {
		w.now = w.now.Add(time.Second)
		do(t, l, l.Due(), not(isPublish))
	}
	require.NotEmpty(t, w.Chunks.Documents())
	require.Less(t, l.Held(), int64(1<<20))
}

// Memory counts what is held, however it comes and goes, and nothing when all is stored and has lingered.
func TestMemoryCountsHeldBytes(t *testing.T) {
	const seed = 5
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 2))
	for round := range ingesttest.Rounds(6, 2) {
		w := newWorld(t, logOf(uint64(round), 200))
		registry := prometheus.NewRegistry()
		l := w.worker(func(c *ingest.Config) { c.Registerer, c.MemoryBytes = registry, 20<<10 })
		rival := w.worker(nil)
		ctx := ingesttest.Deadline(t)
		var left []write.Job
		for _, r := range w.log {
			require.NoError(t, l.Take(ctx, r))
			if rnd.IntN(3) == 0 {
				w.now = w.now.Add(time.Duration(rnd.IntN(1500)) * time.Millisecond)
				left = do(t, l, append(left, l.Due()...), func(write.Job) bool { return rnd.IntN(2) == 0 })
				require.GreaterOrEqual(t, l.Held(), int64(0))
			}
			if rnd.IntN(20) == 0 { // somebody else is further: creates conflict
				for at := rival.Position(); at < min(r.Offset+5, 200); at++ {
					require.NoError(t, rival.Take(ctx, w.log[at]))
				}
				require.NoError(t, rival.Finish(ctx))
			}
			heldRows(t, l)
		}
		do(t, l, left, func(write.Job) bool { return true })
		require.NoError(t, l.Finish(ctx))
		w.now = w.now.Add(time.Minute)
		require.NoError(t, l.Step(ctx))
		require.Zero(t, heldRows(t, l))
		require.EqualValues(t, l.Held(), gauge(t, registry, "binnacle_ingest_held_bytes"))
	}
}

func gauge(t *testing.T, r *prometheus.Registry, name string) float64 {
	families, err := r.Gather()
	require.NoError(t, err)
	i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == name })
	require.GreaterOrEqual(t, i, 0)
	return families[i].GetMetric()[0].GetGauge().GetValue()
}

// What was stored and has lingered is given back to the runtime too.
func TestLingeringRowsAreFreed(t *testing.T) {
	w := newWorld(t, nil)
	l := w.worker(func(c *ingest.Config) { c.Hold, c.Linger = time.Hour, time.Second })
	ctx := ingesttest.Deadline(t)
	heap := func() int {
		runtime.GC()
		runtime.GC() // what the first one has found, pools give up with the second
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	const devices = 150
	for i := range int64(devices * 3000) {
		require.NoError(t, l.Take(ctx, one(i, fmt.Sprintf("d%d", i%devices))))
	}
	full := heap() - before
	require.Greater(t, full, devices*5<<10)
	require.NoError(t, l.Finish(ctx))
	w.now = w.now.Add(time.Minute)
	require.NoError(t, l.Step(ctx))
	stored := 0
	for _, d := range w.Chunks.Documents() {
		stored += len(d.Doc)
	}
	require.Less(t, heap()-before-stored, full/4)
	runtime.KeepAlive(l)
}

// Dead dead letters that can't be published count: with them memory fills, and reading pauses.
func TestDeadLettersCountAsMemory(t *testing.T) {
	w := newWorld(t, nil)
	l := w.worker(nil)
	ctx := ingesttest.Deadline(t)
	payload := make([]byte, 10_000)
	for i := range int64(100) {
		require.NoError(t, l.Take(ctx, admit.Record{Offset: i, Time: start, Value: payload}))
		do(t, l, l.Due(), not(isPublish))
	}
	require.GreaterOrEqual(t, l.Held(), int64(100*10_000))
}

// What is refused of a record is as many dead letters as there are reasons. They take a small multiple of its bytes, in
// memory and as they are published, and name each element once.
func TestRecordOfBadElements(t *testing.T) {
	good := fmt.Sprintf(`{"tenant":"acme","device":"d0","ts":%d,"values":{"a":1}}`, start)
	late := fmt.Sprintf(`{"tenant":"acme","device":"d0","ts":%d,"values":{"a":1}}`, start+telemetry.DayMillis)
	for _, c := range []struct {
		name, elements string
		most           int
	}{
		{"of one reason", "0", 1},
		{"of two reasons in turn", "0,{}", 30}, // a header lists so many runs of elements
		{"of three reasons between good ones", "0," + good + ",{}," + late, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			l, ctx := w.worker(nil), ingesttest.Deadline(t)
			n := min(100_000/len(c.elements), 1500)
			if !strings.Contains(c.elements, good) {
				n = 100_000 / len(c.elements)
			}
			value := []byte("[" + strings.Repeat(c.elements+",", n-1) + c.elements + "]")
			require.NoError(t, l.Take(ctx, admit.Record{Offset: 0, Time: start, Value: value}))
			require.Less(t, l.Held(), int64(9*len(value)+20_000))
			require.NoError(t, l.Finish(ctx))
			require.LessOrEqual(t, len(w.deadLetters), c.most)
			bytes, all := 0, deadletter.Elements{}
			for _, b := range w.deadLetters {
				for _, h := range b.Facts() {
					bytes += len(h.Key) + len(h.Value)
				}
				if !b.Bare {
					bytes += len(b.Record.Value)
				}
				require.False(t, all.Overlaps(b.Elements))
				all = all.With(b.Elements)
			}
			require.Less(t, bytes, 9*len(value))
			refused := n * (1 + strings.Count(c.elements, ",{}"))
			if strings.Contains(c.elements, late) {
				refused += n
			}
			require.Equal(t, refused, all.Count())
			require.LessOrEqual(t, l.Held(), int64(100_000), "nothing is kept of them")
		})
	}
}

// A flood of refused records has several publications under way, which take a bounded part of the memory; the floor
// waits for the lowest that is not acknowledged, in whatever order they are.
func TestFloodOfRefusedRecords(t *testing.T) {
	w := newWorld(t, nil)
	l, ctx := w.worker(nil), ingesttest.Deadline(t)
	var jobs []write.Job
	offset := int64(0)
	for ; !l.IsRefusing(); offset++ {
		require.NoError(t, l.Take(ctx, admit.Record{Offset: offset, Time: start, Value: make([]byte, 10_000)}))
		jobs = append(jobs, do(t, l, l.Due(), not(isPublish))...)
	}
	require.Less(t, l.Held(), int64(40<<20))
	require.Len(t, jobs, 4)
	floors := []int64{}
	for len(jobs) > 0 {
		last := jobs[len(jobs)-1]
		do(t, l, []write.Job{last}, isPublish)
		jobs = append(jobs[:len(jobs)-1], do(t, l, l.Due(), not(isPublish))...)
		floors = append(floors, l.Floor())
		require.Equal(t, int64(0), floors[0])
	}
	require.False(t, l.IsRefusing())
	require.Equal(t, offset, l.Floor())
	require.Len(t, w.deadLetters, int(offset))
}

// A fleet that is seen for the first time, and a catalog that does not answer: what is under way stays bounded.
func TestCatalogUpdatesInFlightAreBounded(t *testing.T) {
	w := newWorld(t, nil)
	l, ctx := w.worker(nil), ingesttest.Deadline(t)
	for i := range int64(2000) {
		require.NoError(t, l.Take(ctx, one(i, fmt.Sprintf("d%d", i))))
	}
	l.Drain()
	var left []write.Job
	for range 100 {
		w.now = w.now.Add(time.Second)
		left = append(left, do(t, l, l.Due(), not(isCatalogUpdate))...)
	}
	require.NotEmpty(t, left)
	require.LessOrEqual(t, len(left), 100)
	for len(left) > 0 {
		do(t, l, left, func(write.Job) bool { return true })
		left = l.Due()
	}
	require.False(t, l.Busy())
	require.EqualValues(t, 2000, l.Floor())
}

// Knowledge of devices that are gone is given up, in the end.
func TestGoneDevicesAreForgotten(t *testing.T) {
	w := newWorld(t, nil)
	l, ctx := w.worker(nil), ingesttest.Deadline(t)
	for i := range int64(100) {
		require.NoError(t, l.Take(ctx, one(i, fmt.Sprintf("d%d", i))))
	}
	require.NoError(t, l.Finish(ctx))
	require.Equal(t, 100, worker.Devices(l.Worker))
	w.now = w.now.Add(72 * time.Hour)
	require.NoError(t, l.Step(ctx)) // stored rows linger in heads for less
	w.now = w.now.Add(2 * time.Hour)
	require.NoError(t, l.Step(ctx))
	require.Zero(t, worker.Devices(l.Worker))

	// One that comes back goes on where it was: the tail is looked up (rule W3).
	require.NoError(t, l.Take(ctx, one(100, "d7")))
	require.NoError(t, l.Finish(ctx))
	w.CheckChains()
	require.Zero(t, w.conflicts(), "the store was asked, not guessed")
}

// While memory is short, blocks go to the shelf as long as any bin has some there, also when the bins that take most
// memory have none left: nothing is cut.
func TestShelfBeforeCut(t *testing.T) {
	var log []admit.Record
	for _, c := range []struct{ trucks, each int }{{1, 2500}, {31, 400}} { // the second ones have the first among them
		convoy := newConvoy(c.trucks, time.UnixMilli(start), time.Second)
		for range c.each {
			for _, r := range convoy.next() {
				r.Offset = int64(len(log))
				log = append(log, r)
			}
		}
	}
	fill := func(change func(*ingest.Config)) (held int64, chunks int) {
		w := withJournal(newWorld(t, nil))
		discard, l := w.alone(func(c *ingest.Config) {
			c.Hold, c.MemoryBytes = 0, 1<<30
			change(c)
		})
		for i, r := range log {
			require.NoError(t, l.Take(context.Background(), r))
			if i%100 == 0 || i == len(log)-1 {
				require.NoError(t, l.Step(context.Background()))
				held = max(held, l.Held())
			}
		}
		return held, discard.Chunks
	}
	held, chunks := fill(func(*ingest.Config) {})
	require.Zero(t, chunks)
	const most = 72 << 10 // more than the blocks of the first device
	_, chunks = fill(func(c *ingest.Config) {
		c.MemoryBytes, c.Shelf = int64(float64(held-most)/0.8), shelf(t)
	})
	require.Zero(t, chunks)
}
