package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// publicKey is the account key that all of Cosmos DB's emulators share, and their documentation names.
const publicKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

// client is an official client of an account that is served on an address.
func client(t *testing.T, addr string) *cosmos.Client {
	t.Helper()
	c, err := cosmos.New(cosmos.Config{Endpoint: "http://" + addr + "/", Credential: cosmos.FixedKey(publicKey)})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// The emulator alone serves an official client over HTTP, and keeps what it stored: also after kill -9.
func TestEmulatorCommand(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "emulator")
	launch := func() (*process, *cosmos.Client) {
		p := start(t, "emulator", "--cosmos=127.0.0.1:0", "--data-dir", dir, "--physical-partitions=3")
		addr := p.printed(`(?m)^ +endpoint +http://([^/\s]+)`)
		require.Equal(t, publicKey, p.printed(`(?m)^ +key +(\S+)`))
		require.Equal(t, dir, p.printed(`(?m)^ +data +(\S+)`))
		return p, client(t, addr)
	}
	p, c := launch()
	require.NoError(t, c.EnsureBase(ctx))
	require.NoError(t, c.Containers().Create(ctx, "chunks-2026-11", store.Throughput{RUs: 1200}))
	body := json.RawMessage(`{"word":"first"}`)
	etag, err := c.Documents().Create(ctx, store.Document{Kind: control.KindMonth, ID: "a", Body: body})
	require.NoError(t, err)

	for round, end := range []func(){func() { p.kill() }, func() { p.stop(syscall.SIGTERM) },
		func() { p.stop(syscall.SIGINT) }} {
		end()
		p, c = launch()
		docs, err := c.Documents().List(ctx, control.KindMonth)
		require.NoError(t, err)
		require.Len(t, docs, 1)
		require.Equal(t, etag, docs[0].ETag)
		require.JSONEq(t, string(body), string(docs[0].Body))
		_, err = c.Documents().Create(ctx, docs[0])
		require.ErrorIs(t, err, store.ErrExists)
		body = json.RawMessage(fmt.Sprintf(`{"word":"round %d"}`, round))
		etag, err = c.Documents().Replace(ctx, store.Document{Kind: control.KindMonth, ID: "a", ETag: etag, Body: body})
		require.NoError(t, err)
		state, err := c.Containers().ReadThroughput(ctx, "chunks-2026-11")
		require.NoError(t, err)
		require.Equal(t, 1200, state.Throughput.RUs)
		c.Close()
	}
	p.stop(syscall.SIGTERM)
	p.clean()
}

// A chunk of a running dev is printed by its id, and with the same text as a file.
func TestChunkOfARunningDev(t *testing.T) {
	t.Parallel()
	d := startDev(t, t.TempDir(), "--fleet=0", "--hold=100ms")
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC).UnixMilli()
	d.publishTable("acme", table{
		{device: "m1", ts: at}:                            {"temperature": 73.5, "state": "open"},
		{device: "m1", ts: at + 1000}:                     {"temperature": 74.5},
		{device: "m1", ts: at, labels: `{"axle":"rear"}`}: {"speed": 12.0},
	})
	d.answers("acme", table{}, everything+"&device=other")
	d.stored("acme")
	partition := kafka.Murmur2Balancer{}.Balance(kafka.Message{Key: []byte("acme/m1")}, 0, 1, 2, 3)
	id := fmt.Sprintf("20260304.1.%05d.000000", partition)

	p := run(t, time.Minute, "chunk", id, "--tenant=acme", "--device=m1", "--cosmos", d.cosmos)
	require.Zero(t, p.code, p.stderr.String())
	for _, want := range []string{id, "m1", "temperature", "73.5", "74.5", "state", "open", "axle", "speed",
		"2026-03-04"} {
		require.Contains(t, p.stdout.String(), want)
	}
	require.Empty(t, p.stderr.String())
	anyDevice := run(t, time.Minute, "chunk", "--cosmos", "http://"+d.cosmos+"/", "--tenant=acme", id)
	require.Equal(t, p.stdout.String(), anyDevice.stdout.String())

	document := d.chunk(id, "m1", at)
	fromFile := run(t, time.Minute, "chunk", file(t, "chunk.json", string(document)))
	require.Zero(t, fromFile.code, fromFile.stderr.String())
	require.Equal(t, p.stdout.String(), fromFile.stdout.String())

	refused(t, []string{"chunk", "20260304.1.00000.000099", "--tenant=acme", "--cosmos", d.cosmos},
		"20260304.1.00000.000099", d.cosmos)
	refused(t, []string{"chunk", id, "--tenant=stranger", "--cosmos", d.cosmos}, "stranger", d.cosmos)
	refused(t, []string{"chunk", id, "--tenant=acme", "--device=other", "--cosmos", d.cosmos}, id, d.cosmos)
	refused(t, []string{"chunk", id, "--tenant=acme", "--cosmos", d.cosmos, "--key=AAAA"}, d.cosmos)
	refused(t, []string{"chunk", file(t, "half.json", string(document[:len(document)/2]))}, "half.json")
}

// chunk reads a document of acme under the key that the tenant's first epoch gives.
func (d *dev) chunk(id, device string, at int64) []byte {
	d.t.Helper()
	where, err := sharding.NewPlacement("acme", []sharding.Epoch{sharding.FirstEpoch("acme", sharding.DefaultSlots)})
	require.NoError(d.t, err)
	doc, _, err := client(d.t, d.cosmos).Chunks().Read(context.Background(), where.Key(device, telemetry.DayOf(at), 0), id,
		"")
	require.NoError(d.t, err)
	return doc
}

// What a running dev holds is shown as tables and as JSON, and what is asked wrongly is refused.
func TestBinsOfARunningDev(t *testing.T) {
	t.Parallel()
	d := startDev(t, t.TempDir(), "--fleet=0", "--hold=1h")
	d.publishTable("acme", readings(20, 0.5))
	d.answers("acme", readings(20, 0.5), everything)
	p := run(t, time.Minute, "bins", "--admin", d.admin, "--devices=3")
	require.Zero(t, p.code, p.stderr.String())
	for _, want := range []string{d.admin + ": topics telemetry,telemetry.backfill, hold 1h", "partition", "acme"} {
		require.Contains(t, p.stdout.String(), want)
	}
	p = run(t, time.Minute, "bins", "--admin", "http://"+d.admin+"/", "--json", "--tenant=acme")
	require.Zero(t, p.code, p.stderr.String())
	var held struct {
		Partitions []struct{ Partition int }
		Tenants    []struct {
			Tenant         string
			Readings, Bins int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(p.stdout.String()), &held), p.stdout.String())
	require.Len(t, held.Partitions, 4)
	require.Len(t, held.Tenants, 1)
	require.Equal(t, 20*4*3, held.Tenants[0].Readings)
	require.Equal(t, 4*3, held.Tenants[0].Bins)

	refused(t, []string{"bins", "--admin", d.admin, "--devices=-1"}, d.admin, "devices=-1")
	refused(t, []string{"bins", "--admin", d.api}, d.api, "does not ingest")
	refused(t, []string{"bins", "--by=size"}, "age", "bytes")
}

// The plan for a running dev: what is there and what it costs; a dry run changes nothing.
func TestProvisionOfARunningDev(t *testing.T) {
	t.Parallel()
	d := startDev(t, t.TempDir(), "--fleet=0")
	d.publishTable("acme", readings(1, 0.5))
	d.answers("acme", readings(1, 0.5), everything)
	names := func() []string {
		list, err := client(t, d.cosmos).Containers().List(context.Background())
		require.NoError(t, err)
		return list
	}
	before := names()
	oldest := time.UnixMilli(noon()).AddDate(0, 0, -40).UTC().Format("rollups-2006-01")
	soon(t, time.Minute, func() bool { // it is made while its readings are answered from memory
		before = names()
		return slices.Contains(before, oldest)
	}, "the container of the oldest readings")
	p := run(t, time.Minute, "provision", "--dry-run", "--cosmos", d.cosmos)
	require.Zero(t, p.code, p.stderr.String())
	month := time.Now().UTC().Format("chunks-2006-01")
	require.Contains(t, p.stdout.String(), month)
	require.Contains(t, p.stdout.String(), "RU/S")
	require.Contains(t, p.stdout.String(), "$/MONTH")
	require.Empty(t, p.stderr.String())
	require.Equal(t, before, names())
	p.clean()
}

// On an empty account provision makes this month, and then finds nothing more to do. A dry run makes nothing.
func TestProvisionAnEmptyAccount(t *testing.T) {
	t.Parallel()
	emulator := start(t, "emulator", "--cosmos=127.0.0.1:0", "--data-dir", t.TempDir())
	addr := emulator.printed(`(?m)^ +endpoint +http://([^/\s]+)`)
	provision := func(flags ...string) string {
		p := run(t, time.Minute, append([]string{"provision", "--cosmos", addr}, flags...)...)
		require.Zero(t, p.code, p.stderr.String())
		p.clean()
		return p.stdout.String()
	}
	total := regexp.MustCompile(`(?m)^total .* ([0-9.-]+) +([0-9.-]+)$`)
	month := time.Now().UTC().Format("chunks-2006-01")
	dry := provision("--dry-run")
	require.Regexp(t, month+" .* create: ", dry)
	promised := total.FindStringSubmatch(dry)
	require.Equal(t, "0.00", promised[1])
	list, err := client(t, addr).Containers().List(context.Background())
	require.True(t, err != nil || len(list) == 0, "a dry run made %v", list)
	require.Equal(t, promised, total.FindStringSubmatch(provision("--once")), "all that is made, base containers too")
	dry = provision("--dry-run")
	require.NotContains(t, dry, "create")
	require.Equal(t, []string{promised[2], promised[2]}, total.FindStringSubmatch(dry)[1:], "as promised")
	list, err = client(t, addr).Containers().List(context.Background())
	require.NoError(t, err)
	require.Contains(t, list, month)

	loop := start(t, "provision", "--every=100ms", "--cosmos", addr)
	loop.printed(`(total)`)
	loop.stop(syscall.SIGTERM)
}
