package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var rollingDevices = flag.Int("rolling.devices", 0,
	"how many devices TestRollingRestart holds, about; 0: it is left out")

// Three ingesters are restarted one after the other while producers publish, and that costs next to nothing: no bin is
// cut, no chain is looked up, and each answer is right or says that it is incomplete.
func TestRollingRestart(t *testing.T) {
	if *rollingDevices == 0 {
		t.Skip("needs -rolling.devices")
	}
	t.Parallel()
	const rus, lookups = "binnacle_cosmos_request_units_total", "binnacle_ingest_lookups_total"
	seed := seedOf(t, 0)
	c := newRolling(t, seed)
	ctx, cancel := context.WithCancel(t.Context())
	var background sync.WaitGroup
	for i := range 4 {
		background.Go(func() { c.truth.produce(ctx, i, &c.brokerAt, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	soon(t, time.Minute, func() bool { return len(c.truth.of("")) > *rollingDevices*3 }, "there is something to hold")
	c.completeAgain()
	c.steady()
	background.Go(func() { c.watch(ctx) })
	gaps := &gaps{c: c}
	background.Go(func() { gaps.measure(ctx) })

	ingesters := c.holding()
	cost := costs{}
	for _, m := range ingesters {
		cost.add(-1, c.metrics(m))
	}
	for _, m := range ingesters {
		cost.add(1, c.metrics(m))
		m.stop(syscall.SIGTERM)
		stopped := time.Now()
		c.launch(m)
		m.printed(`(?m)^ +heads +(\S+)`)
		c.isReady(m)
		gap, longest := gaps.take()
		t.Logf("ready and complete %s after it had stopped; incomplete for %s, at once %s",
			time.Since(stopped).Round(time.Millisecond), gap, longest)
	}
	gap, longest := gaps.take()
	t.Logf("afterwards incomplete for %s, at once %s", gap, longest)
	cancel()
	background.Wait()
	for _, m := range ingesters {
		cost.add(1, c.metrics(m))
	}
	devices := map[string]bool{}
	for r := range c.truth.of("") {
		devices[r.device] = true
	}
	t.Logf("%d devices, %d rows; %.1f RU (modelled):", len(devices), len(c.truth.of("")), cost.sum(rus))
	for series, n := range cost {
		if strings.HasPrefix(series, rus) && n > 1e-6 {
			t.Logf("  %7.1f %s", n, strings.TrimPrefix(series, rus))
		}
	}
	require.Zero(t, c.chunks(), "nothing was cut")
	require.Zero(t, cost.sum(lookups), "nothing was looked up")
	reads, creates := 0.0, 0.0 // of the catalog
	for series, n := range cost {
		switch {
		case !strings.HasPrefix(series, rus), strings.Contains(series, `container="control"`): // whatever a start holds
		case strings.Contains(series, `operation="heat_create"`), // at each full minute, which may be in between
			strings.Contains(series, `operation="heat_put"`): // five seconds after a start
		case strings.Contains(series, `operation="catalog_create"`):
			creates += n
		case strings.Contains(series, `container="catalog"`):
			reads += n
		default:
			require.InDelta(t, 0, n, 1e-6, series)
		}
	}
	// The catalog's pages are read, which have hundreds of devices each. Pages are created for readings before a device's
	// first, also without a restart: the slower the machine is, the more pages they are spread over.
	require.Less(t, reads/float64(len(ingesters)), 10+0.1*float64(len(devices)), "a device takes a part of an RU")
	require.Less(t, creates/float64(len(ingesters)), 0.5*float64(len(devices)), "a device takes a part of an RU")
	v := c.judge()
	for _, example := range v.examples {
		t.Log(example)
	}
	require.True(t, v.good(), v.line(seed))
	require.Positive(t, c.said)
}

// newRolling is a system of three ingesters with a long hold.
func newRolling(t *testing.T, seed uint64) *chaos {
	c := newRoles(t, seed, t.TempDir(), 3, "12h")
	c.truth.from, c.truth.step, c.truth.days = time.Now().Truncate(24*time.Hour).UnixMilli(), 100, nil
	c.truth.devices, c.truth.pause = *rollingDevices/4, 50*time.Millisecond
	return c
}

// newRoles is a system of broker and store, in a directory, and so many ingesters.
func newRoles(t *testing.T, seed uint64, dir string, ingesters int, hold string) *chaos {
	secret := file(t, "secret", "open sesame\n")
	kafkaAt, storeAt, apiAt := freePort(t), freePort(t), freePort(t)
	c := &chaos{t: t, rnd: rand.New(rand.NewPCG(seed, 99)), storeAt: storeAt, apiAt: apiAt, truth: newTruth()}
	c.brokerAt.Store(&kafkaAt)
	servers := []string{"--kafka=" + kafkaAt, "--cosmos=" + storeAt}
	c.add("broker", "--kafka="+kafkaAt, "--data-dir="+dir+"/kafka", "--partitions=4", "--kafka-mb=0").
		printed(`(?m)^ +kafka +(\S+)`)
	c.add("emulator", "--cosmos="+storeAt, "--data-dir="+dir+"/cosmos", "--unlimited").
		printed(`(?m)^ +endpoint +http://([^/\s]+)`)
	c.add("provision", "--cosmos="+storeAt, "--every=1s")
	soon(t, time.Minute, func() bool {
		return run(t, time.Minute, append([]string{"ingest", "--check"}, servers...)...).code == 0
	}, "provision makes what is missing")
	var ports []string
	for range ingesters {
		ports = append(ports, freePort(t))
	}
	c.headsAt = ports
	for _, port := range ports {
		c.addHolding([]string{hold}, "ingest", append([]string{"--register", "--session-timeout=6s",
			"--heads-listen=" + port, "--admin=127.0.0.1:0", "--heads-secret-file=" + secret}, servers...)...).printed(`(?m)^ +heads +(\S+)`)
	}
	c.add("query", append([]string{"--api=" + apiAt, "--admin=127.0.0.1:0", "--heads=" + strings.Join(ports, ","),
		"--heads-secret-file=" + secret, "--trusted-proxies=127.0.0.1", "--query-max-rus=100000000"}, servers...)...).
		printed(`(?m)^ +api +http://(\S+)`)
	return c
}

// completeAgain waits until an answer says that it is complete.
func (c *chaos) completeAgain() {
	soon(c.t, time.Minute, func() bool { return c.complete(context.Background()) }, "an answer is complete")
}

// complete asks for a little of everything, and reports whether the answer says that it is complete.
func (c *chaos) complete(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf(
		"http://%s/api/v1/readings?from=%d&to=%d&limit=1", c.apiAt, c.truth.from-2, c.truth.from-1), nil)
	if err != nil {
		return false
	}
	req.Header.Set("X-Scope-OrgID", "acme")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var answer struct{ Complete bool }
	return json.NewDecoder(resp.Body).Decode(&answer) == nil && answer.Complete
}

// isReady waits until a member says that it is.
func (c *chaos) isReady(m *member) {
	admin := m.printed(`(?m)^ +admin +http://(\S+)`)
	soon(c.t, time.Minute, func() bool {
		resp, err := http.Get("http://" + admin + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, "%s is ready", m.name)
}

// holding are the members that hold something.
func (c *chaos) holding() (all []*member) {
	for _, m := range c.members {
		if len(m.holds) > 0 {
			all = append(all, m)
		}
	}
	return all
}

// steady waits until the catalog has all devices, and no head lists any.
func (c *chaos) steady() {
	require.NotEmpty(c.t, c.headsAt)
	soon(c.t, time.Minute, func() bool {
		news, err := c.heads().CatalogUpdates(c.t.Context(), "acme")
		return err == nil && len(news.Devices) == 0
	}, "the catalog has all devices")
}

// costs are counters by series.
type costs map[string]float64

func (c costs) add(factor float64, of map[string]float64) {
	for series, v := range of {
		c[series] += factor * v
	}
}

// sum is what all series of a metric have together.
func (c costs) sum(metric string) (sum float64) {
	for series, v := range c {
		if name, _, _ := strings.Cut(series, "{"); name == metric {
			sum += v
		}
	}
	return sum
}

// metrics is what a member exports, by series.
func (c *chaos) metrics(m *member) map[string]float64 {
	resp, err := http.Get("http://" + m.printed(`(?m)^ +admin +http://(\S+)`) + "/metrics")
	require.NoError(c.t, err)
	defer resp.Body.Close()
	all := map[string]float64{}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		at := strings.LastIndexByte(lines.Text(), ' ')
		if strings.HasPrefix(lines.Text(), "#") || at < 0 {
			continue
		}
		v, err := strconv.ParseFloat(lines.Text()[at+1:], 64)
		require.NoError(c.t, err, lines.Text())
		all[lines.Text()[:at]] = v
	}
	return all
}

// gaps is for how long answers were incomplete.
type gaps struct {
	c *chaos

	mu           sync.Mutex // guards below
	all, longest time.Duration
	whole        time.Time // when it was asked for the last answer that was complete
}

// measure asks again and again until the context ends.
func (g *gaps) measure(ctx context.Context) {
	var since time.Time // of the last complete answer before a gap
	last := time.Now()
	for ctx.Err() == nil {
		asked := time.Now()
		complete := g.c.complete(ctx)
		switch {
		case complete:
			g.mu.Lock()
			if g.whole = asked; !since.IsZero() {
				gap := asked.Sub(since)
				g.all, g.longest, since = g.all+gap, max(g.longest, gap), time.Time{}
			}
			g.mu.Unlock()
		case since.IsZero():
			since = last
		}
		last = asked
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// take returns the gaps since it was called for the last time when there is none: all of them, and the longest.
func (g *gaps) take() (all, longest time.Duration) {
	now := time.Now()
	soon(g.c.t, time.Minute, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.whole.After(now)
	}, "an answer is complete")
	g.mu.Lock()
	defer g.mu.Unlock()
	all, longest = g.all, g.longest
	g.all, g.longest = 0, 0
	return all.Round(time.Millisecond), longest.Round(time.Millisecond)
}
