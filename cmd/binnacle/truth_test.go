package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// truth is what was published and what was acknowledged of it. Each message has a number of its own, as the value of
// the metric n.
type truth struct {
	mu    sync.Mutex
	n     int64
	sent  map[int64]sent
	acked map[row]int64 // the number of the last message of a row that was acknowledged
	all   map[int64]bool
	seen  []observation

	devices int           // of each producer
	from    int64         // first instant of a day, ms
	step    int64         // from one instant to the next, ms
	days    []int64       // how many days back they write out of order; nil: all in order, and each like the other
	pause   time.Duration // after a batch
}

// sent is a message, in as few bytes as it needs: a run of an hour has millions.
type sent struct {
	row   row
	x     float64
	state bool
}

// values are those of the message with a number.
func (s sent) values(n int64) map[string]any {
	values := map[string]any{"n": n, "x": s.x}
	if s.state {
		values["state"] = fmt.Sprintf("state %d", n%7)
	}
	return values
}

// observation is a row of an answer that said it was complete: it had been acknowledged up to a number before the
// question, 0 for a row that is not there.
type observation struct {
	row         row
	acked, seen int64
}

func newTruth() *truth {
	return &truth{sent: map[int64]sent{}, acked: map[row]int64{}, all: map[int64]bool{}, devices: 2, from: noon(),
		step: 1000, days: chaosDays}
}

// chaosDays are how many days back producers write, months among them.
var chaosDays = []int64{0, 0, 0, 1, 31, 75}

// produce publishes readings of its own devices until the context ends. A device's next batch goes out when the one
// before it was acknowledged, so that what is acknowledged has an order.
func (tr *truth) produce(ctx context.Context, id int, broker *atomic.Pointer[string], rnd *rand.Rand) {
	at := int64(0)
	for ctx.Err() == nil {
		var messages []kafka.Message
		numbers := map[row]int64{}
		for range 1 + rnd.IntN(30) {
			at++
			r := row{device: fmt.Sprintf("p%d-%d", id, rnd.IntN(tr.devices)), ts: tr.from + at%4000*tr.step}
			if id > 0 && tr.days != nil { // out of order, late, and over what was there
				r.ts = tr.from - tr.days[rnd.IntN(len(tr.days))]*86_400_000 + rnd.Int64N(600)*tr.step
			}
			if tr.days != nil && rnd.IntN(4) == 0 {
				r.labels = `{"axle":"rear"}`
			}
			n, m := tr.message(r, rnd)
			messages, numbers[r] = append(messages, m), n
			if rnd.IntN(8) == 0 {
				messages = append(messages, m) // twice
			}
			if rnd.IntN(40) == 0 {
				broken := []byte(`{"tenant":"acme","device":"p0","ts":"soon"`)
				messages = append(messages, kafka.Message{Key: m.Key, Value: broken})
			}
		}
		for len(messages) > 0 {
			messages = unsent(messages, *broker.Load())
		}
		tr.mu.Lock()
		for r, n := range numbers {
			tr.acked[r] = n
			tr.all[n] = true
		}
		tr.mu.Unlock()
		time.Sleep(tr.pause) // how much comes is the test's subject
	}
}

func (tr *truth) message(r row, rnd *rand.Rand) (int64, kafka.Message) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.n++
	s := sent{row: r, x: randomFloat(rnd)}
	s.state = tr.days == nil || rnd.IntN(3) == 0
	tr.sent[tr.n] = s
	return tr.n, message("acme", r, s.values(tr.n))
}

// watch asks for what a device has, again and again, and remembers what answers say that call themselves complete.
func (c *chaos) watch(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		if !c.look(ctx, fmt.Sprintf("p%d-%d", i%4, i/4%c.truth.devices)) {
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond): // the process that it asks is broken on purpose
			}
		}
	}
}

// look asks for what a device has, "" for all devices, and remembers what the answer says if it calls itself complete,
// which it reports.
func (c *chaos) look(ctx context.Context, device string) bool {
	before := c.truth.of(device)
	got, complete := c.answered(ctx, device)
	if !complete {
		return false
	}
	c.said++
	c.doubled += got.doubled
	var older []observation
	for r, acked := range before {
		o := observation{r, acked, numberOf(got.readings[r])}
		if o.seen != acked {
			c.truth.seen = append(c.truth.seen, o)
		}
		if o.seen < acked {
			older = append(older, o) // unless it stands behind, for it was sent twice
		}
	}
	if len(older) > 0 {
		c.diagnose(ctx, older[0], len(older), got.about)
	}
	return true
}

// of is what is acknowledged of a device, "" for all devices.
func (tr *truth) of(device string) map[row]int64 {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	out := map[row]int64{}
	for r, n := range tr.acked {
		if device == "" || r.device == device {
			out[r] = n
		}
	}
	return out
}

// reply is the readings of an answer, and what it says about itself.
type reply struct {
	readings table
	doubled  int // rows that came twice
	about    json.RawMessage
}

// answered asks strictly for all readings of a device, "" for all devices. It reports whether the answer said that it
// is complete.
func (c *chaos) answered(ctx context.Context, device string) (got reply, complete bool) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	url := "http://" + c.apiAt + "/api/v1/readings?from=0&to=" + fmt.Sprint(noon()+10*86_400_000) +
		"&strict=true&timeout=5s&limit=10000000"
	if device != "" {
		url += "&device=" + device
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return got, false
	}
	req.Header.Set("X-Scope-OrgID", "acme")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return got, false
	}
	defer resp.Body.Close()
	var all struct {
		Readings            []reading
		Complete, Truncated bool
		Stats               json.RawMessage
	}
	d := json.NewDecoder(resp.Body)
	d.UseNumber()
	if resp.StatusCode != http.StatusOK || d.Decode(&all) != nil || !all.Complete || all.Truncated {
		return got, false
	}
	got = reply{readings: table{}, about: all.Stats}
	for _, g := range all.Readings {
		r := row{g.Device, g.TS, labelled(g.Labels)}
		if got.readings[r] != nil {
			got.doubled++
		}
		got.readings[r] = g.Values
	}
	return got, true
}

// verdict counts records of the log: each is stored, which is that its row is answered with the last values, or
// refused, or lost, or wrong. What was acknowledged and is not in the log is lost too.
type verdict struct {
	produced, stored, refused, lost, doubled, wrong, incomplete int
	examples                                                    []string
}

func (v *verdict) line(seed uint64) string {
	return fmt.Sprintf("produced %d stored %d refused %d lost %d doubled %d wrong %d incomplete-but-said-complete %d "+
		"seed %d", v.produced, v.stored, v.refused, v.lost, v.doubled, v.wrong, v.incomplete, seed)
}

func (v *verdict) good() bool {
	return v.lost+v.doubled+v.wrong+v.incomplete == 0 && v.produced == v.stored+v.refused
}

func (v *verdict) example(format string, args ...any) {
	if len(v.examples) < 20 {
		v.examples = append(v.examples, fmt.Sprintf(format, args...))
	}
}

// record is where a message stands in the log, the first and the last time.
type record struct{ first, last int64 }

// standing orders the messages of a device: those of one partition by offset, and as a topic that grows moves a device
// to a higher partition, those of a higher one are later.
func standing(m kafka.Message) int64 { return int64(m.Partition)<<40 | m.Offset }

// judge compares the log with the answers: those that are remembered, that of now, and that after all ingesters were
// killed.
func (c *chaos) judge() *verdict {
	log := c.readLog("telemetry")
	v := &verdict{doubled: c.doubled}
	want, bad, records, at := table{}, 0, map[row]int{}, map[int64]record{}
	for _, m := range log {
		var wire struct {
			Tenant string
			Values struct{ N int64 }
		}
		err := json.Unmarshal(m.Value, &wire)
		if wire.Tenant != "" && wire.Tenant != "acme" { // what is no JSON names no tenant
			continue
		}
		v.produced++
		if err != nil {
			bad++
			continue
		}
		s, n := c.truth.sent[wire.Values.N], wire.Values.N
		for metric, value := range s.values(n) {
			want.set(s.row, metric, value)
		}
		records[s.row]++
		if _, twice := at[n]; !twice {
			at[n] = record{standing(m), standing(m)}
		}
		at[n] = record{at[n].first, standing(m)}
	}
	for n := range c.truth.all {
		if _, ok := at[n]; !ok {
			v.lost++
			v.example("message %d was acknowledged and is not in the log", n)
		}
	}
	for _, o := range c.truth.seen {
		if o.seen == 0 || at[o.seen].last < at[o.acked].first {
			v.incomplete++
			v.example("a complete answer has number %d of %v, %d was acknowledged", o.seen, o.row, o.acked)
		}
	}
	c.compare(v, want, records)
	for _, m := range c.holding() {
		m.kill()
		c.launch(m)
	}
	again := &verdict{}
	c.compare(again, want, records)
	v.stored, v.lost = min(v.stored, again.stored), v.lost+again.lost
	v.doubled, v.wrong = v.doubled+again.doubled, v.wrong+again.wrong
	v.examples = append(v.examples, again.examples...)
	v.refused = c.refused(bad)
	v.lost += bad - v.refused
	return v
}

// compare asks until an answer is complete, and counts what it has.
func (c *chaos) compare(v *verdict, want table, records map[row]int) {
	var got table
	soon(c.t, 2*time.Minute, func() bool {
		answer, complete := c.answered(context.Background(), "")
		got = answer.readings
		v.doubled += answer.doubled
		return complete
	}, "an answer is complete")
	for r, values := range want {
		switch {
		case got[r] == nil:
			v.lost += records[r]
			v.example("%v is lost, want %v", r, values)
		case !sameValues(values, got[r]):
			v.wrong += records[r]
			v.example("%v is %v, want %v", r, got[r], values)
		default:
			v.stored += records[r]
		}
	}
	for r := range got {
		if want[r] == nil {
			v.wrong++
			v.example("%v was never published", r)
		}
	}
}

func sameValues(want, got map[string]any) bool {
	for metric, value := range want {
		if !same(value, got[metric]) {
			return false
		}
	}
	return len(want) == len(got)
}

// refused waits until so many different records are dead letters. A record may stand there more than once: the letters
// too are published at least once.
func (c *chaos) refused(want int) int {
	places := map[string]bool{}
	soon(c.t, time.Minute, func() bool {
		clear(places)
		for _, m := range c.readLog("telemetry.dlq") {
			place := ""
			for _, h := range m.Headers {
				if h.Key == "binnacle-partition" || h.Key == "binnacle-offset" {
					place += string(h.Value) + " "
				}
			}
			places[place] = true
		}
		return len(places) >= want
	}, "%d records are refused", want)
	return len(places)
}

// readLog is all records of a topic.
func (c *chaos) readLog(topic string) (all []kafka.Message) {
	var ids []int
	soon(c.t, time.Minute, func() bool { ids = c.partitionsOf(topic); return len(ids) > 0 }, "the broker lists partitions")
	for _, partition := range ids {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		conn, err := kafka.DialLeader(ctx, "tcp", *c.brokerAt.Load(), topic, partition)
		require.NoError(c.t, err)
		end, err := conn.ReadLastOffset()
		require.NoError(c.t, err)
		require.NoError(c.t, conn.Close())
		r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{*c.brokerAt.Load()}, Topic: topic, Partition: partition,
			MaxWait: 10 * time.Millisecond})
		for at := int64(0); at < end; {
			m, err := r.ReadMessage(ctx)
			require.NoError(c.t, err)
			all, at = append(all, m), m.Offset+1
		}
		require.NoError(c.t, r.Close())
	}
	return all
}

// partitionsOf are a topic's, ascending; none if the broker does not tell.
func (c *chaos) partitionsOf(topic string) (ids []int) {
	conn, err := kafka.Dial("tcp", *c.brokerAt.Load())
	if err != nil {
		return nil
	}
	defer conn.Close()
	found, err := conn.ReadPartitions(topic)
	if err != nil {
		return nil
	}
	for _, p := range found {
		ids = append(ids, p.ID)
	}
	slices.Sort(ids)
	return ids
}
