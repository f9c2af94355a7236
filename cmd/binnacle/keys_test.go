package main_test

import (
	"path"
	"strings"
	"testing"

	main "binnacle/cmd/binnacle"

	"github.com/stretchr/testify/require"
)

// What is set once in an installation's life is a key of the file of --config. So no command has more flags than a
// person reads.
func TestCommandsHaveFewFlags(t *testing.T) {
	t.Parallel()
	most := map[string]int{"serve": 60, "dev": 60, "ingest": 45, "query": 45, "provision": 45, "rollups run": 45}
	known := make(map[string]bool)
	for _, command := range main.AllCommands().Leaves(true) {
		path := strings.TrimPrefix(command.FullPath(), "binnacle ")
		flags := 0
		for _, level := range command.AllFlags(false) {
			for _, flag := range level {
				known[flag.Name] = true
				if !main.IsKey(path, flag.Name) {
					flags++
				}
			}
		}
		limit := most[path]
		if limit == 0 {
			limit = 35
		}
		require.LessOrEqual(t, flags, limit, "flags of %s", path)
	}
	for _, pattern := range main.Keys {
		fits := false
		for name := range known {
			matches, err := path.Match(pattern, name)
			require.NoError(t, err)
			fits = fits || matches
		}
		require.True(t, fits, "no setting has a name like %s", pattern)
	}
}

func TestKeysAreNoFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"serve", "--tenant-ingest-readings=5"}, {"ingest", "--otlp-tenant", "org"}, {"audit", "--kafka-ca=ca.pem"},
	} {
		code, _, line := runUnchanged(t, args...)
		require.Equal(t, 1, code)
		name := strings.TrimPrefix(strings.Split(args[1], "=")[0], "--")
		variable := "BINNACLE_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		require.Equal(t, "binnacle: --"+name+" is no flag: set "+name+" in the file of --config, or the variable "+
			variable+"\n", line)
		require.NotContains(t, helpOf(t, args[0], "--help-all"), "--"+name)
		require.Contains(t, helpOf(t, args[0], "--print-config"), name+": ")
	}
	require.Contains(t, helpOf(t, "replay", "--help-all"), "--lp-device-tag")
}

func helpOf(t *testing.T, args ...string) string {
	code, text, line := runUnchanged(t, args...)
	require.Zero(t, code, line)
	return text
}

// A command says nothing of settings of other commands, in the environment or the file, and names those of none.
func TestSettingsOfOtherCommands(t *testing.T) {
	t.Setenv("BINNACLE_RATE", "5")
	const others = "hold: 7s\nreplay:\n  rate: 3\n"
	code, _, line := runUnchanged(t, "version", "--config", file(t, "others.yaml", others))
	require.Zero(t, code)
	require.Empty(t, line)
	code, _, line = runUnchanged(t, "version", "--config", file(t, "none.yaml", others+"hould: 7s\n"))
	require.Equal(t, 1, code)
	require.Contains(t, line, "hould is neither a flag nor a subcommand")
	t.Setenv("BINNACLE_RATTE", "5")
	_, _, line = runUnchanged(t, "version")
	require.Contains(t, line, "variable=BINNACLE_RATTE did_you_mean=BINNACLE_RATE")
}
