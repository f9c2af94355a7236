package ops_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/internal/ops"

	"github.com/stretchr/testify/require"
)

// Each process is asked for what is wanted, and its answer printed as tables or as it is.
func TestPrintBins(t *testing.T) {
	from := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	held := ingest.Bins{
		Now: from.Add(7*time.Hour + 12*time.Minute), Topics: "telemetry", HoldSeconds: 12 * 3600,
		Memory: ingest.BinsMemory{Held: 812 << 20, Bound: 1024 << 20, Spilled: 300 << 20, File: 512 << 20},
		Partitions: []ingest.BinsPartition{
			{Topic: "telemetry", Partition: 0, Stream: 1, CaughtUp: true, End: 5_000_100, Position: 5_000_000, Floor: 1_000_000,
				Journaled: 4_990_000, Bins: 250,
				Replay: ingest.Replay{Blocks: 62_000, Records: 10_100, Seconds: 5.4, Without: 4_000_100}},
			{Topic: "press", Partition: 3, Stream: 1, End: 9, Position: 9, Floor: 9, Journaled: 9, Loading: 17},
		},
		Tenants: []ingest.BinsSummary{{Tenant: "acme", Devices: 250, Bins: 260, Readings: 4_000_000, Values: 40_000_000,
			Bytes: 64 << 20, From: from, To: from.Add(time.Hour), Behind: 4_000_000}},
		Devices: []ingest.BinsSummary{{Tenant: "acme", Device: "truck-0001", Bins: 1, Readings: 2592, Values: 25_920,
			Bytes: 40_000, From: from, To: from.Add(time.Hour), Behind: 3_999_999}},
	}
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String())
		_ = json.NewEncoder(w).Encode(held)
	}))
	t.Cleanup(server.Close)
	at := server.Listener.Addr().String()
	here := ops.AdminClient{Admin: []string{at}}
	print := func(cfg ops.BinsConfig) string {
		var out bytes.Buffer
		require.NoError(t, cfg.Run(t.Context(), ops.Env{Stdout: &out}))
		return out.String()
	}
	two := ops.AdminClient{Admin: []string{at, server.URL}, Tenant: "acme"}
	out := print(ops.BinsConfig{AdminClient: two, Devices: 1, By: "bytes"})
	require.Equal(t, slices.Repeat([]string{"/api/v1/bins?by=bytes&devices=1&tenant=acme"}, 2), asked)
	first, second, _ := strings.Cut(out, "\n\nhttp://")
	require.Equal(t, "http://"+first, "http://"+second[:len(first)])
	t.Log("\n" + first)
	for _, words := range []string{
		at + ": topics telemetry, hold 12h, 812 MB of 1,024 MB of memory, 300 MB on disk, in a file of 512 MB",
		"telemetry 0 250 5,000,100 100 10,000 4,000,000 1,000,000 4,990,000 62,000 10,100 5s",
		"press 3 (17 to load) 0 9 0 0 0 9 9 0 0 ?",
		"acme 250 260 4,000,000 40,000,000 64.0 MB 2026-11-21 03:00:00 7h12m 4,000,000",
		"truck-0001 acme 1 2,592 25,920 39 KB 2026-11-21 03:00:00 7h12m 3,999,999",
	} {
		require.Contains(t, strings.Join(strings.Fields(first), " "), words)
	}

	var decoded ingest.Bins
	asJSON := ops.AdminClient{Admin: []string{at}, JSON: true}
	require.NoError(t, json.Unmarshal([]byte(print(ops.BinsConfig{AdminClient: asJSON})), &decoded))
	require.Equal(t, held, decoded)

	held = ingest.Bins{Topics: "telemetry", HoldSeconds: 300}
	require.Contains(t, print(ops.BinsConfig{AdminClient: here}), "hold 5m, 0 B of 0 B of memory, nothing on disk")
	require.Contains(t, print(ops.BinsConfig{AdminClient: here}), "no partition is assigned")
}

// What goes wrong is said with the process that it goes wrong with.
func TestPrintBinsErrors(t *testing.T) {
	status, body := http.StatusNotFound, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	at := server.Listener.Addr().String()
	requireFault := func(want string) {
		t.Helper()
		cfg := ops.BinsConfig{AdminClient: ops.AdminClient{Admin: []string{at}}}
		err := cfg.Run(t.Context(), ops.Env{Stdout: io.Discard})
		require.ErrorContains(t, err, at)
		require.ErrorContains(t, err, want)
	}
	requireFault("does not ingest")
	status, body = http.StatusBadRequest, "by=x: age and bytes are known"
	requireFault("400 Bad Request: by=x: age and bytes are known")
	status, body = http.StatusOK, "<html>"
	requireFault("invalid character")
	server.Close()
	requireFault("refused")
}
