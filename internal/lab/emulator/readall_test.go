package emulator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

// Reading all items without a query: every item once, page by page, over several physical partitions,
// and of one logical partition when a key is given.
func TestReadAllItems(t *testing.T) {
	s := open(t, emulator.Config{Unlimited: true, PhysicalPartitions: 3})
	co := create(t, client(t, s), hierarchical("chunks"), 1000)
	for i := range 30 {
		shard := fmt.Sprint("s", i%6)
		_, err := co.CreateItem(context.Background(), key(shard, "d"),
			encode(t, chunk{ID: fmt.Sprint(i), TenantShard: shard, Device: "d"}), nil)
		require.NoError(t, err)
	}
	for key, want := range map[string]int{"": 30, `["s1","d"]`: 5} {
		seen := map[string]bool{}
		continuation := ""
		for pages := 0; pages == 0 || continuation != ""; pages++ {
			require.Less(t, pages, 20)
			resp, text := send(t, s, "GET", docsPath, "docs", docsLink, "",
				"x-ms-max-item-count", "4", "x-ms-continuation", continuation, "x-ms-documentdb-partitionkey", key)
			require.Equal(t, 200, resp.StatusCode, text)
			require.NotEqual(t, "0", resp.Header.Get("x-ms-request-charge"))
			var page struct{ Documents []struct{ ID string } }
			require.NoError(t, json.Unmarshal([]byte(text), &page))
			for _, d := range page.Documents {
				require.False(t, seen[d.ID], "item %s twice", d.ID)
				seen[d.ID] = true
			}
			continuation = resp.Header.Get("x-ms-continuation")
		}
		require.Len(t, seen, want)
	}
}
