package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The first line of the table of upgrades is what this binary says of itself.
func TestVersion(t *testing.T) {
	t.Parallel()
	p := run(t, time.Minute, "version", "--json")
	require.Zero(t, p.code, p.stderr.String())
	var v struct {
		Release, Go, Platform string
		Formats               map[string]int
	}
	require.NoError(t, json.Unmarshal([]byte(p.stdout.String()), &v))
	require.Equal(t, "devel", v.Release)
	require.Equal(t, runtime.GOOS+"/"+runtime.GOARCH, v.Platform)
	guide, err := os.ReadFile("../../docs/operate/upgrade.md")
	require.NoError(t, err)
	require.Contains(t, string(guide), fmt.Sprintf("| unreleased | %d | %d | %d |", v.Formats["chunk"],
		v.Formats["heads"], v.Formats["journal"]))
	require.Contains(t, run(t, time.Minute, "version").stdout.String(), "binnacle         devel\n")
}
