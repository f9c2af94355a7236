package main_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// gaps runs binnacle gaps for acme's m1.
func (d *dev) gaps(args ...string) *process {
	d.t.Helper()
	p := run(d.t, time.Minute, append([]string{"gaps", "m1", "--tenant=acme", "--api", d.api}, args...)...)
	p.clean()
	return p
}

// Readings that were never sent, that were refused and that came late have verdicts of their own, from memory and from
// the store; what is published again is no gap any more.
func TestGapsOfADevice(t *testing.T) {
	t.Parallel()
	d := startDev(t, t.TempDir(), "--fleet=0", "--hold=300ms")
	begin := noon() - 3_600_000
	reading := func(i int) kafka.Message {
		return message("acme", row{device: "m1", ts: begin + int64(i)*10_000}, map[string]any{"v": float64(i)})
	}
	var now, later []kafka.Message
	for i := range 200 {
		switch {
		case i >= 50 && i < 60: // silent
		case i >= 90 && i < 110: // refused: it does not name its tenant
			m := reading(i)
			m.Value = bytes.Replace(m.Value, []byte(`"tenant":"acme"`), []byte(`"tenant":"ACME"`), 1)
			now = append(now, m)
		case i >= 150 && i < 160:
			later = append(later, reading(i))
		default:
			now = append(now, reading(i))
		}
	}
	d.publish(now...)
	d.answers("acme", nil, everything+"&device=none")
	d.stored("acme") // so that what comes now is another chunk's
	d.publish(later...)
	d.answers("acme", nil, everything+"&device=none")
	soon(t, time.Minute, func() bool { return len(d.deadLetters()) == 20 }, "dead letters")
	from := time.UnixMilli(begin).UTC().Format(time.RFC3339)
	to := time.UnixMilli(begin + 2_000_000).UTC().Format(time.RFC3339)
	var p *process
	soon(t, time.Minute, func() bool {
		p = d.gaps("--from", from, "--to", to)
		return p.code == 0 && strings.Contains(p.stdout.String(), "gaps      3")
	}, "three gaps")
	require.Regexp(t, `(?m)^readings  170$`, p.stdout.String())
	require.Regexp(t, `(?m)^interval  10s, learnt$`, p.stdout.String())
	require.Regexp(t, `(?m) 10 +never `, p.stdout.String())
	require.Regexp(t, `(?m) 20 +refused: tenant +telemetry/\d from offset \d+: .*--set tenant=NAME`, p.stdout.String())
	require.Regexp(t, `(?m) 10 +late `, p.stdout.String())

	require.Zero(t, d.fromDLQ("--set=tenant=acme").code)
	soon(t, time.Minute, func() bool {
		p = d.gaps("--from", from, "--to", to, "--json")
		return strings.Contains(p.stdout.String(), `"readings":190`)
	}, "what was published again")
	require.Contains(t, p.stdout.String(), `"verdict":"never"`)
	require.NotContains(t, p.stdout.String(), "refused")

	p = run(t, time.Minute, "gaps", "--tenant=acme", "--api", d.api, "--from", from, "--to", to)
	require.Zero(t, p.code, p.stderr.String())
	require.Regexp(t, `(?m)^m1 +1$`, p.stdout.String())

	p = d.gaps("--from=-1h", "--to=-2h")
	require.Equal(t, 1, p.code)
	require.Contains(t, p.stderr.String(), "400 Bad Request: parameter from")
}
