package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"binnacle/internal/app"
	"binnacle/internal/ops"
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
	diff := func(before, after string, cfg app.EmulatorDiffConfig) error {
		cfg.Before, cfg.After = before, after
		return cfg.Run(t.Context(), ops.Env{Stdout: &out})
	}

	require.NoError(t, diff(before, after, app.EmulatorDiffConfig{Tolerance: 10}))
	require.NotContains(t, out.String(), "regressions")
	require.ErrorContains(t, diff(before, after, app.EmulatorDiffConfig{Tolerance: 5}), "2 regressions")
	require.Contains(t, out.String(), "+10.0 %  create POST dbs/d/colls/c/docs 201\n")
	require.NoError(t, diff(after, before, app.EmulatorDiffConfig{}), "cheaper is no regression")

	out.Reset()
	require.Error(t, diff(before, after, app.EmulatorDiffConfig{JSON: true}))
	require.Contains(t, out.String(), `"changePercent": 10`)

	for _, c := range []struct{ file, names string }{
		{file("empty", ""), "has no exchange"}, {file("other", "{}"), "line 1"}, {filepath.Join(dir, "none"), "none"},
	} {
		require.ErrorContains(t, diff(before, c.file, app.EmulatorDiffConfig{}), c.names)
	}
	require.Error(t, diff(before, after, app.EmulatorDiffConfig{Tolerance: -1}))
}
