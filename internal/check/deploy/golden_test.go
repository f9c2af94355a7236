package deploy_test

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// update renews the golden files: go test ./internal/check/deploy -run TestManifests -update
var update = flag.Bool("update", false, "write deploy/check/golden")

// normal is manifests one after another, by kind and name, with properties in order: however they were written before,
// also the settings in them, and without the checksums of these.
func normal(t *testing.T, manifests map[string]map[string]any) string {
	t.Helper()
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	for _, name := range slices.Sorted(maps.Keys(manifests)) {
		m := manifests[name]
		if data, ok := m["data"].(map[string]any); ok {
			for file, text := range data {
				var settings map[string]any
				require.NoError(t, yaml.Unmarshal([]byte(text.(string)), &settings))
				data[file] = settings
			}
		}
		require.NoError(t, e.Encode(m))
	}
	require.NoError(t, e.Close())
	return checksums.ReplaceAllString(b.String(), "${1}of the settings")
}

var checksums = regexp.MustCompile(`(checksum/config: )[0-9a-f]{64}`)

// same fails at the first line in which two texts differ.
func same(t *testing.T, want, got, file string) {
	t.Helper()
	wants, gots := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(wants), len(gots)) {
		require.Equal(t, wants[i], gots[i], "%s:%d; -update renews it", file, i+1)
	}
	require.Len(t, gots, len(wants), file)
}

// Each scenario renders the manifests of its golden file: what a change of the chart does to a cluster is in its diff.
func TestManifests(t *testing.T) {
	golden := filepath.Join(root, "deploy/check/golden")
	for name, values := range scenarios {
		file := filepath.Join(golden, name+".yaml")
		got := normal(t, render(t, values))
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		same(t, string(want), got, file)
	}
	files, err := filepath.Glob(golden + "/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, len(scenarios), "a golden file for each scenario")
}

// Helm renders the same: `make deploy-check` names the folder with what it has rendered.
func TestHelmRendersTheSame(t *testing.T) {
	folder := os.Getenv("BINNACLE_RENDERED")
	if folder == "" {
		t.Skip("make deploy-check runs it")
	}
	for name := range scenarios {
		rendered, err := os.Open(filepath.Join(folder, name+".yaml"))
		require.NoError(t, err)
		defer rendered.Close()
		manifests := map[string]map[string]any{}
		for d := yaml.NewDecoder(rendered); ; {
			var m map[string]any
			err := d.Decode(&m)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			if m != nil {
				manifests[object(t, m, "kind").(string)+"/"+object(t, m, "metadata", "name").(string)] = m
			}
		}
		want, err := os.ReadFile(filepath.Join(root, "deploy/check/golden", name+".yaml"))
		require.NoError(t, err)
		same(t, string(want), normal(t, manifests), name)
	}
}
