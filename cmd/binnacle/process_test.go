package main_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	main "binnacle/cmd/binnacle"

	"github.com/stretchr/testify/require"
)

// process is a running binnacle.
type process struct {
	t       *testing.T
	cmd     *exec.Cmd
	dir     string // working directory, home and place of temporary files: what is left behind is found there
	started time.Time
	stdout  output
	stderr  output
	ended   chan struct{} // closed when the process is gone; then code is set
	code    int
}

// output collects what a process prints.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// start runs binnacle with arguments, and with environment variables of the form NAME=value among them at the front.
// It is killed at the end of the test if it still runs.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startRelease(t, program, args...)
}

// startRelease runs a binary of any release as start does. Settings among the arguments that are no flags of this
// release become variables, which all releases understand.
func startRelease(t *testing.T, binary string, args ...string) *process {
	t.Helper()
	var env []string
	for len(args) > 0 && strings.HasPrefix(args[0], "BINNACLE_") {
		env, args = append(env, args[0]), args[1:]
	}
	args, keys := splitKeys(args)
	for name, value := range keys {
		env = append(env, "BINNACLE_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"="+value)
	}
	return startProgram(t, env, binary, args...)
}

// splitKeys returns the arguments that are flags or none, and the values of those that are settings of the file, as
// --name=value or --name and value. A test then lists settings in one place.
func splitKeys(args []string) (flags []string, keys map[string]string) {
	keys = make(map[string]string)
	for i := 0; i < len(args); i++ {
		name, value, hasValue := strings.Cut(strings.TrimPrefix(args[i], "--"), "=")
		if !strings.HasPrefix(args[i], "--") || !main.IsKey(commandOf(args), name) {
			flags = append(flags, args[i])
			continue
		}
		if !hasValue && i+1 < len(args) {
			i++
			value = args[i]
		}
		keys[name] = value
	}
	return flags, keys
}

// commandOf returns the command of a command line that begins with it.
func commandOf(args []string) string {
	command := strings.Join(args[:min(len(args), 2)], " ")
	if !strings.HasPrefix(command, "rollups ") && len(args) > 0 {
		command = args[0]
	}
	return command
}

// startProgram runs any program, with environment variables of the form NAME=value beside those of the test.
func startProgram(t *testing.T, env []string, path string, args ...string) *process {
	t.Helper()
	p := &process{t: t, dir: t.TempDir(), ended: make(chan struct{})}
	p.cmd = exec.Command(path, args...)
	p.cmd.Dir = p.dir
	p.cmd.Env = slices.Concat(os.Environ(), env, []string{"HOME=" + p.dir, "TMPDIR=" + p.dir})
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.started = time.Now()
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // the exit code has the result
		p.code = p.cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		state := "running"
		select {
		case <-p.ended:
			state = p.cmd.ProcessState.String()
		default:
			p.kill()
		}
		if t.Failed() {
			t.Logf("%s %s\n%s\nstdout:\n%s\nstderr:\n%s", filepath.Base(path), strings.Join(args, " "), state,
				p.stdout.String(), p.stderr.String())
		}
	})
	return p
}

// run runs binnacle to its end, which must come within the deadline.
func run(t *testing.T, deadline time.Duration, args ...string) *process {
	t.Helper()
	return runRelease(t, deadline, program, args...)
}

// runRelease runs binnacle to its end as run does, of the release that a binary has.
func runRelease(t *testing.T, deadline time.Duration, binary string, args ...string) *process {
	t.Helper()
	p := startRelease(t, binary, args...)
	p.wait(deadline)
	return p
}

// wait returns the exit code of a process that ends within the deadline by itself.
func (p *process) wait(deadline time.Duration) int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(deadline):
		require.FailNow(p.t, "binnacle does not end", "within %s", deadline)
	}
	return p.code
}

// stop ends it with a signal, and checks that it ends well.
func (p *process) stop(with syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(with))
	require.Zero(p.t, p.wait(time.Minute), "exit code after %s", with)
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// clean checks that nothing was left behind in the working directory, the home, and where temporary files go.
func (p *process) clean() {
	p.t.Helper()
	left, err := os.ReadDir(p.dir)
	require.NoError(p.t, err)
	require.Empty(p.t, left, "left behind")
}

// soon calls f until it is true, for at most the deadline. The longer that takes, the longer it waits between calls:
// what f asks of the processes would else keep them from what it waits for.
func soon(t *testing.T, deadline time.Duration, f func() bool, what string, args ...any) {
	t.Helper()
	for begun := time.Now(); !f(); time.Sleep(max(10*time.Millisecond, time.Since(begun)/20)) {
		if time.Since(begun) > deadline {
			require.FailNowf(t, "not in time", "after %s: "+what, append([]any{deadline}, args...)...)
		}
	}
}
