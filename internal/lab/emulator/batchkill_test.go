package emulator_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

const (
	killedBatchDir = "COSMOSEMU_TEST_KILLED_BATCH_DIR"
	batchWriters   = 6
)

// batchSize is how many items the n-th batch of a writer creates.
func batchSize(n int64) int64 { return 1 + n*7%40 }

// tally is the item that every batch of a writer updates: how many batches there were, and how many
// items they made.
type tally struct {
	ID          string `json:"id"`
	TenantShard string `json:"tenantShard"`
	Device      string `json:"device"`
	Batches     int64  `json:"batches"`
	Items       int64  `json:"items"`
}

// TestKillBatch ends a process that executes batches with SIGKILL, at random moments. Afterwards every
// batch is there as a whole or not at all, and all that were acknowledged are there.
func TestKillBatch(t *testing.T) {
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	acknowledged := make([]int64, batchWriters)
	for round := range rounds {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledBatchChild$", "-test.v")
		cmd.Env = append(os.Environ(), killedBatchDir+"="+dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		n, atLeast := 0, 1+random.IntN(80)
		for lines.Scan() {
			text, ok := strings.CutPrefix(lines.Text(), "acknowledged ")
			if !ok {
				continue
			}
			writer, batch, _ := strings.Cut(text, " ")
			w, err := strconv.Atoi(writer)
			require.NoError(t, err)
			if acknowledged[w], err = strconv.ParseInt(batch, 10, 64); err != nil {
				break // the line was cut by the kill
			}
			if n++; n == atLeast {
				require.NoError(t, cmd.Process.Kill())
			}
		}
		_ = cmd.Wait() // killed
		require.GreaterOrEqual(t, n, atLeast, "the child ended by itself")
		requireWholeBatches(t, dir, acknowledged, round)
	}
}

func requireWholeBatches(t *testing.T, dir string, acknowledged []int64, round int) {
	t.Helper()
	s, err := emulator.Open(emulator.Config{DataDir: dir, Unlimited: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	db, err := client(t, s).NewDatabase("db")
	require.NoError(t, err)
	co, err := db.NewContainer("chunks")
	require.NoError(t, err)
	total := int64(0)
	for w := range batchWriters {
		found := map[int64]int64{}
		sum := tally{}
		rows, _, _ := query(t, co, key(fmt.Sprint("s", w), "d"), `SELECT c.id, c["from"], c.batches, c.items FROM c`, 1000)
		for _, row := range rows {
			var c chunk
			require.NoError(t, json.Unmarshal([]byte(row), &c))
			if c.ID == "tally" {
				require.NoError(t, json.Unmarshal([]byte(row), &sum))
				continue
			}
			found[c.From]++
		}
		require.GreaterOrEqual(t, sum.Batches, acknowledged[w],
			"round %d, writer %d: an acknowledged batch is gone", round, w)
		require.LessOrEqual(t, sum.Batches, acknowledged[w]+1, "round %d, writer %d", round, w)
		items := int64(0)
		for n := int64(1); n <= sum.Batches; n++ {
			require.Equal(t, batchSize(n), found[n], "round %d, writer %d: half of batch %d", round, w, n)
			items += batchSize(n)
		}
		require.Len(t, found, int(sum.Batches), "round %d, writer %d: items of a batch that is not there", round, w)
		require.Equal(t, items, sum.Items)
		acknowledged[w] = sum.Batches
		total += int64(len(rows))
	}
	counted, _ := stored(t, s, "chunks")
	require.EqualValues(t, total, counted, "the counters agree with the items")
}

// TestKilledBatchChild is the process that TestKillBatch ends. Alone it does nothing.
func TestKilledBatchChild(t *testing.T) {
	dir := os.Getenv(killedBatchDir)
	if dir == "" {
		t.Skip("runs as the child of TestKillBatch only")
	}
	s, err := emulator.Open(emulator.Config{DataDir: dir, PhysicalPartitions: 3, Unlimited: true})
	require.NoError(t, err)
	c := client(t, s)
	db, err := c.NewDatabase("db")
	require.NoError(t, err)
	co, err := db.NewContainer("chunks")
	require.NoError(t, err)
	if _, err := co.Read(context.Background(), nil); code(err) == 404 {
		co = create(t, c, hierarchical("chunks"), 400)
	}
	var out sync.Mutex
	var writers sync.WaitGroup
	for w := range batchWriters {
		writers.Go(func() {
			for range 10_000 {
				n, err := executeTallied(co, fmt.Sprint("s", w))
				if err != nil {
					t.Errorf("batch: %v", err)
					return
				}
				out.Lock()
				fmt.Printf("acknowledged %d %d\n", w, n)
				out.Unlock()
			}
		})
	}
	writers.Wait()
}

// executeTallied executes the next batch of a writer and gives its number.
func executeTallied(co *azcosmos.ContainerClient, shard string) (int64, error) {
	ctx, pk := context.Background(), key(shard, "d")
	sum := tally{ID: "tally", TenantShard: shard, Device: "d"}
	b := co.NewTransactionalBatch(pk)
	got, err := co.ReadItem(ctx, pk, "tally", nil)
	switch {
	case code(err) == 404:
		body, err := json.Marshal(sum)
		if err != nil {
			return 0, err
		}
		b.CreateItem(body, nil)
	case err != nil:
		return 0, err
	default:
		if err := json.Unmarshal(got.Value, &sum); err != nil {
			return 0, err
		}
	}
	n := sum.Batches + 1
	for i := range batchSize(n) {
		body, err := json.Marshal(chunk{ID: fmt.Sprintf("%d-%d", n, i), TenantShard: shard, Device: "d", From: n,
			Data: strings.Repeat("x", 2500)})
		if err != nil {
			return 0, err
		}
		b.CreateItem(body, nil)
	}
	var p azcosmos.PatchOperations
	p.AppendIncrement("/batches", 1)
	p.AppendIncrement("/items", batchSize(n))
	b.PatchItem("tally", p, nil)
	resp, err := co.ExecuteTransactionalBatch(ctx, b, nil)
	if err == nil && !resp.Success {
		err = fmt.Errorf("batch %d: %+v", n, resp.OperationResults)
	}
	return n, err
}
