package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/internal/ops"

	"github.com/stretchr/testify/require"
)

// One reading crosses the road, and a late one of another month too.
func TestReadingFromKafkaToQuery(t *testing.T) {
	s := newSystem(t)
	p := s.process(nil)
	s.publish(reading("d0", noon(), 1.5), reading("d0", noon()-90*86_400_000, 2.5))
	want := map[point]float64{{"d0", noon()}: 1.5, {"d0", noon() - 90*86_400_000}: 2.5}
	require.Equal(t, want, p.answer(t))
	s.settled("binnacle")
	require.Equal(t, want, p.answer(t))
}

// Two workers own every partition at the same time, each in the belief that it is alone: as two consumer groups over
// one stream. Chunks of one chain come from both, and every reading is answered once.
func TestTwoWorkersOwnOnePartition(t *testing.T) {
	s := newSystem(t)
	a := s.process(nil)
	b := s.process(func(c *ingest.Config) { c.Group = "zombie"; c.Hold = 200 * time.Millisecond })
	want := map[point]float64{}
	for round := range 6 {
		messages, more := devices(5, 40, noon()+int64(round)*40_000)
		s.publish(messages...)
		want = union(want, more)
	}
	require.Equal(t, want, a.answer(t))
	require.Equal(t, want, b.answer(t))
	s.settled("binnacle")
	s.settled("zombie")
	require.Equal(t, want, a.answer(t))
	a.stop()
	require.Equal(t, want, b.answer(t))
}

// The answer to every kind of request is lost now and then, after it was served or before: the same is asked again,
// and nothing is stored twice or lost.
func TestLostResponses(t *testing.T) {
	s := newSystem(t)
	var n atomic.Int64
	spoil := func(when int64) func(*http.Request) error {
		return func(r *http.Request) error {
			if strings.HasSuffix(r.URL.Path, "/docs") && n.Add(1)%31 == when { // more than a snapshot asks for at once
				return fmt.Errorf("connection reset by the test")
			}
			return nil
		}
	}
	p := s.process(nil)
	messages, want := devices(3, 50, noon())
	s.publish(messages[:10]...)
	s.settled("binnacle") // tenant and catalog are there
	s.spoil.Store(&spoiler{before: spoil(1), after: spoil(3)})
	s.publish(messages[10:]...)
	s.settled("binnacle")
	s.spoil.Store(nil)
	require.Equal(t, want, p.answer(t))
	require.Positive(t, n.Load())
}

// The broker's data directory is deleted while the store's is kept, and the new log gets more records than the old
// one had, for the same devices and days, before the first cut: offsets that the store has seen mean other readings
// now.
func TestBrokerLostItsLog(t *testing.T) {
	s := newSystem(t)
	p := s.process(nil)
	messages, want := devices(4, 20, noon())
	s.publish(messages...)
	s.settled("binnacle")
	require.Equal(t, want, p.answer(t))
	p.stop()
	require.NoError(t, s.broker.Close())

	s.startBroker(t.TempDir())
	more, wantMore := devices(4, 60, noon()+30_000)
	s.publish(more...)
	p = s.process(nil)
	require.Equal(t, union(want, wantMore), p.answer(t))
	s.settled("binnacle")
	require.Equal(t, union(want, wantMore), p.answer(t))
}

// The topic is deleted and made anew in the same cluster, and soon reaches further than before.
func TestTopicRecreated(t *testing.T) {
	for _, running := range []bool{false, true} {
		t.Run(fmt.Sprintf("ingester running: %v", running), func(t *testing.T) {
			s := newSystem(t)
			p := s.process(nil)
			messages, want := devices(4, 20, noon())
			s.publish(messages...)
			s.settled("binnacle")
			require.Equal(t, want, p.answer(t))
			if !running {
				p.stop()
			}
			s.recreate(ops.Topic)
			more, wantMore := devices(4, 60, noon()+30_000)
			s.publish(more...)
			if !running {
				p = s.process(nil)
			}
			want = union(want, wantMore)
			require.Eventually(t, func() bool { return len(p.lax(t)) == len(want) }, time.Minute, 20*time.Millisecond)
			require.Equal(t, want, p.answer(t))
		})
	}
}
