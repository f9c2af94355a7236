package main_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// terminal is a shell that gets commands as somebody types them, and keeps its variables and jobs from one to the
// next. A command that fails fails the test, also in the middle.
type terminal struct {
	t    *testing.T
	dir  string
	cmd  *exec.Cmd
	in   io.Writer
	out  *bufio.Reader
	said strings.Builder // all that came out
}

// openTerminal starts a shell in a folder. What it has started ends with the test.
func openTerminal(t *testing.T, dir string) *terminal {
	t.Helper()
	s := &terminal{t: t, dir: dir, cmd: exec.Command("bash", "--norc", "--noprofile")}
	s.cmd.Dir = dir
	s.cmd.Env = append(os.Environ(), "HOME="+dir, "TMPDIR="+dir)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := s.cmd.StdinPipe()
	require.NoError(t, err)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	s.in, s.out = in, bufio.NewReader(read)
	s.cmd.Stdout, s.cmd.Stderr = write, write
	require.NoError(t, s.cmd.Start())
	require.NoError(t, write.Close())
	t.Cleanup(func() {
		s.close()
		read.Close()
		if t.Failed() {
			s.tell()
		}
	})
	s.run("set -eo pipefail")
	return s
}

// typing is how long a command may take, on a machine that does a lot besides.
const typing = 2 * time.Minute

// run types commands and returns what they print.
func (s *terminal) run(commands string) string {
	s.t.Helper()
	const end = "--- that was it"
	late := time.AfterFunc(typing, s.close)
	defer late.Stop()
	_, err := fmt.Fprintf(s.in, "%s\necho; echo '%s'\n", strings.TrimRight(commands, "\n"), end)
	require.NoError(s.t, err, "the terminal is closed")
	var printed strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		if strings.TrimSpace(line) == end {
			return strings.TrimSuffix(printed.String(), "\n")
		}
		printed.WriteString(line)
		s.said.WriteString(line)
		require.NoError(s.t, err, "%s\nfailed, or did not end:\n%s", commands, printed.String())
	}
}

// job is what runs in the background.
type job struct {
	pid  int
	line string // the command, as it was typed
}

// jobLine is one of jobs -l: a number, the process, its state and the command.
var jobLine = regexp.MustCompile(`(?m)^\[\d+\][+-]? +(\d+) Running +(.+)$`)

// jobs are those that run, in the order in which they were started.
func (s *terminal) jobs() (all []job) {
	s.t.Helper()
	for _, m := range jobLine.FindAllStringSubmatch(s.run("jobs -lr"), -1) {
		pid, err := strconv.Atoi(m[1])
		require.NoError(s.t, err)
		all = append(all, job{pid: pid, line: m[2]})
	}
	return all
}

// close ends the shell and what it has started.
func (s *terminal) close() {
	pid := s.cmd.Process.Pid
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)) // none, if it has ended
	_ = s.cmd.Process.Kill()
	for _, child := range strings.Fields(string(children)) {
		if n, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
	}
	_ = s.cmd.Wait()
}

// tell logs what was printed, and the logs that the guide's commands have written.
func (s *terminal) tell() {
	s.t.Logf("the terminal:\n%s", s.said.String())
	logs, _ := filepath.Glob(filepath.Join(s.dir, "log", "*"))
	for _, name := range logs {
		text, _ := os.ReadFile(name)
		s.t.Logf("%s:\n%s", filepath.Base(name), text)
	}
}
