package main_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// orphans are readings that name no tenant, and what is answered once they have one.
func orphans(n int) (messages []kafka.Message, want table) {
	begin := noon()
	want = table{}
	for i := range n {
		r := row{device: fmt.Sprintf("m%d", i%3), ts: begin + int64(i)}
		messages = append(messages, kafka.Message{Key: []byte(r.device),
			Value: fmt.Appendf(nil, `{"device":%q,"ts":%d,"values":{"v":%d.5}}`, r.device, r.ts, i)})
		want[r] = map[string]any{"v": float64(i) + 0.5}
	}
	return messages, want
}

// fromDLQ runs a replay of dead letters.
func (d *dev) fromDLQ(flags ...string) *process {
	d.t.Helper()
	p := run(d.t, time.Minute, append([]string{"replay", "--from-dlq", "--kafka", d.kafka}, flags...)...)
	p.clean()
	return p
}

// copies are how often each dead letter was published again.
func (d *dev) copies() map[string]int {
	d.t.Helper()
	all := map[string]int{}
	for _, m := range d.records("telemetry") {
		if of := header(m, "binnacle-replay-of"); of != "" {
			id, _, _ := strings.Cut(of, " ")
			all[id]++
		}
	}
	return all
}

// Readings that were refused are mended, published again and answered; another replay finds nothing to do.
func TestReplayFromDLQ(t *testing.T) {
	t.Parallel()
	d := startDev(t, t.TempDir(), "--fleet=0", "--hold=300ms")
	messages, want := orphans(30)
	d.publish(append(messages, kafka.Message{Value: []byte("{")})...)
	soon(t, time.Minute, func() bool { return len(d.deadLetters()) == 31 }, "dead letters")

	p := d.fromDLQ("--reason=tenant", "--dry-run")
	require.Zero(t, p.code, p.stderr.String())
	require.Regexp(t, `(?m)^  tenant +0 +0 +30$`, p.stdout.String(), "they would be refused again")
	p = d.fromDLQ("--reason=tenant", "--set=tenant=acme", "--dry-run")
	require.Zero(t, p.code, p.stderr.String())
	require.Regexp(t, `(?m)^  reason +before +to publish +left$`, p.stdout.String())
	require.Regexp(t, `(?m)^  tenant +0 +30 +0$`, p.stdout.String())
	require.Empty(t, d.copies())

	p = d.fromDLQ("--reason=tenant", "--set=tenant=acme", "--since=1h")
	require.Zero(t, p.code, p.stderr.String())
	require.Regexp(t, `(?m)^  tenant +0 +30 +0$`, p.stdout.String())
	d.answersInAllFormats("acme", want)
	p = d.fromDLQ("--set=tenant=acme")
	require.Equal(t, 1, p.code)
	require.Regexp(t, `(?m)^  tenant +30 +0 +0$`, p.stdout.String())
	require.Regexp(t, `(?m)^left, 1: they would be refused again: undecodable$`, p.stdout.String())
	require.Contains(t, p.stderr.String(), "1 of 31 dead letters are not published")
	require.Len(t, d.copies(), 30)
}

// A tenant sees what was refused of its own readings, and operators what was refused of all.
func TestRejectedReadingsOfTenant(t *testing.T) {
	t.Parallel()
	d := startDev(t, t.TempDir(), "--fleet=0")
	begin := noon()
	d.publish(
		message("acme", row{device: "m1", ts: begin}, map[string]any{"v": 1.5}),
		message("acme", row{device: "m1", ts: begin + 1000*86_400_000}, map[string]any{"v": 2.5}),
		kafka.Message{Value: fmt.Appendf(nil, `[{"tenant":"globex","device":"secret","ts":%d,"values":{"v":1}},
			{"tenant":"acme","device":"m2","ts":%d,"values":{"v":[]}}]`, begin, begin)},
		kafka.Message{Value: []byte("no JSON of nobody")},
	)
	seen := func(addr, tenant string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/api/v1/rejected", nil)
		require.NoError(t, err)
		req.Header.Set("X-Scope-OrgID", tenant)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, 200, resp.StatusCode)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return string(body)
	}
	soon(t, time.Minute, func() bool { return strings.Count(seen(d.admin, ""), `"count":1`) == 3 }, "three letters")
	acme := seen(d.api, "acme")
	require.Contains(t, acme, `"reason":"future","count":1`)
	require.Contains(t, acme, `"reason":"value","count":1`)
	require.NotContains(t, acme, "globex")
	require.NotContains(t, acme, "nobody")
	require.Contains(t, acme, `"complete":true`)
	require.JSONEq(t, `{"rejected":[],"complete":true}`, seen(d.api, "globex"))
	require.Contains(t, seen(d.admin, ""), "no JSON of nobody")
}

// Kill -9 of a replay somewhere in the middle: the next one publishes the rest, and some records again at most, which
// are answered once.
func TestReplayFromDLQAfterAKill(t *testing.T) {
	t.Parallel()
	d := startDev(t, t.TempDir(), "--fleet=0", "--hold=300ms")
	const n = 600
	messages, want := orphans(n)
	d.publish(messages...)
	soon(t, time.Minute, func() bool { return len(d.deadLetters()) == n }, "dead letters")
	half := start(t, "replay", "--from-dlq", "--set=tenant=acme", "--rate=400", "--kafka", d.kafka)
	soon(t, time.Minute, func() bool { return len(d.copies()) > n/4 }, "the middle of the letters")
	half.kill()
	require.Less(t, len(d.copies()), n)

	p := d.fromDLQ("--set=tenant=acme")
	require.Zero(t, p.code, p.stderr.String())
	copies := d.copies()
	require.Len(t, copies, n)
	for of, times := range copies {
		require.LessOrEqual(t, times, 2, of)
	}
	d.answersInAllFormats("acme", want)
}
