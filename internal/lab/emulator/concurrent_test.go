package emulator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

// TestCreateIsACompareAndSet lets many goroutines create the same items: each is created once.
func TestCreateIsACompareAndSet(t *testing.T) {
	s := open(t, emulator.Config{DataDir: t.TempDir(), PhysicalPartitions: 2, Unlimited: true})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	var made, refused atomic.Int64
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for i := range 100 {
				c := chunk{ID: fmt.Sprint(i % 60), TenantShard: "s", Device: "d"}
				_, err := co.CreateItem(context.Background(), key("s", "d"), encode(t, c), nil)
				switch code(err) {
				case 0:
					made.Add(1)
				case 409:
					refused.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	require.EqualValues(t, 60, made.Load())
	require.EqualValues(t, 740, refused.Load())
	items, _ := stored(t, s, "chunks")
	require.EqualValues(t, 60, items)
}

// TestIfMatchLosesNoUpdate counts up one item from many goroutines under If-Match.
func TestIfMatchLosesNoUpdate(t *testing.T) {
	s := open(t, emulator.Config{Unlimited: true})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	ctx := context.Background()
	pk := key("s", "d")
	_, err := co.CreateItem(ctx, pk, encode(t, chunk{ID: "n", TenantShard: "s", Device: "d"}), nil)
	require.NoError(t, err)
	var writers sync.WaitGroup
	for range 6 {
		writers.Go(func() {
			for range 50 {
				for {
					read, err := co.ReadItem(ctx, pk, "n", nil)
					if err != nil {
						t.Error(err)
						return
					}
					var c chunk
					if err := json.Unmarshal(read.Value, &c); err != nil {
						t.Error(err)
						return
					}
					c.From++
					_, err = co.ReplaceItem(ctx, pk, "n", encode(t, c), &azcosmos.ItemOptions{IfMatchEtag: &read.ETag})
					if err == nil {
						break
					}
					if code(err) != 412 {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	writers.Wait()
	rows, _, _ := query(t, co, pk, `SELECT VALUE c["from"] FROM c`, 0)
	require.Equal(t, []string{"300"}, rows)
}

// TestDroppedContainerStaysEmpty deletes a container under load and makes it anew: nothing of the old
// one appears.
func TestDroppedContainerStaysEmpty(t *testing.T) {
	s := open(t, emulator.Config{PhysicalPartitions: 2, Unlimited: true})
	c := client(t, s)
	co := create(t, c, hierarchical("chunks"), 400)
	ctx := context.Background()
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range 2000 {
				body := encode(t, chunk{ID: fmt.Sprint(w*100 + i%90), TenantShard: "s", Device: "d"})
				_, err := co.UpsertItem(ctx, key("s", "d"), body, nil)
				if code(err) == 404 {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	_, err := co.Delete(ctx, nil)
	require.NoError(t, err)
	writers.Wait()
	co = create(t, c, hierarchical("chunks"), 400)
	rows, _, _ := query(t, co, azcosmos.NewPartitionKey(), `SELECT * FROM c`, 0)
	require.Empty(t, rows)
	items, _ := stored(t, s, "chunks")
	require.Zero(t, items)
}
