package main_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var productionKafka = flag.String("production.kafka", "",
	"folder of Apache Kafka's jars, for TestProductionAsTheGuideHasIt; empty: it is skipped")

// The guide's first install works as it stands there, but for the ports. Each process that it starts is killed, also
// Kafka and Cosmos DB, while somebody publishes, and started again by its own line: whatever calls itself complete
// has all that was acknowledged before and nothing else, and in the end both queriers have everything.
func TestProductionGuide(t *testing.T) {
	t.Parallel()
	if *productionKafka == "" {
		t.Skip("there is no Apache Kafka: make production-it runs this")
	}
	p := newProduction(t)
	p.install()
	jobs := p.shell.jobs()
	require.Len(t, jobs, 8, "Kafka, Cosmos DB, provision, three ingesters, two queriers")
	for _, victim := range jobs {
		p.killAndRestart(victim)
	}
	require.Len(t, p.shell.jobs(), len(jobs), "what was started again runs")
	t.Logf("%d answers said that they were complete, %d were errors or incomplete; %d readings",
		p.whole, p.partial, len(p.want))
	p.shell.run("kill $(jobs -p); for pid in $(jobs -p); do wait $pid || [ $? = 143 ]; done")
	require.Empty(t, p.shell.jobs())
}

// production is what the guide sets up, and what was published there.
type production struct {
	t        *testing.T
	shell    *terminal
	blocks   []string          // the guide's commands, in order, with the ports of this test
	ports    map[string]string // by the guide's
	token    string
	want     map[row]int // the value n of all that is acknowledged
	maybe    map[row]int // that of what is on its way
	n        int
	from, to int64

	whole, partial int // answers
}

// queriers are where the guide has the query API.
var queriers = []string{"127.0.0.1:7070", "127.0.0.1:7080"}

func newProduction(t *testing.T) *production {
	dir := t.TempDir()
	p := &production{t: t, ports: map[string]string{}, want: map[row]int{}, maybe: map[row]int{}}
	guide, err := os.ReadFile("../../docs/operate/production.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(guide), "\n## First install, on one machine\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	section = regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllStringFunc(section, p.port)
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
		p.blocks = append(p.blocks, block[1])
	}
	kafkaFolder{path: filepath.Join(dir, "kafka"), jars: *productionKafka, broker: p.port("127.0.0.1:9092"),
		controller: freePort(t)}.fill(t)
	require.NoError(t, os.Symlink(program, filepath.Join(dir, "binnacle")))
	p.shell = openTerminal(t, dir)
	return p
}

// port is the address of this test that stands for one of the guide.
func (p *production) port(guides string) string {
	if p.ports[guides] == "" {
		p.ports[guides] = freePort(p.t)
	}
	return p.ports[guides]
}

// csvLine is a reading of the guide's, as queriers print it.
var csvLine = regexp.MustCompile(`(?m)^(\S+Z),(truck-\d),(\d+)$`)

// install types what the guide says, and checks what it promises.
func (p *production) install() {
	var printed []string
	for _, block := range p.blocks {
		// The binary is there: it was built of these sources.
		printed = append(printed, p.shell.run(strings.Replace(block, "go build -o binnacle ./cmd/binnacle\n", "", 1)))
	}
	p.token = strings.TrimSpace(p.shell.run("echo $TOKEN"))
	require.Len(p.t, printed, 6, "the blocks of the guide")
	answers, refused := printed[4], printed[5]
	require.Contains(p.t, refused, `"status":401`)
	for _, querier := range queriers {
		require.Equal(p.t, http.StatusUnauthorized, p.ask(querier, "mine").status)
	}
	require.Equal(p.t, 2, strings.Count(answers, "\ntime,device,n\n"), answers)
	all := csvLine.FindAllStringSubmatch(answers, -1)
	require.Len(p.t, all, 2*100, answers)
	for _, cells := range all {
		at, err := time.Parse("2006-01-02T15:04:05.000Z", cells[1])
		require.NoError(p.t, err)
		n, err := strconv.Atoi(cells[3])
		require.NoError(p.t, err)
		require.Equal(p.t, fmt.Sprintf("truck-%d", n%5), cells[2])
		p.want[row{device: cells[2], ts: at.UnixMilli()}] = n
	}
	require.Len(p.t, p.want, 100)
	p.n, p.to = 100, time.Now().UnixMilli()+1
	p.from = p.to - 5*24*3_600_000
}

// killAndRestart kills a process while somebody publishes and asks, starts it again by its line, and waits until both
// queriers have everything.
func (p *production) killAndRestart(victim job) {
	p.t.Helper()
	published := make(chan error, 1)
	batch := p.batch()
	go func() { published <- p.publish(batch) }()
	killed := time.Now()
	require.NoError(p.t, syscall.Kill(victim.pid, syscall.SIGKILL))
	p.check()
	p.shell.run("wait " + strconv.Itoa(victim.pid) + " || true") // the address is free
	begun := time.Now()
	p.shell.run(victim.line)
	for waiting := true; waiting; {
		p.check()
		select {
		case err := <-published:
			require.NoError(p.t, err, "publish while %s was killed", victim.line)
			waiting = false
		case <-time.After(50 * time.Millisecond):
		}
	}
	for r, n := range p.maybe {
		p.want[r] = n
		delete(p.maybe, r)
	}
	for _, querier := range queriers {
		soon(p.t, typing, func() bool { return p.checkAt(querier) }, "%s is complete after %s was killed", querier,
			victim.line)
	}
	p.t.Logf("both have everything %.1f s after its start, %.1f s after it was killed%s: %s", time.Since(begun).Seconds(),
		time.Since(killed).Seconds(), spent(victim.line), victim.line)
}

// spent says what an ingester's process has been charged since its start, by its line; nothing of others.
func spent(line string) string {
	admin := regexp.MustCompile(`ingest .*--admin (\S+)`).FindStringSubmatch(line)
	if admin == nil {
		return ""
	}
	return fmt.Sprintf(", %.1f RU", scraped(admin[1])["binnacle_cosmos_request_units_total"])
}

// batch is readings of five trucks, in messages for kcat: some of now, some of days that are over.
func (p *production) batch() string {
	var messages strings.Builder
	for i := range 200 {
		p.n++
		r := row{device: fmt.Sprintf("truck-%d", p.n%5), ts: p.to - 600_000 - int64(p.n)}
		if i%2 == 0 {
			r.ts -= int64(1+i%3) * 24 * 3_600_000
		}
		p.maybe[r] = p.n
		fmt.Fprintf(&messages, "acme/%s|{\"tenant\":\"acme\",\"device\":%q,\"ts\":%d,\"values\":{\"n\":%d}}\n", r.device,
			r.device, r.ts, p.n)
	}
	return messages.String()
}

// publish publishes messages with kcat until all are acknowledged. kcat may give up while the broker is gone: then all
// are published once more.
func (p *production) publish(messages string) error {
	var last error
	for end := time.Now().Add(typing); time.Now().Before(end); {
		kcat := exec.Command("kcat", "-P", "-b", p.ports["127.0.0.1:9092"], "-t", "telemetry", "-K", "|", "-X",
			"partitioner=murmur2_random", "-X", "acks=all", "-X", "message.timeout.ms=10000")
		kcat.Stdin = strings.NewReader(messages)
		out, err := kcat.CombinedOutput()
		if err == nil {
			return nil
		}
		last = fmt.Errorf("%w: %s", err, out)
	}
	return last
}

// check asks both queriers.
func (p *production) check() {
	p.t.Helper()
	for _, querier := range queriers {
		p.checkAt(querier)
	}
}

// checkAt asks a querier for everything, and reports whether it says that the answer is complete: then it is.
func (p *production) checkAt(querier string) bool {
	p.t.Helper()
	a := p.ask(querier, p.token)
	seen := map[row]bool{}
	for _, g := range a.Readings {
		r := row{device: g.Device, ts: g.TS}
		require.False(p.t, seen[r], "%v is answered twice", r)
		seen[r] = true
		n, ok := p.want[r]
		if !ok {
			n, ok = p.maybe[r]
		}
		require.True(p.t, ok && g.Values.N == n, "%v is %d, want %d", r, g.Values.N, n)
	}
	if a.status != http.StatusOK || !a.Complete || a.Truncated {
		p.partial++
		return false
	}
	p.whole++
	for r := range p.want {
		require.True(p.t, seen[r], "%v is not in an answer of %s that says it is complete", r, querier)
	}
	return true
}

// apiResponse is what a querier says.
type apiResponse struct {
	status   int // 0: nothing
	Readings []struct {
		Device string
		TS     int64
		Values struct{ N int }
	}
	Complete, Truncated bool
}

// ask asks a querier, by its address in the guide, for all readings with a token.
func (p *production) ask(querier, token string) (a apiResponse) {
	p.t.Helper()
	req, err := http.NewRequest(http.MethodGet, fmt.Sprintf(
		"http://%s/api/v1/readings?from=%d&to=%d&strict=true&timeout=1s&limit=100000", p.ports[querier], p.from, p.to), nil)
	require.NoError(p.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return a // the querier may be the one that was killed
	}
	defer resp.Body.Close()
	if json.NewDecoder(resp.Body).Decode(&a) == nil {
		a.status = resp.StatusCode
	}
	return a
}
