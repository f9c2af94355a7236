package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"binnacle/internal/telemetry"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// audit runs an audit of two days against dev, and returns its exit code and lines.
func (d *dev) audit(begin int64, args ...string) (int, string) {
	d.t.Helper()
	from := telemetry.DayOf(begin)
	p := run(d.t, time.Minute, append([]string{"audit", "--cosmos", d.cosmos, "--kafka", d.kafka,
		"--from", from.String(), "--to", (from + 1).String(), "--max-rus=0"}, args...)...)
	p.clean()
	if p.code == 0 {
		require.Empty(d.t, p.stderr.String())
	}
	return p.code, p.stdout.String()
}

// After random work with kills between, nothing is wrong; then each kind of damage that can be done from outside is
// named, and what a group claims to have stored and has not.
func TestAuditOfARunningDev(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	begin := (telemetry.DayOf(time.Now().UnixMilli()) - 2).Start()
	d := startDev(t, dir, "--fleet=0", "--hold=100ms")
	bad, sent := 0, 0
	for round := range 3 {
		var messages []kafka.Message
		for range 200 {
			tenant := []string{"acme", "globex"}[random.IntN(2)]
			at := begin + random.Int64N(2*telemetry.DayMillis/1000)*1000
			r := row{device: fmt.Sprintf("m%d", random.IntN(5)), ts: at}
			switch random.IntN(20) {
			case 0:
				r.device, bad = "", bad+1
			case 1:
				r.ts, bad = at+100*telemetry.DayMillis, bad+1
			}
			messages = append(messages, message(tenant, r, map[string]any{"v": random.Float64()}))
		}
		sent += len(messages)
		d.publish(messages...)
		if round > 0 {
			d.answers("acme", nil, everything+"&device=none") // all of it was taken
		}
		d.kill() // whatever it is doing
		args := []string{"--fleet=0", "--hold=1h"}
		if round == 2 {
			args = append(args, "--journal=off")
		}
		d = startDev(t, dir, args...)
	}
	d.answers("acme", nil, everything+"&device=none")
	d.stop(syscall.SIGTERM) // and so all is stored and committed
	d = startDev(t, dir, "--fleet=0", "--hold=1h")
	code, lines := d.audit(begin, "--log", "--columns")
	require.Zero(t, code, lines)
	require.Regexp(t, fmt.Sprintf(`(?m)^records of the log +%d of %[1]d, the committed ones$`, sent), lines)
	require.Regexp(t, fmt.Sprintf(`(?m)^readings +%d$`, sent-bad), lines)
	require.Regexp(t, `(?m)^request units +[1-9]`, lines)
	code, lines = d.audit(begin, "--tenant=acme", "--json")
	require.Zero(t, code)
	require.Contains(t, lines, `{"summary":{"days":2,`)

	d.copied(begin)
	code, lines = d.audit(begin, "--json")
	require.Equal(t, 1, code)
	require.Contains(t, lines, `{"kind":"duplicate","tenant":"acme","device":"m1"`)
	require.Contains(t, lines, `{"kind":"misplaced","tenant":"acme","device":"m1"`)
	code, _ = d.audit(begin, "--tenant=globex")
	require.Zero(t, code)

	fresh := table{{device: "m9", ts: begin}: {"v": 1.5}, {device: "m9", ts: begin + 1}: {"v": 2.5}}
	d.publishTable("globex", fresh)
	d.answers("globex", fresh, everything+"&device=m9") // from memory
	code, lines = d.audit(begin, "--tenant=globex", "--log")
	require.Zero(t, code, "what is not committed may not be stored yet: %s", lines)
	d.commitAll("hasty")
	code, lines = d.audit(begin, "--tenant=globex", "--log", "--group=hasty")
	require.Equal(t, 1, code)
	require.Contains(t, lines, "lost      globex/m9")
	require.Regexp(t, `(?m)^findings +1$`, lines)
}

// copied puts the first chunk of acme's m1 under another key, too.
func (d *dev) copied(day int64) {
	d.t.Helper()
	partition := kafka.Murmur2Balancer{}.Balance(kafka.Message{Key: []byte("acme/m1")}, 0, 1, 2, 3)
	id := fmt.Sprintf("%s.1.%05d.000000", telemetry.DayOf(day), partition)
	var doc map[string]any
	require.NoError(d.t, json.Unmarshal(d.chunk(id, "m1", day), &doc))
	doc["tenantShard"] = "acme~elsewhere"
	for name := range doc {
		if strings.HasPrefix(name, "_") {
			delete(doc, name)
		}
	}
	body, err := json.Marshal(doc)
	require.NoError(d.t, err)
	container := time.UnixMilli(day).UTC().Format("chunks-2006-01")
	items := client(d.t, d.cosmos).Items(container)
	_, err = items.Create(context.Background(), []string{"acme~elsewhere", "m1"}, id, body)
	require.NoError(d.t, err)
}

// commitAll commits the ends of all partitions for a group, whatever is stored.
func (d *dev) commitAll(group string) {
	d.t.Helper()
	c := &kafka.Client{Addr: kafka.TCP(d.kafka)}
	var ends []kafka.OffsetCommit
	for _, p := range partitions(d.t, d.kafka, "telemetry") {
		leader, err := kafka.DialLeader(context.Background(), "tcp", d.kafka, "telemetry", p)
		require.NoError(d.t, err)
		end, err := leader.ReadLastOffset()
		require.NoError(d.t, err)
		require.NoError(d.t, leader.Close())
		ends = append(ends, kafka.OffsetCommit{Partition: p, Offset: end})
	}
	res, err := c.OffsetCommit(context.Background(), &kafka.OffsetCommitRequest{GroupID: group, GenerationID: -1,
		Topics: map[string][]kafka.OffsetCommit{"telemetry": ends}})
	require.NoError(d.t, err)
	for _, p := range res.Topics["telemetry"] {
		require.NoError(d.t, p.Error)
	}
}
