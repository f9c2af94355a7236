package main_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// shell are the blocks of commands of a page.
var shell = regexp.MustCompile("(?s)```(?:sh)?\n(.*?)```")

// The commands for kcat that the pages show work as they stand, but for the broker's address.
func TestKcatCommandsOfPages(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("kcat"); err != nil {
		t.Skip("kcat is not installed")
	}
	for _, page := range []string{"../../README.md", "../../docs/start/quickstart.md",
		"../../docs/reference/payloads.md"} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, block := range shell.FindAllSubmatch(text, -1) {
			if commands := string(block[1]); strings.Contains(commands, "kcat -P") {
				kcat(t, page, commands)
			}
		}
	}
}

func kcat(t *testing.T, page, commands string) {
	d := startDev(t, t.TempDir(), "--fleet=0")
	commands = strings.ReplaceAll(commands, "127.0.0.1:9092", d.kafka)
	commands = strings.ReplaceAll(commands, "localhost:9092", d.kafka)
	commands = strings.ReplaceAll(commands, "http://127.0.0.1:7070", "http://"+d.api)
	out, err := exec.Command("sh", "-ec", commands).CombinedOutput()
	require.NoError(t, err, "%s: %s\n%s", page, commands, out)
	published := int(d.logEnd())
	require.Equal(t, strings.Count(commands, "kcat -P"), published, page)
	require.NotEmpty(t, d.everything("acme"), "%s: %s", page, commands)
	require.Empty(t, d.deadLetters(), "%s: %s", page, commands)
	for partition, keys := range d.keys() {
		for _, key := range keys {
			want := kafka.Murmur2Balancer{}.Balance(kafka.Message{Key: key}, 0, 1, 2, 3)
			require.Equal(t, want, partition, "%s: the partition of %s", page, key)
		}
	}
}

// keys are the keys of all records of the topic, by partition.
func (d *dev) keys() map[int][][]byte {
	d.t.Helper()
	all := map[int][][]byte{}
	for _, m := range d.records("telemetry") {
		all[m.Partition] = append(all[m.Partition], m.Key)
	}
	return all
}
