package archtest_test

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// layers are the packages of the project from the top down; a package may import those of lower layers, and of its own
// where peers is set. A folder stands for everything below it, and the longest one that fits counts.
var layers = []struct {
	name     string
	peers    bool
	packages []string
}{
	{"entry", false, []string{"cmd"}},
	{"tools", false, []string{"internal/loadtest", "internal/replay", "internal/blogexample"}},
	{"wiring", true, []string{"internal/app"}},
	{"services", false, []string{"ingest", "query", "internal/provision", "internal/views", "internal/plan", "internal/audit", "internal/fleet"}},
	{"adapters", false, []string{"internal/cosmos", "internal/cosmosemu", "internal/kafkaemu"}},
	{"contract", true, []string{"internal/store", "internal/control"}},
	{"domain", true, []string{"binning", "sharding", "ingest/decode", "internal/telemetry", "internal/epk", "internal/ru"}},
	{"tests", true, []string{"internal/archtest"}},
}

// only lists libraries that some packages alone may import.
var only = map[string][]string{
	"github.com/Azure/azure-sdk-for-go": {"internal/cosmos", "internal/blogexample"},
	"github.com/prometheus/prometheus":  {"query/promapi"},
	"github.com/twmb/franz-go":          {"internal/kafkaemu"},
	"github.com/cockroachdb/pebble/v2":  {"internal/cosmosemu"},
	"github.com/alecthomas/kong":        {"cmd"},
}

// never lists what the domain may not know: I/O, clocks, logs and metrics.
var never = []string{
	"context", "database/sql", "log", "log/slog", "net", "net/http", "os", "os/exec", "path/filepath", "sync/atomic",
	"github.com/prometheus/client_golang", "github.com/segmentio/kafka-go",
}

// alone lists packages that may import nothing of ours but what is given.
var alone = map[string][]string{
	"internal/cosmosemu": {"internal/epk", "internal/ru", "internal/cosmosemu"},
	"internal/kafkaemu":  {"internal/kafkaemu"},
	"internal/telemetry": {},
	"internal/epk":       {},
	"internal/ru":        {},
}

const module = "binnacle"

type pkg struct {
	ImportPath string
	Imports    []string
	GoFiles    []string
	Dir        string
}

func list(t *testing.T) []pkg {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,GoFiles,Dir", module+"/...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	var all []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, p)
	}
}

// folder is a package's path below the module; ok is false for a package that is not ours.
func folder(path string) (string, bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

func within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// layerOf is the number of the layer and the folder by which the package belongs to it.
func layerOf(path string) (layer int, by string) {
	layer = -1
	for i, l := range layers {
		for _, p := range l.packages {
			if within(path, p) && len(p) > len(by) {
				layer, by = i, p
			}
		}
	}
	return layer, by
}

func TestImportsPointDown(t *testing.T) {
	for _, p := range list(t) {
		path, _ := folder(p.ImportPath)
		from, fromBy := layerOf(path)
		require.NotEqual(t, -1, from, "%s belongs to no layer: give it one", path)
		for _, i := range p.Imports {
			to, ours := folder(i)
			if !ours {
				continue
			}
			layer, by := layerOf(to)
			require.NotEqual(t, -1, layer, "%s belongs to no layer", to)
			ok := layer > from || layer == from && (by == fromBy || layers[from].peers)
			require.True(t, ok, "%s (%s) imports %s (%s)", path, layers[from].name, to, layers[layer].name)
		}
	}
}

// Services know stores and brokers by their contract only.
func TestServicesDoNotKnowAdapters(t *testing.T) {
	for _, p := range list(t) {
		path, _ := folder(p.ImportPath)
		layer, _ := layerOf(path)
		if layers[layer].name != "services" {
			continue
		}
		for _, i := range p.Imports {
			if to, ours := folder(i); ours {
				layer, _ := layerOf(to)
				require.NotEqual(t, "adapters", layers[layer].name, "%s imports %s", path, to)
			}
		}
	}
}

func TestLibrariesWithOneImporter(t *testing.T) {
	for _, p := range list(t) {
		path, _ := folder(p.ImportPath)
		for _, i := range p.Imports {
			for library, importers := range only {
				if within(i, library) {
					require.True(t, slices.ContainsFunc(importers, func(dir string) bool { return within(path, dir) }),
						"%s imports %s, which only %v may", path, i, importers)
				}
			}
		}
	}
}

func TestDomainIsPure(t *testing.T) {
	for _, p := range list(t) {
		path, _ := folder(p.ImportPath)
		if layer, _ := layerOf(path); layers[layer].name != "domain" {
			continue
		}
		for _, i := range p.Imports {
			require.False(t, slices.ContainsFunc(never, func(lib string) bool { return i == lib || strings.Contains(lib, ".") && within(i, lib) }),
				"%s imports %s: the domain has no I/O, clock, log or metrics", path, i)
		}
		for _, f := range p.GoFiles {
			source, err := os.ReadFile(filepath.Join(p.Dir, f))
			require.NoError(t, err)
			for _, word := range []string{"time.Now(", "time.Since(", "\tgo func"} {
				require.NotContains(t, string(source), word, "%s/%s", path, f)
			}
		}
	}
}

func TestPackagesThatStandAlone(t *testing.T) {
	for _, p := range list(t) {
		path, _ := folder(p.ImportPath)
		for dir, allowed := range alone {
			if !within(path, dir) {
				continue
			}
			for _, i := range p.Imports {
				to, ours := folder(i)
				require.True(t, !ours || slices.ContainsFunc(allowed, func(a string) bool { return within(to, a) }), "%s imports %s", path, to)
			}
		}
	}
}

// The top of the tree is what a newcomer reads first.
func TestNothingStrayAtTheTop(t *testing.T) {
	allowed := []string{
		"cmd", "ingest", "binning", "sharding", "query", "deploy", "internal", "docs",
		"go.mod", "go.sum", "README.md", "LICENSE", "Makefile", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md",
	}
	out, err := exec.Command("git", "-C", "../..", "ls-files").Output()
	if err != nil {
		t.Skip("not a git checkout")
	}
	for _, f := range strings.Fields(string(out)) {
		top, _, _ := strings.Cut(f, "/")
		require.True(t, strings.HasPrefix(top, ".") || slices.Contains(allowed, top), "%s stands at the top", top)
	}
}

// The documents that promise something name the tests that hold it: each of them exists.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	const root = "../.."
	name := regexp.MustCompile(`\bTest[A-Z]\w+`)
	tests := map[string]bool{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(source, -1) {
			tests[string(m[1])] = true
		}
		return err
	}))
	for _, doc := range []string{"docs/ARCHITECTURE.md", "docs/protocol.md"} {
		text, err := os.ReadFile(filepath.Join(root, doc))
		require.NoError(t, err)
		named := name.FindAllString(string(text), -1)
		require.NotEmpty(t, named, doc)
		for _, n := range named {
			require.True(t, tests[n], "%s names %s, which is no test", doc, n)
		}
	}
}
