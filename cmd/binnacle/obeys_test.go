package main_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A terminal obeys nothing of what files and arguments say: all that commands print, on either stream, goes through
// the one writer that spells control characters.
func TestTerminalObeysNothing(t *testing.T) {
	const hostile = "x\x1b]0;pwned\x07\x1b[2J\u009b31m\u202e\x7f\r"
	lines := file(t, "hostile.ndjson", `{"tenant":"acme","device":"`+hostile+`","ts":"`+hostile+`","values":{"`+hostile+
		`":"`+hostile+"\"}}\n"+hostile+"\n")
	for _, args := range [][]string{
		{"replay", "--dry-run", lines}, {"replay", hostile}, {"chunk", lines}, {"chunk", hostile, "--tenant=acme"},
		{"tenant", "cost", hostile}, {"gaps", hostile}, {"plan", lines}, {hostile}, {"explain", "--" + hostile},
		{"tenant", "set", "acme", "--tag", hostile}, {"version", "--config", lines},
	} {
		p := run(t, time.Minute, args...)
		printed := p.stdout.String() + p.stderr.String()
		require.NotEmpty(t, printed, "%q", args)
		require.Negative(t, strings.IndexAny(printed, "\x1b\x07\u009b\u202e\x7f\r"), "%q: %q", args, printed)
	}
}
