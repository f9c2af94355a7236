package main_test

import (
	"context"
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// The broker and the fleet as processes of their own: what was acknowledged outlives the broker's death, and the fleet goes on
// when it is back.
func TestTheBrokerAndTheFleetAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	launch := func(addr string) (*process, string) {
		p := start(t, "broker", "--kafka", addr, "--data-dir", dir, "--topics=readings", "--partitions=1")
		require.Equal(t, "readings", p.printed(`(?m)^ +topics +(.+)$`))
		require.Equal(t, dir, p.printed(`(?m)^ +data +(\S+)`))
		return p, p.printed(`(?m)^ +kafka +(\S+)`)
	}
	broker, addr := launch("127.0.0.1:0")
	fleet := start(t, "fleet", "--kafka", addr, "--topic=readings", "--fleet=3", "--fleet-interval=20ms", "--fleet-tenants=one,two")
	require.Equal(t, "3 trucks, a reading every 20ms each, of the tenants one two in turn", fleet.printed(`(?m)^ +fleet +(.+)$`))

	tenants := map[string]bool{}
	read := consumer(t, addr, 0)
	for range 12 {
		var reading struct{ Tenant, Device string }
		require.NoError(t, json.Unmarshal(read().Value, &reading))
		tenants[reading.Tenant] = true
	}
	require.Equal(t, map[string]bool{"one": true, "two": true}, tenants)

	last := read().Offset
	broker.kill()
	broker, addr = launch(addr)
	read = consumer(t, addr, last)
	require.Equal(t, last, read().Offset, "what was acknowledged is there")
	end := logEnd(t, addr)
	soon(t, 15*time.Second, func() bool { return logEnd(t, addr) > end+12 }, "the fleet goes on")
	fleet.stop(syscall.SIGTERM)
	fleet.clean()
	broker.stop(syscall.SIGINT)
}

// consumer returns the records of the only partition of readings, from an offset on.
func consumer(t *testing.T, addr string, from int64) func() kafka.Message {
	t.Helper()
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{addr}, Topic: "readings", MaxWait: 10 * time.Millisecond})
	require.NoError(t, r.SetOffset(from))
	t.Cleanup(func() { _ = r.Close() })
	return func() kafka.Message {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		m, err := r.ReadMessage(ctx)
		require.NoError(t, err)
		return m
	}
}

func logEnd(t *testing.T, addr string) int64 {
	t.Helper()
	conn, err := kafka.DialLeader(context.Background(), "tcp", addr, "readings", 0)
	require.NoError(t, err)
	defer conn.Close()
	end, err := conn.ReadLastOffset()
	require.NoError(t, err)
	return end
}

// What --print-config prints is a file with the same settings, wherever they came from, and keeps secrets to itself.
func TestPrintConfig(t *testing.T) {
	t.Parallel()
	from := file(t, "from.yaml", "kafka: 127.0.0.1:4\nhold: 5s\ndev:\n  hold: 1d12h\n  lp-tags: [fleet, driver]\n")
	print := func(args ...string) string {
		p := run(t, 5*time.Second, append(args, "--print-config")...)
		require.Zero(t, p.code, p.stderr.String())
		p.clean()
		return p.stdout.String()
	}
	text := print("BINNACLE_MEMORY_MB=512", "BINNACLE_LP_DEVICE_TAG=", "dev", "--config", from, "--fleet=3", "--lp-metric=field")
	for _, line := range []string{
		"dev:", "  hold: 1d12h", "  kafka: 127.0.0.1:4", "  memory-mb: 512", `  lp-device-tag: ""`, "  fleet: 3", "  lp-metric: field",
		"    - driver", "  future: 10m", "  admin: 127.0.0.1:7071", "  ru-model: table",
	} {
		require.Contains(t, text, line+"\n")
	}
	require.Equal(t, text, print("dev", "--config", file(t, "again.yaml", text)))

	for _, command := range []string{"broker", "emulator", "fleet", "provision", "loadtest", "blogexample", "replay x.csv", "chunk x.json"} {
		args := strings.Fields(command)
		text := print(args...)
		require.Contains(t, text, args[0]+":\n")
		require.Equal(t, text, print(append(args, "--config", file(t, "settings.yaml", text))...), command)
	}
	for _, args := range [][]string{
		{"provision", "--key=c2VjcmV0"}, {"BINNACLE_KEY=c2VjcmV0", "chunk", "x.json"},
		{"replay", "x.csv", "--config", file(t, "secret.yaml", "key: c2VjcmV0\n")},
	} {
		text := print(args...)
		require.NotContains(t, text, "c2VjcmV0")
		require.Contains(t, text, "  key: REDACTED\n")
	}
}

// One run tells all that is wrong, by the names of the flags.
func TestEveryFaultAtOnce(t *testing.T) {
	t.Parallel()
	for command, wrong := range map[string][]string{
		"dev": {
			"--partitions=0", "--kafka-mb=-1", "--fleet=-1", "--fleet-interval=0s", "--hold=0s", "--future=-1s", "--commit-every=0s",
			"--drain-budget=1m", "--max-behind=0", "--max-writes=0", "--memory-mb=1", "--dead-letters=telemetry", "--retention=-1d",
			"--max-months=0", "--query-fanout=0", "--query-memory-mb=0", "--queries-memory-mb=-1", "--query-max-rus=0", "--max-queries=0",
			"--max-queued=0", "--queue-timeout=0s", "--physical-partitions=-1", "--partition-bytes=-1",
		},
		"broker":   {"--partitions=0", "--kafka-mb=-1", "--data-dir="},
		"emulator": {"--physical-partitions=-1", "--partition-bytes=-1", "--data-dir="},
		"fleet":    {"--fleet=-1", "--fleet-interval=1us"},
	} {
		words := make([]string, len(wrong))
		for i, flag := range wrong {
			words[i], _, _ = strings.Cut(flag, "=")
			if command == "fleet" {
				words[i] = map[string]string{"--fleet": "fleet of -1", "--fleet-interval": "1µs"}[words[i]]
			}
		}
		refused(t, append([]string{command}, wrong...), words...)
	}
}
