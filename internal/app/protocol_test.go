package app_test

import (
	"fmt"
	"testing"
	"time"

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
