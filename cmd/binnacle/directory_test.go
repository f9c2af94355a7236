package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// noon is the UTC noon of the last whole day: away from now, and in the past.
func noon() int64 {
	return time.Now().UTC().Truncate(24*time.Hour).UnixMilli() - 12*3_600_000
}

// readings are n instants of four devices, of three days in two months, each instant the same however many they are.
func readings(n int, plus float64) table {
	all := table{}
	for i := range n {
		for device := range 4 {
			for _, day := range []int64{0, 1, 40} {
				r := row{device: fmt.Sprintf("d%d", device), ts: noon() - day*86_400_000 + int64(i)*1000}
				all[r] = map[string]any{"v": float64(i) + plus, "device": float64(device)}
			}
		}
	}
	return all
}

// both is a table over another one.
func both(under, over table) table {
	all := under.clone()
	for r, values := range over {
		for metric, v := range values {
			all.set(r, metric, v)
		}
	}
	return all
}

// The Kafka directory is gone, the store's is not: offsets begin anew, and are not taken for those that the store has
// seen.
func TestKafkaRemovedWhileStopped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := startDev(t, dir, "--fleet=0", "--journal=off") // so that all is stored when it stops
	first := readings(5, 0.25)
	d.publishTable("acme", first)
	d.answers("acme", first, everything)
	d.stop(syscall.SIGTERM)

	require.NoError(t, os.RemoveAll(filepath.Join(dir, "kafka")))
	d = startDev(t, dir, "--fleet=0")
	d.answersInAllFormats("acme", first)
	second := readings(20, 0.5) // more than there were, of the same devices and days, and over what was there
	d.publishTable("acme", second)
	want := both(first, second)
	d.answersInAllFormats("acme", want)
	d.stop(syscall.SIGTERM)
	d = startDev(t, dir, "--fleet=0")
	d.answersInAllFormats("acme", want)
}

// The store's directory is gone, Kafka's is not: what is in the log is stored again, whatever was committed.
func TestCosmosRemovedWhileStopped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := startDev(t, dir, "--fleet=0")
	first := readings(30, 0.25)
	d.publishTable("acme", first)
	d.answers("acme", first, everything)
	d.stop(syscall.SIGTERM)

	require.NoError(t, os.RemoveAll(filepath.Join(dir, "cosmos")))
	d = startDev(t, dir, "--fleet=0")
	d.answersInAllFormats("acme", first)
	second := readings(20, 0.5)
	d.publishTable("acme", second)
	d.answersInAllFormats("acme", both(first, second))
	d.stop(syscall.SIGTERM)
	d = startDev(t, dir, "--fleet=0")
	d.answersInAllFormats("acme", both(first, second))
}

// A data directory may hold what is not Binnacle's, and a run leaves nothing anywhere else.
func TestForeignFilesAreLeftAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "by", "dev")
	foreign := []string{"notes.txt", ".hidden", "sub/notes.txt", "kafka/notes.txt", "cosmos/notes.txt", "kafka.bak/lock"}
	for _, f := range foreign {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, f)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, f), []byte(f), 0o600))
	}
	for range 2 {
		d := startDev(t, dir, "--fleet=2")
		soon(t, time.Minute, func() bool { return len(d.everything("acme")) > 0 }, "a reading")
		d.stop(syscall.SIGTERM)
		d.clean()
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.ElementsMatch(t, []string{"notes.txt", ".hidden", "sub", "kafka.bak", "kafka", "cosmos", "spill",
		"charges"}, names)
	for _, f := range foreign {
		text, err := os.ReadFile(filepath.Join(dir, f))
		require.NoError(t, err)
		require.Equal(t, f, string(text))
	}
}

// Without --data-dir everything is in one folder of the working directory.
func TestDefaultDirectory(t *testing.T) {
	t.Parallel()
	p := start(t, append(free(""), "--fleet=0")...)
	p.printed(`(Ctrl-C)`)
	p.stop(syscall.SIGINT)
	entries, err := os.ReadDir(p.dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, "binnacle-data", entries[0].Name())
}
