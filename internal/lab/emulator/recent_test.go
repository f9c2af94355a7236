package emulator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

// A query for what was stored since a time finds the same through the log as by a walk of all items, whatever was
// written over, deleted or split, after a new start too; the clock may step back, the times of a partition do not.
func TestQueriesForWhatIsRecent(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	now, dir := newClock(), t.TempDir()
	cfg := emulator.Config{Now: now.now, DataDir: dir, Unlimited: true}
	s, err := emulator.Open(cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	few, many := 0, 0
	for round := range 12 {
		for range random.IntN(120) {
			shard, device := fmt.Sprint("s", random.IntN(2)), fmt.Sprint("d", random.IntN(3))
			id := fmt.Sprint(random.IntN(60))
			if random.IntN(4) > 0 {
				put(t, co, id, shard, device, 1)
			} else if _, err := co.DeleteItem(context.Background(), key(shard, device), id, nil); err != nil {
				require.Equal(t, 404, code(err))
			}
			now.advance(time.Duration(random.IntN(5000)-1000) * time.Millisecond)
		}
		if random.IntN(3) == 0 {
			ranges, _ := readRanges(t, s, "")
			require.NoError(t, s.Split("db", "chunks", ranges[random.IntN(len(ranges))].ID))
		}
		if round == 6 {
			require.NoError(t, s.Close())
			s, err = emulator.Open(cfg)
			require.NoError(t, err)
			co, err = client(t, s).NewContainer("db", "chunks")
			require.NoError(t, err)
		}
		all, _, _ := query(t, co, key("s0"), `SELECT c.id, c.device, c._ts FROM c`, 0)
		for range 5 {
			since := now.at.Unix() - int64(random.IntN(500))
			var want []string
			for _, text := range all {
				var row struct {
					ID, Device string
					TS         int64 `json:"_ts"`
				}
				require.NoError(t, json.Unmarshal([]byte(text), &row))
				if row.TS >= since {
					want = append(want, text)
				}
			}
			text := fmt.Sprintf(`SELECT c.id, c.device, c._ts FROM c WHERE c._ts >= %d`, since)
			got, _, _ := query(t, co, key("s0"), text, 0)
			require.ElementsMatch(t, want, got)
			if len(want) > 0 && len(want) < len(all) {
				few++
			}
			many = max(many, len(all))
		}
	}
	require.Positive(t, few, "of %d", many)
}
