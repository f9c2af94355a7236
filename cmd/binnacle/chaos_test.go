package main_test

import (
	"bytes"
	"cmp"
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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"binnacle/internal/kafka/kafkatest"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

var (
	chaosDuration = flag.Duration("chaos.duration", 0, "how long TestChaos breaks things; 0: it is left out")
	chaosSeed     = flag.Uint64("chaos.seed", 0, "seed of TestChaos; 0: a random one")
	chaosReport   = flag.String("chaos.report", "", "file that TestChaos writes its verdict to")
	chaosKafka    = flag.String("chaos.kafka", "", "folder of Apache Kafka's jars, to break that; empty: binnacle broker")
	chaosAssign   = flag.Bool("chaos.assign", false, "ingesters are assigned their partitions instead of being a group")
	chaosGrow     = flag.Bool("chaos.grow", false, "the account begins serverless and becomes provisioned meanwhile")
	chaosHolds    = flag.String("chaos.holds", "1s,12h,off",
		"holds of ingesters, one of them by chance at each start; off: 1s without a journal")
)

// Every role is a process, and each of them, broker and store included, is killed and paused at random while producers
// publish in order, out of order, twice, into past months and over older values, the topic grows, and the store is
// slow, fails and lies. Whatever an answer calls complete has everything that was acknowledged before it; in the end
// the log's records are answered, once, with their last values, and the others are dead letters.
func TestChaos(t *testing.T) {
	if *chaosDuration == 0 {
		t.Skip("needs -chaos.duration")
	}
	t.Parallel()
	seed := seedOf(t, *chaosSeed)
	c := newChaos(t, seed, strings.Split(*chaosHolds, ","))
	ctx, cancel := context.WithTimeout(t.Context(), *chaosDuration)
	defer cancel()
	var producers sync.WaitGroup
	for i := range 4 {
		producers.Go(func() { c.truth.produce(ctx, i, &c.brokerAt, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	var watch sync.WaitGroup
	watch.Go(func() { c.watch(ctx) })
	if *chaosGrow {
		c.growAt = time.Now().Add(*chaosDuration/4 + time.Duration(c.rnd.Int64N(int64(*chaosDuration/4))))
	}
	c.injectFaults(ctx)
	c.calm()
	producers.Wait()
	watch.Wait()

	v := c.judge()
	c.checkGrown()
	line := v.line(seed)
	t.Logf("%d faults: %d kills, %d pauses, %d growths of the topic, %d splits, %d requests to the store; %d answers in "+
		"between said that they were complete", c.kills+c.pauses+c.growths+c.splits+c.hits, c.kills, c.pauses, c.growths,
		c.splits, c.hits, c.said)
	for _, example := range v.examples {
		t.Log(example)
	}
	t.Log(line)
	reportTo(t, *chaosReport, line)
	require.Greater(t, v.produced, 100)
	require.Positive(t, v.refused)
	require.Positive(t, c.kills)
	require.True(t, v.good(), line)
	require.Empty(t, c.died, "processes that ended by themselves")
}

// seedOf is the seed that was asked for, else a random one, and logged.
func seedOf(t *testing.T, asked uint64) uint64 {
	if asked == 0 {
		asked = rand.Uint64()
	}
	t.Logf("seed %d", asked)
	return asked
}

// reportTo writes a verdict to a file, if there is one for it.
func reportTo(t *testing.T, path, line string) {
	if path != "" {
		require.NoError(t, os.WriteFile(path, []byte(line+"\n"), 0o644))
	}
}

// member is a role's process, by turns.
type member struct {
	name  string
	args  []string
	holds []string // those of ingesters: 12h, or off for a short one without a journal
	// release is the binary that is started next; empty: the one under test.
	release string
	*process
	blocks int       // how long its files may be, in those of 512 or 1,024 bytes; 0: as long as they get
	back   time.Time // when it is started again, after a kill
	goOn   time.Time // when it is woken, after a pause
}

// headsSecret is what queries bring to ask heads.
const headsSecret = "open sesame"

type chaos struct {
	t        *testing.T
	rnd      *rand.Rand
	members  []*member
	brokerAt atomic.Pointer[string]
	storeAt  string
	apiAt    string
	headsAt  []string // of the ingesters
	truth    *truth
	kafka    *kafkatest.Server // nil: a broker is among the members
	starting chan error        // when it runs again, after a kill; nil: it runs

	kills, pauses, growths, splits, hits int
	// growAt is when the account becomes provisioned. It is zero where the account stays as it is.
	growAt time.Time

	diagnosed int // answers that were looked into, or would have been

	died    []string
	said    int // answers that said they were complete; watch writes it
	doubled int // of them, rows that came twice
}

func newChaos(t *testing.T, seed uint64, holds []string) *chaos {
	dir, secret := t.TempDir(), file(t, "secret", headsSecret+"\n")
	kafkaAt, storeAt, apiAt := freePort(t), freePort(t), freePort(t)
	c := &chaos{t: t, rnd: rand.New(rand.NewPCG(seed, 99)), storeAt: storeAt, apiAt: apiAt, truth: newTruth()}
	c.brokerAt.Store(&kafkaAt)
	servers := []string{"--kafka=" + kafkaAt, "--cosmos=" + storeAt}
	if *chaosKafka != "" {
		kafkaAt = c.startApache(*chaosKafka)
		servers[0] = "--kafka=" + kafkaAt
	} else {
		c.add("broker", "--kafka="+kafkaAt, "--data-dir="+dir+"/kafka", "--partitions=4", "--kafka-mb=0").
			printed(`(?m)^ +kafka +(\S+)`)
	}
	capacity := "--capacity=provisioned"
	if *chaosGrow {
		capacity = "--capacity=serverless"
	}
	c.add("emulator", "--cosmos="+storeAt, "--data-dir="+dir+"/cosmos", "--unlimited", "--faults",
		"--physical-partitions=5", "--split-takes=-1s", capacity).
		printed(`(?m)^ +endpoint +http://([^/\s]+)`)
	c.add("provision", "--every=1s", "--balance=on", "--balance-from=0s", "--balance-every=1s",
		"--journal-of=telemetry", servers[0], servers[1])
	soon(t, time.Minute, func() bool {
		return run(t, time.Minute, append([]string{"ingest", "--check"}, servers...)...).code == 0
	}, "provision makes what is missing")
	addEpochs(t, storeAt)
	ports := []string{freePort(t), freePort(t), freePort(t)}
	c.headsAt = ports
	for i, port := range ports {
		args := append([]string{"--register", "--session-timeout=6s", "--heads-listen=" + port, "--admin=127.0.0.1:0",
			"--heads-secret-file=" + secret}, servers...)
		if *chaosAssign {
			args = append(args, fmt.Sprintf("--assign=%d/%d", i, len(ports)))
		}
		c.addHolding(holds, "ingest", args...).printed(`(?m)^ +heads +(\S+)`)
	}
	c.add("query", append([]string{"--api=" + apiAt, "--admin=127.0.0.1:0", "--heads=" + strings.Join(ports, ","),
		"--heads-secret-file=" + secret, "--trusted-proxies=127.0.0.1", "--query-max-rus=100000000"}, servers...)...).
		printed(`(?m)^ +api +http://(\S+)`)
	return c
}

func (c *chaos) add(role string, args ...string) *member { return c.addHolding(nil, role, args...) }

func (c *chaos) addHolding(holds []string, role string, args ...string) *member {
	m := &member{name: role, args: append([]string{role}, args...), holds: holds}
	c.launch(m)
	c.members = append(c.members, m)
	return m
}

// launch starts a member's process, an ingester's with one of its holds.
func (c *chaos) launch(m *member) {
	var env []string // which all releases understand, whatever their flags are
	if len(m.holds) > 0 {
		hold := m.holds[c.rnd.IntN(len(m.holds))]
		if hold == "off" {
			env, hold = append(env, "BINNACLE_JOURNAL=off"), "1s"
		}
		env = append(env, "BINNACLE_HOLD="+hold, "BINNACLE_JOURNAL_EVERY=2s")
	}
	if m.blocks > 0 {
		limited := fmt.Sprintf(`ulimit -f %d; exec "$0" "$@"`, m.blocks)
		m.process = startProgram(c.t, env, "sh", slices.Concat([]string{"-c", limited, program}, m.args)...)
		return
	}
	m.process = startRelease(c.t, cmp.Or(m.release, program), slices.Concat(env, m.args)...)
}

// injectFaults breaks something every now and then until the context ends.
func (c *chaos) injectFaults(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	next := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			c.tend(now)
			if !c.growAt.IsZero() && now.After(c.growAt) {
				c.becomeProvisioned()
			}
			if now.After(next) {
				c.breakSomething(now)
				next = now.Add(time.Duration(50+c.rnd.IntN(500)) * time.Millisecond)
			}
		}
	}
}

// tend starts and wakes processes that are due, and finds those that have ended by themselves.
func (c *chaos) tend(now time.Time) {
	select {
	case err := <-c.starting:
		require.NoError(c.t, err)
		c.starting = nil
	default:
	}
	for _, m := range c.members {
		switch {
		case m.process == nil && now.After(m.back):
			c.launch(m)
		case m.process == nil:
		case !m.goOn.IsZero() && now.After(m.goOn):
			m.goOn = time.Time{}
			_ = m.cmd.Process.Signal(syscall.SIGCONT) // it may have ended: then the next round finds out
		default:
			select {
			case <-m.ended:
				c.died = append(c.died, fmt.Sprintf("%s, exit code %d: %s", m.name, m.code, m.stderr.String()))
				m.process, m.back = nil, now
			default:
			}
		}
	}
}

func (c *chaos) breakSomething(now time.Time) {
	if c.kafka != nil && c.starting == nil && c.rnd.IntN(40) == 0 { // it takes its time to come back
		c.killApache()
		c.kills++
		return
	}
	switch c.rnd.IntN(25) {
	case 0:
		c.grow()
		return
	case 1, 2:
		c.split()
		return
	}
	m := c.members[c.rnd.IntN(len(c.members))]
	up := m.process != nil && m.goOn.IsZero()
	switch what := c.rnd.IntN(10); {
	case what < 3 && up:
		if m.name == "emulator" {
			c.countHits()
		}
		m.kill()
		m.process, m.back = nil, now.Add(time.Duration(c.rnd.IntN(700))*time.Millisecond)
		c.kills++
	case what < 5 && up:
		pause := time.Duration(100+c.rnd.IntN(1500)) * time.Millisecond
		if m.name == "ingest" && c.rnd.IntN(2) == 0 {
			pause = 6500 * time.Millisecond // longer than its session
		}
		_ = m.cmd.Process.Signal(syscall.SIGSTOP) // it may have ended
		m.goOn = now.Add(pause)
		c.pauses++
	default:
		c.countHits()
		c.rules()
	}
}

// maxPartitions is what the topic grows to.
const maxPartitions = 16

// grow doubles the partitions of the topic, so that a device that moves moves to a higher one; unless the broker is
// gone for a moment.
func (c *chaos) grow() {
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(*c.brokerAt.Load()), Transport: transport}
	about, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{"telemetry"}})
	if err != nil || len(about.Topics) != 1 || about.Topics[0].Error != nil ||
		2*len(about.Topics[0].Partitions) > maxPartitions {
		return
	}
	res, err := client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{
		{Name: "telemetry", Count: int32(2 * len(about.Topics[0].Partitions))}}})
	if err == nil && res.Errors["telemetry"] == nil {
		c.growths++
	}
}

// calm ends all faults and brings everybody back.
func (c *chaos) calm() {
	if c.starting != nil {
		require.NoError(c.t, <-c.starting)
		c.starting = nil
	}
	for _, m := range c.members {
		if !m.goOn.IsZero() {
			m.goOn = time.Time{}
			_ = m.cmd.Process.Signal(syscall.SIGCONT) // it may have ended
		}
		if m.process == nil {
			c.launch(m)
		}
	}
	soon(c.t, time.Minute, func() bool {
		c.countHits()
		return c.faults(http.MethodDelete, nil, 500*time.Millisecond) != nil
	}, "the store is well again")
}

// failures are what rules do. A container that seems gone is not among them: only creates may meet that, for to a
// query it has expired.
var failures = []string{
	`"status":503`, `"status":408`, `"status":429,"substatus":3200,"retryAfterMs":5`, `"status":449`, `"status":500`,
	`"status":410,"substatus":1002`, `"drop":true`, `"hang":true`, `"latencyMs":20,"jitterMs":400`,
}

// rules makes the store slow, failing and lying in a new way, unless it is gone or paused. A paused store would read
// the rules when it is woken, and perhaps after calm has removed all others. For the same reason rules waits until the
// store has answered, or has ended.
func (c *chaos) rules() {
	store := c.members[slices.IndexFunc(c.members, func(m *member) bool { return m.name == "emulator" })]
	if store.process == nil || !store.goOn.IsZero() {
		return
	}
	operations := []string{"create", "read", "query", "replace", "patch", "upsert", "metadata", "changes"}
	var rules []string
	for range 1 + c.rnd.IntN(4) {
		failure := failures[c.rnd.IntN(len(failures))]
		rules = append(rules, fmt.Sprintf(`{"operations":[%q],%s,"probability":%.2f,"applied":%v}`,
			operations[c.rnd.IntN(len(operations))], failure, 0.02+c.rnd.Float64()/2, c.rnd.IntN(2) == 0))
	}
	rules = append(rules, fmt.Sprintf(`{"operations":["create"],%s,"probability":0.3,"applied":%v}`,
		failures[c.rnd.IntN(len(failures))], c.rnd.IntN(2) == 0))
	if c.rnd.IntN(4) == 0 {
		rules = append(rules,
			`{"operations":["create"],"container":"chunks-*","status":404,"substatus":1003,"probability":0.2}`)
	}
	body := fmt.Appendf(nil, `{"seed":%d,"rules":[%s]}`, c.rnd.IntN(1<<30), strings.Join(rules, ","))
	c.faults(http.MethodPut, body, time.Minute)
}

// countHits adds what the rules have hit, before they or the emulator go.
func (c *chaos) countHits() {
	var state struct{ Rules []struct{ Hits int } }
	body := c.faults(http.MethodGet, nil, 500*time.Millisecond)
	if body != nil && json.Unmarshal(body, &state) == nil {
		for _, r := range state.Rules {
			c.hits += r.Hits
		}
	}
}

// becomeProvisioned makes the account provisioned, unless the emulator is gone or paused: then the next call does.
func (c *chaos) becomeProvisioned() {
	if c.ask(http.MethodPut, "capacity", []byte(`{"mode":"provisioned"}`), time.Second) != nil {
		c.growAt = time.Time{}
	}
}

// checkGrown checks that provision has taken over all containers of an account that has become provisioned.
func (c *chaos) checkGrown() {
	if !*chaosGrow {
		return
	}
	require.Zero(c.t, c.growAt, "the account is provisioned")
	soon(c.t, 3*time.Minute, func() bool {
		p := run(c.t, time.Minute, "doctor", "--json", "--cosmos="+c.storeAt)
		type container struct {
			Name       string
			RUs        int
			Serverless bool
		}
		var found struct{ Containers []container }
		require.NoError(c.t, json.Unmarshal([]byte(p.stdout.String()), &found), p.stdout.String())
		return !slices.ContainsFunc(found.Containers, func(of container) bool {
			return of.Serverless || of.Name == "control" && of.RUs > 400
		})
	}, "provision has taken the containers over")
}

// faults sends the emulator a request about its rules. It returns nil without an answer in time: the emulator may be
// gone or paused.
func (c *chaos) faults(method string, body []byte, timeout time.Duration) []byte {
	return c.ask(method, "faults", body, timeout)
}

// ask sends the emulator a request about itself, and returns nil without an answer in time.
func (c *chaos) ask(method, page string, body []byte, timeout time.Duration) []byte {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.storeAt+"/_emulator/"+page, bytes.NewReader(body))
	if err != nil {
		return nil
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	var out bytes.Buffer
	if _, err := out.ReadFrom(resp.Body); err != nil || resp.StatusCode >= 300 {
		if resp.StatusCode == http.StatusBadRequest {
			c.t.Errorf("%s %s: %s", page, body, out.String())
		}
		return nil
	}
	return append(out.Bytes(), ' ')
}
