package main_test

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	killsDuration = flag.Duration("kills.duration", 4*time.Second, "how long TestDevIsKilled kills")
	killsSeed     = flag.Uint64("kills.seed", 0, "seed of TestDevIsKilled; 0: a random one")
	killsReport   = flag.String("kills.report", "", "file that TestDevIsKilled writes its verdicts to")
	killsHolds    = flag.String("kills.holds", "12h", "holds of dev, one of them by chance at each start")
)

// `binnacle dev` is killed at random while producers publish in order, out of order, twice, over older values, and
// what nobody can read. After each start it answers everything that was acknowledged, and whatever an answer calls
// complete has all of it. With a hold that is not over there is no chunk at the end: all that time bins came from the
// journal.
func TestKillsOfDev(t *testing.T) {
	t.Parallel()
	seed := seedOf(t, *killsSeed)
	c := newHeld(t, seed, strings.Split(*killsHolds, ","))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var producers sync.WaitGroup
	for i := range 4 {
		producers.Go(func() { c.truth.produce(ctx, i, &c.brokerAt, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	dev := c.members[0]
	var longest time.Duration
	for end := time.Now().Add(*killsDuration); time.Now().Before(end) || len(c.truth.of("")) <= 100; {
		longest = max(longest, c.answersAgain(dev))
		c.killAtRandom(dev)
	}
	cancel()
	producers.Wait()
	c.answersAgain(dev)
	chunks := c.chunks()
	v := c.judge()
	line := v.line(seed)
	t.Logf("%d kills; %d answers said that they were complete, the first of a start within %s; %d chunks", c.kills, c.said,
		longest.Round(time.Millisecond), chunks)
	for _, example := range v.examples {
		t.Log(example)
	}
	t.Log(line)
	reportTo(t, *killsReport, line)
	require.Positive(t, c.kills)
	require.True(t, v.good(), line)
	if *killsHolds == "12h" {
		require.Zero(t, chunks, "no bin was cut")
	}
}

// newHeld is chaos of one `binnacle dev` alone.
func newHeld(t *testing.T, seed uint64, holds []string) *chaos {
	c := newDevIn(t, seed, t.TempDir(), holds)
	// Of a day that is not over, no later than is accepted at its start, and as few as fill no bin.
	c.truth.from, c.truth.step, c.truth.days = time.Now().Truncate(24*time.Hour).UnixMilli(), 100, []int64{0}
	c.truth.devices, c.truth.pause = 40, 100*time.Millisecond
	return c
}

// newDevIn is chaos of one `binnacle dev` in a directory.
func newDevIn(t *testing.T, seed uint64, dir string, holds []string) *chaos {
	kafkaAt, storeAt, apiAt := freePort(t), freePort(t), freePort(t)
	c := &chaos{t: t, rnd: rand.New(rand.NewPCG(seed, 99)), storeAt: storeAt, apiAt: apiAt, truth: newTruth()}
	c.brokerAt.Store(&kafkaAt)
	c.addHolding(holds, "dev", "--fleet=0", "--kafka="+kafkaAt, "--cosmos="+storeAt, "--api="+apiAt,
		"--admin=127.0.0.1:0", "--data-dir="+dir, "--kafka-mb=0", "--unlimited",
		"--physical-partitions=5", "--query-max-rus=100000000")
	return c
}

// answersAgain waits for the first complete answer over everything, and returns how long after the start it came.
func (c *chaos) answersAgain(m *member) time.Duration {
	soon(c.t, time.Minute, func() bool { return c.look(context.Background(), "") }, "a complete answer after a start")
	return time.Since(m.started)
}

// killAtRandom kills a member at some time, in a third of cases once more while it starts, and starts it again.
func (c *chaos) killAtRandom(m *member) {
	for again := true; again; again = c.rnd.IntN(3) == 0 {
		time.Sleep(time.Duration(c.rnd.IntN(1500)) * time.Millisecond) // the moment is the test's subject
		m.kill()
		c.kills++
		c.launch(m)
	}
}

// chunks is how many chunks there are in the emulator.
func (c *chaos) chunks() (items int) {
	for container, n := range c.overview().items {
		if strings.HasPrefix(container, "chunks-") {
			items += n
		}
	}
	return items
}

// overview is the state that the emulator shows.
type overview struct {
	items    map[string]int // by container
	requests map[string]int
	rus      map[string]float64 // of the last minute, modelled
}

func (c *chaos) overview() overview {
	resp, err := http.Get("http://" + c.storeAt + "/_emulator?format=json")
	require.NoError(c.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(c.t, err)
	var all struct {
		Containers []struct {
			Container     string
			Items         int
			LastMinuteRUs float64
			Partitions    []struct{ Requests int }
		}
	}
	require.NoError(c.t, json.Unmarshal(body, &all), string(body))
	out := overview{map[string]int{}, map[string]int{}, map[string]float64{}}
	for _, co := range all.Containers {
		out.items[co.Container] += co.Items
		out.rus[co.Container] += co.LastMinuteRUs
		for _, p := range co.Partitions {
			out.requests[co.Container] += p.Requests
		}
	}
	return out
}
