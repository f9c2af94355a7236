// The tests of this package drive the built binary from outside, as its users do: as a child process, over Kafka and
// HTTP.
package main_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// full runs also the tests that take long and show with processes what others show, for `make full`.
var full = flag.Bool("full", false, "also the tests that repeat with processes and large files what others show")

// needsFull skips a test without -full.
func needsFull(t *testing.T) {
	t.Helper()
	if !*full {
		t.Skip("needs -full")
	}
}

// buildDir is where binary builds the command, set by TestMain.
var buildDir string

// built is the path of the built command. The first test that starts a process builds it.
var built = sync.OnceValues(func() (string, error) {
	path := filepath.Join(buildDir, "binnacle")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

func binary(t *testing.T) string {
	t.Helper()
	path, err := built()
	require.NoError(t, err)
	return path
}

func TestMain(m *testing.M) {
	os.Exit(setUp(m))
}

func setUp(m *testing.M) int {
	var err error
	if buildDir, err = os.MkdirTemp("", "binnacle-test-*"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(buildDir)
	// What the tester's own environment sets for binnacle is none of the tests' business.
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "BINNACLE_") {
			os.Unsetenv(name)
		}
	}
	// The tests wait for processes more than they compute.
	flag.Parse()
	if !given("test.parallel") {
		if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// look opens the module's directories, once: go test takes an earlier result only if all that the tests have opened is
// as it was, and does not know what the binary was built from. It counts while a test runs.
var look = sync.OnceFunc(func() {
	const root = "../.."
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		return nil // what can't be looked at is not among the sources
	})
})

// given reports whether the command line sets a flag.
func given(name string) (yes bool) {
	flag.Visit(func(f *flag.Flag) { yes = yes || f.Name == name })
	return yes
}
