package main_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// Kill -9 at random moments while devices publish. In the end everything acknowledged is answered, once, with its
// last value.
func TestKillWhileDevicesPublish(t *testing.T) {
	needsFull(t)
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	kills := 3
	if *full {
		kills = 6
	}

	dir := t.TempDir()
	start := func() *dev {
		return launchDev(t, dir, "--fleet=0", "--hold=400ms", "--balance-every=1s", "--physical-partitions=5")
	}
	d := start()
	d.becomesReady()
	addEpochs(t, d.cosmos)
	var broker atomic.Pointer[string]
	broker.Store(&d.kafka)
	ctx, cancel := context.WithCancel(context.Background())
	published := make(chan table, 1)
	go func() { published <- publishUntil(ctx, &broker, rand.New(rand.NewPCG(seed, 2))) }()

	for range kills {
		time.Sleep(time.Duration(rnd.IntN(900)) * time.Millisecond) // the moment of the kill is the test's subject
		d.kill()
		d = start()
		broker.Store(&d.kafka)
		if rnd.IntN(3) > 0 { // else it is killed before it is ready, perhaps
			d.becomesReady()
		}
	}
	d.becomesReady()
	cancel()
	want := <-published
	require.Greater(t, len(want), 100)
	d.answersInAllFormats("acme", want)
	d.stored("acme")
	d.answersInAllFormats("acme", want)
	d.stop(syscall.SIGTERM)
	d = startDev(t, dir, "--fleet=0")
	require.Zero(t, d.answers("acme", want, everything+"&format=ndjson").HeadRows)
}

// publishUntil publishes random readings of some devices and days, again and again over the same instants, to the
// broker of the moment. It answers the last values that were acknowledged. What was not acknowledged is sent again
// before anything else.
func publishUntil(ctx context.Context, broker *atomic.Pointer[string], rnd *rand.Rand) table {
	all, n := table{}, 0
	for ctx.Err() == nil {
		batch := table{}
		for range 1 + rnd.IntN(60) {
			n++
			r := row{device: fmt.Sprintf("d%d", rnd.IntN(6)), ts: noon() - int64(rnd.IntN(4))*15*86_400_000 +
				int64(rnd.IntN(2000))*500}
			if rnd.IntN(3) == 0 {
				r.labels = `{"axle":"rear"}`
			}
			values := map[string]any{"n": float64(n), "x": randomFloat(rnd)}
			if rnd.IntN(2) == 0 {
				values = map[string]any{"big": int64(1<<53 + 1 + 2*n), "on": n%2 == 0,
					"state": fmt.Sprintf("state %d, \"so\"\n", n%9)}
			}
			for metric, v := range values {
				batch.set(r, metric, v)
			}
		}
		var messages []kafka.Message
		for r, values := range batch {
			messages = append(messages, message("acme", r, values))
		}
		for addr := ""; len(messages) > 0; {
			addr = *broker.Load()
			messages = unsent(messages, addr)
		}
		for r, values := range batch {
			for metric, v := range values {
				all.set(r, metric, v)
			}
		}
	}
	return all
}

// randomFloat is any float64, or a decimal such as sensors give.
func randomFloat(rnd *rand.Rand) float64 {
	if rnd.IntN(2) == 0 {
		return float64(rnd.IntN(100_000)) / 100
	}
	return math.Float64frombits(rnd.Uint64())
}

// unsent publishes messages and answers those that were not acknowledged.
func unsent(messages []kafka.Message, addr string) []kafka.Message {
	w := writer(addr, "telemetry")
	defer w.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := w.WriteMessages(ctx, messages...)
	if err == nil {
		return nil
	}
	time.Sleep(20 * time.Millisecond) // the broker is gone for a moment
	var failed kafka.WriteErrors
	if !errors.As(err, &failed) {
		return messages
	}
	var rest []kafka.Message
	for i, m := range messages {
		if failed[i] != nil {
			rest = append(rest, m)
		}
	}
	return rest
}
