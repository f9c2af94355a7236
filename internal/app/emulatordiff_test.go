package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"binnacle/internal/app"
)

func TestEmulatorDiff(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	const create = `{"kind":"create","method":"POST","path":"dbs/d/colls/c/docs","status":201,"ru":`
	before, after := file("before", create+"6}\n"), file("after", create+"6.6}\n")
	var out bytes.Buffer
	env := app.Env{Stdout: &out}

	require.NoError(t, app.EmulatorDiff(app.EmulatorDiffConfig{Tolerance: 10}, before, after, env))
	require.NotContains(t, out.String(), "regressions")
	require.ErrorContains(t, app.EmulatorDiff(app.EmulatorDiffConfig{Tolerance: 5}, before, after, env), "2 regressions")
	require.Contains(t, out.String(), "+10.0 %  create POST dbs/d/colls/c/docs 201\n")
	require.NoError(t, app.EmulatorDiff(app.EmulatorDiffConfig{}, after, before, env), "cheaper is no regression")

	out.Reset()
	require.Error(t, app.EmulatorDiff(app.EmulatorDiffConfig{JSON: true}, before, after, env))
	require.Contains(t, out.String(), `"changePercent": 10`)

	for _, c := range []struct{ file, names string }{
		{file("empty", ""), "has no exchange"}, {file("other", "{}"), "line 1"}, {filepath.Join(dir, "none"), "none"},
	} {
		require.ErrorContains(t, app.EmulatorDiff(app.EmulatorDiffConfig{}, before, c.file, env), c.names)
	}
	require.Error(t, app.EmulatorDiff(app.EmulatorDiffConfig{Tolerance: -1}, before, after, env))
}
