package emulator_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

func TestRestartKeepsEverything(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "by", "open")
	ctx := context.Background()
	pk := key("s", "d")
	first, err := emulator.Open(emulator.Config{DataDir: dir, PhysicalPartitions: 3, Unlimited: true})
	require.NoError(t, err)
	co := create(t, client(t, first), hierarchical("chunks"), 1000)
	create(t, client(t, first), hierarchical("gone"), 400)
	db, err := client(t, first).NewDatabase("db")
	require.NoError(t, err)
	gone, err := db.NewContainer("gone")
	require.NoError(t, err)
	_, err = gone.Delete(ctx, nil)
	require.NoError(t, err)
	for i := range 50 {
		c := chunk{ID: fmt.Sprint(i), TenantShard: "s", Device: "d", From: int64(i)}
		_, err := co.CreateItem(ctx, pk, encode(t, c), nil)
		require.NoError(t, err)
	}
	_, err = co.ReplaceThroughput(ctx, azcosmos.NewManualThroughputProperties(2000), nil)
	require.NoError(t, err)
	before, err := co.ReadItem(ctx, pk, "7", nil)
	require.NoError(t, err)
	partsBefore, err := first.Partitions("db", "chunks")
	require.NoError(t, err)
	require.NoError(t, first.Close())

	_, err = client(t, first).NewDatabase("db")
	require.NoError(t, err)
	_, err = co.ReadItem(ctx, pk, "7", nil)
	require.ErrorIs(t, err, emulator.ErrClosed)

	s := open(t, emulator.Config{DataDir: dir, Unlimited: true})
	c := client(t, s)
	db, err = c.NewDatabase("db")
	require.NoError(t, err)
	co, err = db.NewContainer("chunks")
	require.NoError(t, err)
	after, err := co.ReadItem(ctx, pk, "7", nil)
	require.NoError(t, err)
	require.Equal(t, string(before.Value), string(after.Value))
	require.Equal(t, before.ETag, after.ETag)
	rows, _, _ := query(t, co, pk, `SELECT VALUE c.id FROM c`, 20)
	require.Len(t, rows, 50)
	parts, err := s.Partitions("db", "chunks")
	require.NoError(t, err)
	require.Len(t, parts, 3)
	for i := range parts {
		require.Equal(t, partsBefore[i].Items, parts[i].Items)
		require.Equal(t, partsBefore[i].Bytes, parts[i].Bytes)
	}
	offer, err := co.ReadThroughput(ctx, nil)
	require.NoError(t, err)
	rus, _ := offer.ThroughputProperties.ManualThroughput()
	require.EqualValues(t, 2000, rus)
	gone, err = db.NewContainer("gone")
	require.NoError(t, err)
	_, err = gone.Read(ctx, nil)
	require.Equal(t, 404, code(err))

	made, err := co.UpsertItem(ctx, pk, encode(t, chunk{ID: "7", TenantShard: "s", Device: "d"}), nil)
	require.NoError(t, err)
	require.NotEqual(t, before.ETag, made.ETag, "versions are never used again")
}

func TestDirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	open(t, emulator.Config{DataDir: dir})
	_, err := emulator.Open(emulator.Config{DataDir: dir})
	require.ErrorContains(t, err, dir)
	require.ErrorContains(t, err, "in use")

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = emulator.Open(emulator.Config{DataDir: filepath.Join(file, "sub")})
	require.ErrorContains(t, err, file)
	_, err = emulator.Open(emulator.Config{})
	require.ErrorContains(t, err, "DataDir")
}

// killedDir names the data directory to the child process of TestKill.
const killedDir = "COSMOSEMU_TEST_KILLED_DIR"

// TestKill ends a process that writes under load with SIGKILL, at random moments, and looks for every
// write that it had acknowledged. The process is this test binary, as TestKilledChild.
func TestKill(t *testing.T) {
	const rounds = 5
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	acknowledged := map[string]bool{}
	for round := range rounds {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledChild$", "-test.v")
		cmd.Env = append(os.Environ(), killedDir+"="+dir, fmt.Sprintf("COSMOSEMU_TEST_ROUND=%d", round))
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		atLeast := 1 + random.IntN(400)
		n := 0
		for lines.Scan() {
			id, ok := strings.CutPrefix(lines.Text(), "acknowledged ")
			if !ok {
				continue
			}
			acknowledged[id] = true
			if n++; n == atLeast {
				require.NoError(t, cmd.Process.Kill())
			}
		}
		_ = cmd.Wait() // killed
		require.GreaterOrEqual(t, n, atLeast, "the child ended by itself")
		requireStored(t, dir, acknowledged)
	}
}

func requireStored(t *testing.T, dir string, ids map[string]bool) {
	t.Helper()
	s, err := emulator.Open(emulator.Config{DataDir: dir, Unlimited: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	db, err := client(t, s).NewDatabase("db")
	require.NoError(t, err)
	co, err := db.NewContainer("chunks")
	require.NoError(t, err)
	rows, _, _ := query(t, co, azcosmos.NewPartitionKey(), `SELECT VALUE c.id FROM c`, 1000)
	found := map[string]bool{}
	for _, r := range rows {
		found[strings.Trim(r, `"`)] = true
	}
	require.Len(t, found, len(rows), "no item twice")
	missing := 0
	for id := range ids {
		if !found[id] {
			missing++
		}
	}
	require.Zero(t, missing, "acknowledged writes of %d that are gone", len(ids))
	items, _ := stored(t, s, "chunks")
	require.EqualValues(t, len(rows), items, "the counters agree with the items")
}

// TestKilledChild is the process that TestKill ends. Alone it does nothing.
func TestKilledChild(t *testing.T) {
	dir := os.Getenv(killedDir)
	if dir == "" {
		t.Skip("runs as the child of TestKill only")
	}
	round := os.Getenv("COSMOSEMU_TEST_ROUND")
	s, err := emulator.Open(emulator.Config{DataDir: dir, PhysicalPartitions: 3, Unlimited: true})
	require.NoError(t, err)
	c := client(t, s)
	if round == "0" {
		create(t, c, hierarchical("chunks"), 400)
	}
	db, err := c.NewDatabase("db")
	require.NoError(t, err)
	co, err := db.NewContainer("chunks")
	require.NoError(t, err)
	var out sync.Mutex
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := range 100_000 {
				shard := fmt.Sprint("s", i%5)
				id := fmt.Sprintf("%s-%d-%d", round, w, i)
				body := encode(t, chunk{ID: id, TenantShard: shard, Device: "d", Data: strings.Repeat("x", 2800)})
				if _, err := co.CreateItem(context.Background(), key(shard, "d"), body, nil); err != nil {
					t.Errorf("create: %v", err)
					return
				}
				out.Lock()
				fmt.Println("acknowledged " + id)
				out.Unlock()
			}
		})
	}
	writers.Wait()
}
