package worker_test

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/worker"

	"github.com/stretchr/testify/require"
)

// crossing is schemas that count how many are asked for at a time.
type crossing struct {
	memory             *worker.Memory
	inside, most, held atomic.Int64
}

func (c *crossing) Schema(uint32) (decode.Schema, bool) {
	c.most.Store(max(c.most.Load(), c.inside.Add(1)))
	c.held.Store(max(c.held.Load(), c.memory.Used()))
	for range 1000 {
		runtime.Gosched()
	}
	c.inside.Add(-1)
	return decode.Schema{Fault: "none"}, true
}

// A large record is taken by itself in its process, and counts towards the process's memory until it has been taken.
func TestLargeRecordsTakeTurns(t *testing.T) {
	const size = 5 << 20
	w := newWorld(t, nil)
	l := w.worker(nil)
	s := &crossing{memory: worker.NewMemory(1 << 30)}
	var all sync.WaitGroup
	for i := range int32(4) {
		memory := s.memory
		if i%2 == 0 {
			memory = memory.Share(0.25)
		}
		x := worker.New(worker.Config{Decode: decode.Options{Schemas: s}}, worker.Assignment{Stream: 1, Partition: i},
			worker.Process{Memory: memory, Observer: worker.ObserverOf(l.Worker), Now: w.now})
		all.Go(func() {
			record := admit.Record{Time: start, Value: append(make([]byte, 5), strings.Repeat(" ", size)...)}
			if err := x.Feed(record, w.dir.Snapshot(), w.now); err != nil {
				t.Error(err)
			}
			x.GiveUp()
		})
	}
	all.Wait()
	require.EqualValues(t, 1, s.most.Load())
	require.GreaterOrEqual(t, s.held.Load(), int64(size))
	require.Zero(t, s.memory.Used())
}
