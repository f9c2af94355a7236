package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/lab/fleet"
	"binnacle/internal/telemetry"
	"binnacle/internal/text/report"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

var (
	freshRate = flag.Int("fresh.rate", 5000, "values a second, ten a reading, that are published in TestVisibleSoon")
	freshFor  = flag.Duration("fresh.duration", 2*time.Second, "for how long")
)

// While a fleet publishes, ingest and query being two processes, what was acknowledged is there: for strict queries
// at once, and for others soon. How soon is logged: make bench-fresh shows it. There, with enough answers for a p99, it
// also fails if one has to wait longer than a strict query does: an answer is believed too long, or asked for twice.
func TestReadingsAreVisibleSoon(t *testing.T) {
	t.Parallel()
	v := newVisible(t)
	ctx, cancel := context.WithCancel(t.Context())
	published := make(chan int, 1)
	go func() { published <- v.load(ctx) }()
	v.begin()
	var probes sync.WaitGroup
	until := time.Now().Add(*freshFor)
	probes.Go(func() { v.idle(until) })
	for i := range 4 {
		probes.Go(func() { v.probe(i, until) })
	}
	probes.Wait()
	v.end()
	cancel()
	readings := <-published
	v.report(readings)
	soon(t, time.Minute, func() bool {
		m := scraped(v.admin)
		taken := m["binnacle_ingest_readings_total"] + m["binnacle_ingest_resumed_readings_total"] // the first ones wait
		return int(taken) >= readings+len(v.polled)+len(v.strict)
	}, "all that was published is ingested")
	require.NotEmpty(t, v.polled)
	require.NotEmpty(t, v.strict)
	if *freshFor < 10*time.Second {
		return
	}
	polled, strict, pause := quantile(v.polled, 0.99), quantile(v.strict, 0.99), quantile(v.late, 0.99)
	require.LessOrEqual(t, polled, strict+strict/10+pause, "p99 until a reading is there; once, strictly; of pauses: %s",
		[]time.Duration{polled, strict, pause})
}

// quantile returns a quantile of sorted durations.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// visible is a broker, a store, an ingester and a querier, and how long what was published to them took to be seen.
type visible struct {
	t              *testing.T
	kafka, api     string
	admin          string // the ingester's
	roles          []*process
	names          []string
	begun          time.Time
	before, used   []float64 // CPU of the roles
	took           time.Duration
	perSecond      float64
	mu             sync.Mutex // guards below
	acked          int
	polled, strict []time.Duration // from the acknowledgement until an answer had it
	questions      int             // that were asked for polled
	late           []time.Duration // by which a pause was too long meanwhile
}

func newVisible(t *testing.T) *visible {
	v := &visible{t: t, kafka: freePort(t), api: freePort(t)}
	store, heads, secret, dir := freePort(t), freePort(t), file(t, "secret", headsSecret+"\n"), t.TempDir()
	servers := []string{"--kafka=" + v.kafka, "--cosmos=" + store}
	v.add("broker", "--kafka="+v.kafka, "--data-dir="+dir+"/kafka", "--kafka-mb=0").printed(`(?m)^ +kafka +(\S+)`)
	v.add("emulator", "--cosmos="+store, "--data-dir="+dir+"/cosmos", "--unlimited").printed(`(?m)^ +endpoint +(\S+)`)
	start(t, append([]string{"provision", "--journal-of=telemetry"}, servers...)...)
	soon(t, time.Minute, func() bool {
		return run(t, time.Minute, append([]string{"ingest", "--check"}, servers...)...).code == 0
	}, "provision makes what is missing")
	v.admin = v.add("ingest", append([]string{"--register", "--admin=127.0.0.1:0", "--heads-listen=" + heads,
		"--heads-secret-file=" + secret}, servers...)...).printed(`(?m)^ +admin +http://(\S+)`)
	v.add("query", append([]string{"--api=" + v.api, "--admin=127.0.0.1:0", "--heads=" + heads,
		"--heads-secret-file=" + secret, "--trusted-proxies=127.0.0.1"}, servers...)...).printed(`(?m)^ +api +http://(\S+)`)
	return v
}

func (v *visible) add(role string, args ...string) *process {
	p := start(v.t, append([]string{role}, args...)...)
	v.roles, v.names = append(v.roles, p), append(v.names, role)
	return p
}

// load publishes readings of a fleet, each device's once a second, until the context ends, and returns how many.
func (v *visible) load(ctx context.Context) (n int) {
	w := writer(v.kafka, "telemetry")
	w.Compression = kafka.Lz4
	defer w.Close()
	begun := time.Now()
	devices := max(1, *freshRate/10)
	trucks := make([]*fleet.Truck, devices)
	for i := range trucks {
		trucks[i] = fleet.NewTruck(1, i, begun)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		<-tick.C
		at := time.Now()
		due := int(at.Sub(begun).Seconds() * float64(devices))
		var messages []kafka.Message
		for ; n < due && len(messages) < 5000; n++ {
			truck := trucks[n%devices]
			r := telemetry.Reading{Tenant: "acme", Device: truck.ID(), Time: at.UnixMilli(), Fields: truck.Next(at)}
			messages = append(messages, kafka.Message{Key: []byte("acme/" + r.Device), Value: decode.AppendJSON(nil, r)})
		}
		if len(messages) == 0 {
			continue
		}
		if err := w.WriteMessages(context.Background(), messages...); err != nil {
			v.t.Errorf("publish: %v", err)
			return n
		}
		v.mu.Lock()
		v.acked = n
		v.mu.Unlock()
	}
	return n
}

// begin waits until everything flows and the catalog has the devices, a tenth of the time, and starts to count.
func (v *visible) begin() {
	client := &http.Client{}
	soon(v.t, time.Minute, func() bool {
		_, complete := v.ask(client, "truck-0000", 0, "strict=true&timeout=1s")
		return complete
	}, "the fleet is answered")
	time.Sleep(*freshFor / 10)
	v.begun, v.used = time.Now(), make([]float64, len(v.roles))
	v.mu.Lock()
	v.perSecond = -float64(v.acked)
	v.mu.Unlock()
	for _, p := range v.roles {
		v.before = append(v.before, cpuOf(p))
	}
}

// end counts what was used since.
func (v *visible) end() {
	v.took = time.Since(v.begun)
	v.mu.Lock()
	v.perSecond = (v.perSecond + float64(v.acked)) * 10 / v.took.Seconds()
	v.mu.Unlock()
	for i, p := range v.roles {
		v.used[i] = (cpuOf(p) - v.before[i]) / v.took.Seconds()
	}
}

// probe publishes readings of a device, one after the other, and asks for each as soon as it is acknowledged: every
// second one strictly, which must be enough, and the others until they are there.
func (v *visible) probe(id int, until time.Time) {
	w := writer(v.kafka, "telemetry")
	w.BatchSize = 1
	defer w.Close()
	client, rnd := &http.Client{Transport: &http.Transport{}}, rand.New(rand.NewPCG(1, uint64(id)))
	defer client.CloseIdleConnections()
	device := fmt.Sprintf("probe-%d", id)
	for n, at := 0, int64(0); n < 4 || time.Now().Before(until); n++ {
		at = max(at+1, time.Now().UnixMilli())
		m := message("acme", row{device: device, ts: at}, map[string]any{"n": float64(n)})
		if err := w.WriteMessages(context.Background(), m); err != nil {
			v.t.Errorf("publish: %v", err)
			return
		}
		acknowledged, questions, how := time.Now(), 0, ""
		if n%2 == 1 {
			how = "strict=true&timeout=30s"
		}
		for found := false; !found; questions++ {
			var complete bool
			found, complete = v.ask(client, device, at, how)
			if how != "" && !(found && complete) {
				v.t.Errorf("strictly asked, an answer without what was acknowledged: complete %v", complete)
				return
			}
			if time.Since(acknowledged) > time.Minute {
				v.t.Errorf("reading %d of %s is not answered", n, device)
				return
			}
		}
		took := time.Since(acknowledged)
		v.mu.Lock()
		if how == "" {
			v.polled, v.questions = append(v.polled, took), v.questions+questions
		} else {
			v.strict = append(v.strict, took)
		}
		v.mu.Unlock()
		time.Sleep(time.Duration(rnd.IntN(40)) * time.Millisecond) // in no step with what is measured
	}
}

// idle notes by how much pauses are too long: what the machine adds to everything that is measured.
func (v *visible) idle(until time.Time) {
	const pause = 5 * time.Millisecond
	for begun := time.Now(); begun.Before(until); begun = time.Now() {
		time.Sleep(pause)
		v.late = append(v.late, time.Since(begun)-pause)
	}
}

// ask asks for a device's reading of an instant, and reports whether it is in the answer and whether that is complete.
func (v *visible) ask(client *http.Client, device string, at int64, how string) (found, complete bool) {
	req, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://%s/api/v1/readings?device=%s&from=%d&to=%d&%s", v.api,
		device, at, at+1, how), nil)
	if err != nil {
		return false, false
	}
	req.Header.Set("X-Scope-OrgID", "acme")
	resp, err := client.Do(req)
	if err != nil {
		return false, false
	}
	defer resp.Body.Close()
	var a struct {
		Readings []reading
		Complete bool
	}
	if json.NewDecoder(resp.Body).Decode(&a) != nil || resp.StatusCode != http.StatusOK {
		return false, false
	}
	return len(a.Readings) == 1 && a.Readings[0].TS == at, a.Complete
}

// report logs how soon what was acknowledged was seen, and what that took.
func (v *visible) report(readings int) {
	var out bytes.Buffer
	rows := [][]string{{"asked", "times", "p50 ms", "p90", "p99", "p99.9", "max"}}
	for _, asked := range []struct {
		how string
		all []time.Duration
	}{{"until it is there", v.polled}, {"once, strictly", v.strict}, {"nothing: a pause is too long by", v.late}} {
		slices.Sort(asked.all)
		cells := []string{asked.how, fmt.Sprint(len(asked.all))}
		for _, q := range []float64{0.5, 0.9, 0.99, 0.999, 1} {
			cells = append(cells, fmt.Sprintf("%.1f", quantile(asked.all, q).Seconds()*1000))
		}
		rows = append(rows, cells)
	}
	require.NoError(v.t, report.Grid(&out, rows))
	load, err := os.ReadFile("/proc/loadavg")
	require.NoError(v.t, err)
	v.t.Logf("%.0f values/s for %s, %d readings in all, %.1f questions until one was there; load average %s\n%s",
		v.perSecond, v.took.Round(time.Millisecond), readings, float64(v.questions)/float64(len(v.polled)),
		strings.Join(strings.Fields(string(load))[:3], " "), out.String())
	var cpu []string
	for i, name := range v.names {
		cpu = append(cpu, fmt.Sprintf("%s %.0f %%", name, v.used[i]*100))
	}
	v.t.Logf("CPU of one core: %s; a fixed piece of work takes %.0f CPU-ms", strings.Join(cpu, ", "), reference())
}
