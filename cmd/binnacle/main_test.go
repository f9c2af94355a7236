// The tests of this package drive the binary from outside, as its users do: as a child process, over Kafka and
// HTTP.
package main_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	main "binnacle/cmd/binnacle"
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

// program is the path under which this test binary is binnacle, set by TestMain.
var program string

// TestMain runs the tests; or, when the binary is started under the name of the command, the command. So what the tests
// start is what go test has linked, and nothing is built a second time.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "binnacle" {
		main.Main()
		return
	}
	os.Exit(setUp(m))
}

func setUp(m *testing.M) int {
	dir, err := os.MkdirTemp("", "binnacle-test-*")
	if err == nil {
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "binnacle")
		err = linkSelf(program)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
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

// linkSelf makes a symbolic link to this binary.
func linkSelf(path string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return os.Symlink(self, path)
}

// given reports whether the command line sets a flag.
func given(name string) (yes bool) {
	flag.Visit(func(f *flag.Flag) { yes = yes || f.Name == name })
	return yes
}
