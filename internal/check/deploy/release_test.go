package deploy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func readYAML(t *testing.T, path string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	var out map[string]any
	require.NoError(t, yaml.Unmarshal(text, &out), path)
	return out
}

// What the image is built from when a release is made is all that it is built from anywhere else.
func TestReleaseBuildsFromAllSources(t *testing.T) {
	release := readYAML(t, ".goreleaser.yaml")
	given := map[string]bool{}
	for _, f := range object(t, release["dockers_v2"].([]any)[0], "extra_files").([]any) {
		given[f.(string)] = true
	}
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		sources := false
		require.NoError(t, filepath.WalkDir(filepath.Join(root, e.Name()), func(path string, _ os.DirEntry, err error) error {
			sources = sources || strings.HasSuffix(path, ".go")
			return err
		}))
		require.Equal(t, sources, given[e.Name()], e.Name())
	}
	require.True(t, given["go.mod"] && given["go.sum"])
}

// The variable that a release sets is there, or the linker would say nothing.
func TestReleaseSetsVersion(t *testing.T) {
	const variable = "binnacle/internal/ops.release"
	source, err := os.ReadFile(filepath.Join(root, "internal/ops/version.go"))
	require.NoError(t, err)
	require.Contains(t, string(source), "\nvar release = ")
	for _, path := range []string{".goreleaser.yaml", "deploy/Dockerfile"} {
		text, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		require.Contains(t, string(text), "-X "+variable+"=", path)
	}
}

// Workflows run the checks that anybody can run, and nothing of their own.
func TestWorkflowsRunTheChecks(t *testing.T) {
	for path, wanted := range map[string][]string{
		".github/workflows/ci.yaml":      {".ci/run", "make deploy-check"},
		".github/workflows/release.yaml": {".ci/run", "make deploy-check"},
	} {
		workflow := readYAML(t, path)
		var runs []string
		for _, job := range object(t, workflow, "jobs").(map[string]any) {
			require.NotNil(t, object(t, job, "timeout-minutes"), path)
			for _, step := range object(t, job, "steps").([]any) {
				if run, ok := step.(map[string]any)["run"]; ok {
					runs = append(runs, run.(string))
				}
			}
		}
		for _, w := range wanted {
			require.Contains(t, runs, w, path)
		}
		least := map[string]any{"contents": "read"}
		require.Equal(t, least, workflow["permissions"], "%s: more only where it is needed", path)
	}
}
