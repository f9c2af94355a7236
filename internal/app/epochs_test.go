package app_test

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"binnacle/binning"
	"binnacle/ingest"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/heat/heatlog"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/provision"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/sharding"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// epochRun is a system whose clock a test moves: in a few seconds days pass, while a whale and its neighbours report,
// late too, the balancer decides each evening by the heat that was counted, and creates fail or are lost.
type epochRun struct {
	*system
	rnd       *rand.Rand
	client    *cosmos.Client
	began     time.Time
	moved     atomic.Int64 // ms that the test has moved the clock
	collector *heatlog.Collector
	balancer  *provision.Balancer
	directory *control.Directory

	asking sync.RWMutex // held by who asks p; p is exchanged under it
	p      *process

	mu    sync.Mutex // guards below
	n     int        // readings published
	acked map[point]float64
	said  int // answers in between that said they were complete
}

// firstDay is of a month that ends soon.
var firstDay = time.Date(2026, 11, 28, 14, 0, 0, 0, time.UTC)

// now is the clock: it goes on by itself, so that retries are due, and the test moves it.
func (e *epochRun) now() time.Time {
	return firstDay.Add(time.Since(e.began) + time.Duration(e.moved.Load())*time.Millisecond)
}

// step is how far the clock moves at once: heat of five minutes is written together.
const step = 5 * time.Minute

func newEpochRun(t *testing.T, seed uint64) *epochRun {
	e := &epochRun{rnd: rand.New(rand.NewPCG(seed, 3)), acked: map[point]float64{}, began: time.Now()}
	e.collector = heatlog.NewCollector(heatlog.Config{Role: "test", Now: e.now})
	e.system = newSystemOf(t, emulator.Config{InMemory: true, PhysicalPartitions: 5, Unlimited: true})
	e.system.now, e.system.heat = e.now, e.collector
	e.client = e.system.client()
	client := e.client
	e.directory = control.NewDirectory(control.DirectoryConfig{Documents: client.Documents(), Now: e.now,
		Lead: 4 * time.Hour})
	e.balancer = provision.NewBalancer(provision.BalancerConfig{Epochs: e.directory, Now: e.now,
		Decisions: control.NewDecisions(client.Documents()), From: 18 * time.Hour,
		Loads:   provision.Loads{Ranges: client, Heat: heatlog.NewReader(client.Heat())},
		Actions: control.NewActions(client.Documents(), "test", slog.New(slog.DiscardHandler), e.now)})
	e.p = e.process(e.briefly)
	return e
}

// briefly has bins written two hours of the test's clock after they began.
func (e *epochRun) briefly(c *ingest.Config) {
	hasty(c)
	c.Hold, c.Future = 2*time.Hour, time.Hour
}

// spoilCreates makes some creates fail, before they were served or after.
func (e *epochRun) spoilCreates(seed uint64) {
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 4))
	some := func(r *http.Request) error {
		mu.Lock()
		defer mu.Unlock()
		query := strings.Contains(r.Header.Get("Content-Type"), "query")
		if r.Method == http.MethodPost && !query && rnd.IntN(25) == 0 {
			return errors.New("connection reset by the test")
		}
		return nil
	}
	e.spoil.Store(&spoiler{before: some, after: some})
}

// report publishes what devices report in half an hour: of now, of the half hour to come, and some of earlier days.
func (e *epochRun) report() {
	now := e.now().UnixMilli()
	var messages []kafkago.Message
	batch := map[point]float64{}
	for range 40 {
		e.n++
		device := fmt.Sprintf("d%d", e.rnd.IntN(20))
		if e.rnd.IntN(4) == 0 {
			device = "d0" // a device that is far heavier than the others
		}
		at := point{device, now + e.rnd.Int64N(int64(time.Hour/time.Millisecond)) - int64(30*time.Minute/time.Millisecond)}
		if e.rnd.IntN(8) == 0 {
			at.time -= (1 + e.rnd.Int64N(3)) * telemetry.DayMillis
		}
		messages = append(messages, reading(device, at.time, float64(e.n)))
		batch[at] = float64(e.n)
	}
	for i := range 3 {
		body := fmt.Appendf(nil, `{"tenant":"t%d","device":"x","ts":%d,"values":{"v":1}}`, i, now)
		messages = append(messages, kafkago.Message{Key: fmt.Appendf(nil, "t%d/x", i), Value: body})
	}
	for i := range messages {
		messages[i].Time = e.now() // by which what is accepted is judged
	}
	e.publish(messages...)
	e.mu.Lock()
	e.acked = union(e.acked, batch)
	e.mu.Unlock()
}

// ask asks for all of the whale. What says that it is complete has all that was published before, once.
func (e *epochRun) ask(t *testing.T) {
	e.mu.Lock()
	before := e.acked
	e.mu.Unlock()
	e.asking.RLock()
	got, complete := e.p.ask(t, query.Request{Tenant: "acme", Range: binning.All, Strict: true})
	e.asking.RUnlock()
	if !complete {
		return
	}
	e.mu.Lock()
	e.said++
	e.mu.Unlock()
	for at, v := range before {
		if got[at] < v {
			require.Failf(t, "a complete answer lacks what was there", "%s at %s: %v, not %v, at %s", at.device,
				time.UnixMilli(at.time).UTC(), got[at], v, e.now())
		}
	}
}

// caughtUp waits until the ingester has read what was published. It judges a reading by its own clock: one that it
// reads hours of the test's clock later, with a time that it took before, it would refuse as of the future.
func (e *epochRun) caughtUp(t *testing.T) {
	for complete := false; !complete; {
		_, complete = e.p.ask(t, query.Request{Tenant: "acme", Range: telemetry.Range{To: 1}, Strict: true})
	}
}

// replace ends the ingester, by half of the times as if it had died: it can't write any more.
func (e *epochRun) replace(seed uint64) {
	e.asking.Lock()
	defer e.asking.Unlock()
	if e.rnd.IntN(2) == 0 {
		dead := func(*http.Request) error { return errors.New("the process is dead") }
		e.spoil.Store(&spoiler{before: dead, after: dead})
	}
	e.p.stop()
	e.spoilCreates(seed)
	e.p = e.process(e.briefly)
}

// split splits the widest physical partition of the container of now.
func (e *epochRun) split(t *testing.T) {
	container := sharding.Container("", sharding.Month.Of(telemetry.DayOf(e.now().UnixMilli())))
	stats, err := e.emulator.Partitions(store.Database, container)
	require.NoError(t, err)
	require.NoError(t, e.emulator.Split(store.Database, container, stats[e.rnd.IntN(len(stats))].ID))
}

// Epochs begin while readings come, of today and late, and queries run: on five physical partitions, one of which is
// split, and into a month that is new, the balancer gives a whale other keys each time that its load is uneven.
// Ingesters are replaced and killed, and creates fail: no reading is lost or doubled, no answer wrongly complete.
func TestEpochsBeginUnderLoad(t *testing.T) {
	t.Parallel()
	seed, days := rand.Uint64(), 3
	if *allFaults {
		days = 12
	}
	t.Logf("seed %d", seed)
	e := newEpochRun(t, seed)
	e.report()
	e.ask(t)
	e.spoilCreates(seed)
	var asker sync.WaitGroup
	done := make(chan struct{})
	asker.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond): // beside what the test does, as queries come
				e.ask(t)
			}
		}
	})
	for i := 1; i <= days*int(24*time.Hour/step); i++ {
		e.moved.Add(step.Milliseconds())
		e.collector.Round(t.Context(), e.client.Heat(), e.now().Truncate(step))
		if i%6 != 0 {
			continue
		}
		e.report()
		e.caughtUp(t)
		if i%12 == 0 {
			_ = e.balancer.Round(t.Context()) // creates fail: the next round goes on
		}
		if i%36 == 0 {
			e.ask(t)
		}
		if e.rnd.IntN(30) == 0 {
			e.replace(seed + uint64(i))
		}
		if i == 300 {
			e.split(t)
		}
	}
	close(done)
	asker.Wait()
	e.spoil.Store(nil)
	require.Equal(t, e.acked, e.p.answer(t))
	e.moved.Add(telemetry.DayMillis) // all bins are due
	e.settled("binnacle")
	e.p.stop()
	require.Equal(t, e.acked, e.process(e.briefly).answer(t), "from chunks alone")
	e.balanced(t, telemetry.DayOf(firstDay.UnixMilli()), days)
}

// balanced checks that the balancer had something to do, and did it.
func (e *epochRun) balanced(t *testing.T, first telemetry.Day, days int) {
	v, err := e.directory.Refresh(t.Context())
	require.NoError(t, err)
	whale, _ := v.Tenant("acme")
	var begun []telemetry.Day
	for _, epoch := range whale.Placement.Epochs()[1:] {
		if epoch.From <= first+telemetry.Day(days) {
			begun = append(begun, epoch.From)
		}
	}
	all, err := control.NewDecisions(e.client.Documents()).List(t.Context(), "", 0)
	require.NoError(t, err)
	for _, d := range all {
		t.Logf("%s in %s: %d physical partitions, hottest/mean %.2f, %d epochs", d.Day, d.Container, d.Partitions, d.Before,
			len(d.Changes))
	}
	t.Logf("%d readings, %d complete answers in between, epochs of the whale from %v", e.n, e.said, begun)
	require.NotEmpty(t, begun)
	require.Greater(t, len(whale.Placement.EpochOn(begun[0]).Slots), sharding.DefaultSlots)
	require.True(t, slices.ContainsFunc(all, func(d control.Decision) bool { return d.Partitions > 5 }), "after a split")
	require.Positive(t, e.said)
}
