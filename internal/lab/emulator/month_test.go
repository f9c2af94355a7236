package emulator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

// A month of a container's life: it is written to every hour, old items expire, it outgrows its
// physical partition, is raised for a rush and lowered again, and a reader of its change feed who
// comes once a day misses nothing.
func TestAMonthInASecond(t *testing.T) {
	now := newClock()
	const days, devices, itemBytes = 30, 4, 900
	s := open(t, emulator.Config{Now: now.now, Limits: emulator.Limits{PhysicalPartitionBytes: 256 << 10}})
	props := hierarchical("chunks")
	week := int32(7 * 24 * 3600)
	props.DefaultTimeToLive = &week
	co := create(t, client(t, s), props, 400)
	ctx := context.Background()
	reader := &feedReader{map[string]string{}}
	seen := map[string]bool{}
	written := map[string]bool{}
	most := 0
	for day := range days {
		for hour := range 24 {
			now.advance(time.Hour)
			for d := range devices {
				device, id := fmt.Sprint("d", d), fmt.Sprintf("%02d-%02d-%d", day, hour, d)
				body := encode(t, chunk{ID: id, TenantShard: "s", Device: device, Data: strings.Repeat("x", itemBytes)})
				_, err := co.CreateItem(ctx, key("s", device), body, nil)
				require.NoError(t, err)
				written[id] = true
			}
		}
		_, err := s.Sweep(ctx)
		require.NoError(t, err)
		reader.pass(t, s, func(p servedPage) {
			for _, item := range p.Items {
				require.False(t, seen[item.ID], "once is enough while nothing is written again")
				seen[item.ID] = true
			}
		})
		require.Len(t, seen, len(written), "day %d", day)
		items, size := stored(t, s, "chunks")
		most = max(most, int(items))
		require.LessOrEqual(t, size, int64(8*24*devices*1024))
		switch day {
		case 9:
			_, err := co.ReplaceThroughput(ctx, azcosmos.NewManualThroughputProperties(100_000), nil)
			require.NoError(t, err)
		case 20:
			resp, err := co.ReplaceThroughput(ctx, azcosmos.NewManualThroughputProperties(1000), nil)
			require.NoError(t, err)
			require.EqualValues(t, 1000, *resp.MinThroughput, "1 % of the highest ever")
		}
	}
	require.InDelta(t, 7*24*devices, most, 24*devices, "a week of items is kept")
	requireShares(t, s, "chunks", 10, 1000)
	rows, _, _ := query(t, co, azcosmos.NewPartitionKey(), `SELECT VALUE c.id FROM c`, 500)
	require.InDelta(t, 7*24*devices, len(rows), devices)
}
