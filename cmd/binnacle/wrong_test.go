package main_test

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	main "binnacle/cmd/binnacle"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// refused checks that binnacle ends soon and badly, with one clear line that holds all the words, and nothing else. It
// runs in this process unless the environment is set.
func refused(t *testing.T, args []string, words ...string) {
	t.Helper()
	var code int
	var stdout, line string
	if len(args) > 0 && envVar.MatchString(args[0]) {
		p := start(t, args...)
		code = p.wait(time.Minute)
		stdout, line = p.stdout.String(), p.stderr.String()
		p.clean()
	} else {
		code, stdout, line = inProcess(t, args...)
	}
	require.NotZero(t, code, "exit code of %v", args)
	require.Empty(t, stdout, "stdout of %v", args)
	require.Equal(t, 1, strings.Count(line, "\n"), "stderr of %v: %s", args, line)
	require.True(t, strings.HasPrefix(line, "binnacle: ") && strings.HasSuffix(line, "\n"), line)
	require.NotContains(t, line, "Usage")
	require.NotContains(t, line, "goroutine ")
	require.NotContains(t, line, "msg=")
	for _, w := range words {
		if key := strings.TrimPrefix(w, "--"); main.IsKey(commandOf(args), key) {
			w = key
		}
		require.Contains(t, line, w, "stderr of %v", args)
	}
}

// inProcess runs binnacle in this process, and returns its exit code and what it prints. Settings among the arguments
// that are no flags become a file of --config.
func inProcess(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	args, keys := splitKeys(args)
	if len(keys) > 0 {
		settings, err := yaml.Marshal(keys)
		require.NoError(t, err)
		args = append(args, "--config", file(t, "keys.yaml", string(settings)))
	}
	return runUnchanged(t, args...)
}

// runUnchanged runs binnacle in this process with the arguments as they are.
func runUnchanged(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	console, err := os.CreateTemp(t.TempDir(), "stderr")
	require.NoError(t, err)
	defer console.Close()
	var out strings.Builder
	code = main.Run(args, &out, console)
	text, err := os.ReadFile(console.Name())
	require.NoError(t, err)
	return code, out.String(), string(text)
}

// free are the flags that make dev listen on free ports, but for the one that a test is about.
func free(but string) []string {
	flags := []string{"dev"}
	for _, f := range []string{"--kafka", "--cosmos", "--api", "--admin"} {
		if f != but {
			flags = append(flags, f+"=127.0.0.1:0")
		}
	}
	return flags
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	addr := busy.Addr().String()
	for _, flag := range []string{"--kafka", "--cosmos", "--api", "--admin"} {
		refused(t, append(free(flag), flag, addr, "--data-dir", t.TempDir()), flag+" "+addr, "in use")
	}
	refused(t, []string{"emulator", "--cosmos", addr, "--data-dir", t.TempDir()}, addr, "in use")
}

func TestImpossibleAddresses(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--kafka", "--cosmos", "--api", "--admin"} {
		for _, addr := range []string{"nonsense", "127.0.0.1:99999", "192.0.2.1:1"} {
			refused(t, append(free(flag), flag, addr, "--data-dir", t.TempDir()), addr)
		}
	}
}

func TestImpossibleDirectories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	refused(t, append(free(""), "--data-dir", file), file)
	refused(t, append(free(""), "--data-dir", filepath.Join(file, "below")), file)
	refused(t, append(free(""), "--data-dir", ""), "--data-dir")
	refused(t, []string{"emulator", "--cosmos=127.0.0.1:0", "--data-dir", file}, file)
	for _, part := range []string{"kafka", "cosmos"} {
		taken := filepath.Join(t.TempDir(), part)
		require.NoError(t, os.WriteFile(taken, nil, 0o600))
		refused(t, append(free(""), "--data-dir", filepath.Dir(taken)), taken)
	}
}

func TestUnwritableDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sealed")
	require.NoError(t, os.Mkdir(dir, 0o500))
	if f, err := os.Create(filepath.Join(dir, "probe")); err == nil {
		f.Close()
		dir = "/proc/binnacle" // root may write everywhere but there
		if _, err := os.Stat("/proc"); err != nil {
			t.Skip("this user may write everywhere")
		}
	}
	refused(t, append(free(""), "--data-dir", dir), dir)
	refused(t, []string{"emulator", "--cosmos=127.0.0.1:0", "--data-dir", dir}, dir)
}

func TestDataDirInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := startDev(t, dir, "--fleet=1")
	refused(t, append(free(""), "--data-dir", dir), dir, "in use")
	refused(t, []string{"emulator", "--cosmos=127.0.0.1:0", "--data-dir", filepath.Join(dir, "cosmos")}, dir, "in use")
	require.True(t, d.ready(), "the first one is none the worse")
	soon(t, time.Minute, func() bool { return len(d.everything("acme")) > 0 }, "readings of the first one")
}

func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	csv := filepath.Join(t.TempDir(), "file.csv")
	require.NoError(t, os.WriteFile(csv, []byte("time,v\n2026-01-01,1\n"), 0o600))
	replay := slices.Clip([]string{"replay", csv, "--tenant=acme", "--device=m1", "--kafka=127.0.0.1:1"})
	dev := slices.Clip(append(free(""), "--data-dir", t.TempDir()))
	for _, c := range []struct {
		args  []string
		words []string
	}{
		{[]string{"nosuch"}, []string{"nosuch"}},
		{[]string{"--nosuch"}, []string{"--nosuch"}},
		{[]string{"dev", "--nosuch"}, []string{"--nosuch", "--help-all"}},
		{[]string{"dev", "--kafka-brokers=a"}, []string{"--kafka-brokers", `did you mean "--kafka"?`}},
		{append(dev, "--log-format=xml"), []string{"--log-format", "xml"}},
		{[]string{"dev", "extra"}, []string{"extra"}},
		{append(dev, "--hold=5x"), []string{"--hold", "5x"}},
		{append(dev, "--hold=-1s"), []string{"--hold"}},
		{append(dev, "--hold=-1s"), []string{"--hold"}},
		{append(dev, "--future=1y"), []string{"--future", "1y"}},
		{append(dev, "--future=-1s"), []string{"--future"}},
		{append(dev, "--retention=-1d"), []string{"--retention"}},
		{append(dev, "--retention=d"), []string{"--retention"}},
		{append(dev, "--fleet=-1"), []string{"--fleet"}},
		{append(dev, "--fleet=many"), []string{"--fleet", "many"}},
		{append(dev, "--partitions=0"), []string{"--partitions"}},
		{append(dev, "--partitions=100000"), []string{"partitions", "100000"}},
		{append(dev, "--memory-mb=0"), []string{"--memory-mb"}},
		{append(dev, "--physical-partitions=-1"), []string{"--physical-partitions"}},
		{append(dev, "--fleet=-1", "--hold=-1s"), []string{"--fleet", "--hold"}},
		{append(dev, "--log-level=loud"), []string{"--log-level", "loud"}},
		{append(dev, "--lp-metric=long"), []string{"--lp-metric", "long"}},
		{append([]string{"BINNACLE_HOLD=5x"}, dev...), []string{"BINNACLE_HOLD", "5x"}},

		{[]string{"replay"}, []string{"file"}},
		{[]string{"replay", "no/such.csv", "--tenant=acme", "--device=m1"}, []string{"no/such.csv"}},
		{[]string{"replay", filepath.Dir(csv), "--tenant=acme", "--device=m1"}, []string{filepath.Dir(csv)}},
		{[]string{"replay", csv, "--device=m1"}, []string{"--tenant", csv}},
		{[]string{"replay", csv, "--tenant=acme"}, []string{"--device", "--device-column", csv}},
		{[]string{"replay", csv, "--tenant=ACME", "--device=m1"}, []string{"--tenant", "ACME"}},
		{[]string{"replay", csv, "--tenant=acme", "--device=a/b"}, []string{"--device", "a/b"}},
		{append(replay, "--format=xml"), []string{"--format", "xml"}},
		{append(replay, "--rate=-1"), []string{"--rate"}},
		{append(replay, "--shift-to=then"), []string{"--shift-to", "then"}},
		{append(replay, csv), []string{csv}},
		{replay, []string{"127.0.0.1:1"}},

		{[]string{"provision", "--dry-run", "--cosmos=127.0.0.1:1"}, []string{"127.0.0.1:1"}},
		{[]string{"provision", "--once", "--cosmos=127.0.0.1:1"}, []string{"127.0.0.1:1"}},
		{[]string{"chunk"}, []string{"file-or-id"}},
		{[]string{"chunk", "no/such.json"}, []string{"no/such.json"}},
		{[]string{"chunk", csv}, []string{csv}},
		{[]string{"chunk", csv, "--rows=-1"}, []string{"--rows"}},
		{[]string{"chunk", "20261120.1.00003.000017"}, []string{"--tenant"}},
		{[]string{"chunk", "20261120.1.00003.000017", "--tenant=acme", "--cosmos=127.0.0.1:1"}, []string{"127.0.0.1:1"}},
		{[]string{"emulator", "--ru-model=guess"}, []string{"--ru-model", "guess"}},
	} {
		refused(t, c.args, c.words...)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, command := range []string{
		"", "dev", "replay", "provision", "loadtest", "blogexample", "chunk", "bins", "limits", "broker", "emulator", "fleet",
	} {
		code, stdout, stderr := inProcess(t, strings.Fields(command+" --help")...)
		require.Zero(t, code)
		require.Less(t, strings.Count(stdout, "\n"), 80, "what a newcomer reads fits two screens")
		require.Contains(t, stdout, "Usage: binnacle "+command)
		if command != "" {
			require.Contains(t, stdout, "    binnacle "+command+" ", "an example")
		}
		require.Empty(t, stderr)
	}
}
