package emulator_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

var (
	low  = new(azcosmos.PriorityLevelLow)
	high = new(azcosmos.PriorityLevelHigh)
)

// spendAs upserts items of 1 KB until they have cost that much, or one is refused.
func spendAs(
	t testing.TB, co *azcosmos.ContainerClient, p *azcosmos.PriorityLevel, rus float64,
) (spent float64, err error) {
	t.Helper()
	body := encode(t, chunk{ID: "x", TenantShard: "s", Device: "d", Data: strings.Repeat("x", 900)})
	for spent < rus {
		resp, err := co.UpsertItem(context.Background(), key("s", "d"), body, &azcosmos.ItemOptions{PriorityLevel: p})
		if code(err) == 429 {
			return spent, err
		}
		require.NoError(t, err)
		spent += float64(resp.RequestCharge)
	}
	return spent, nil
}

const (
	everything = 1e9
	upsertRUs  = 13 // more than an upsert of spendAs costs
)

// High priority wants 250 of 400 RU/s in every second: low gets the rest, whoever comes first.
func TestLowPriorityIsRefusedFirst(t *testing.T) {
	now := newClock()
	s := open(t, emulator.Config{Now: now.now, PhysicalPartitions: 1})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	now.advance(time.Second)
	wanted, err := spendAs(t, co, nil, 250) // no priority is high
	require.NoError(t, err)
	for range 5 {
		now.advance(time.Second)
		spent, err := spendAs(t, co, low, everything)
		substatus, _ := refusal(t, err)
		require.Equal(t, "3200", substatus)
		require.InDelta(t, 400-wanted, spent, upsertRUs)
		_, err = spendAs(t, co, high, 250-upsertRUs)
		require.NoError(t, err, "what high priority wanted before is kept for it")
		_, err = spendAs(t, co, high, everything) // to the end of the second, for the next case
		require.Equal(t, 429, code(err))
		now.advance(time.Second)
		_, err = spendAs(t, co, low, 1)
		require.Equal(t, 429, code(err), "high priority was refused: it may want all")
		wanted, err = spendAs(t, co, high, 250)
		require.NoError(t, err)
		require.Less(t, wanted, 250.0+upsertRUs)
	}
}

func TestLowPriorityAloneHasItAll(t *testing.T) {
	now := newClock()
	s := open(t, emulator.Config{Now: now.now, PhysicalPartitions: 1})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	_, err := spendAs(t, co, high, everything)
	require.Equal(t, 429, code(err))
	now.advance(400 * time.Millisecond)
	waited := waitFor(t, now, func() error {
		_, err := spendAs(t, co, low, 1)
		return err
	})
	require.Equal(t, 1600*time.Millisecond, waited, "the next second is kept for high priority, the one after it is not")
	for range 3 {
		now.advance(time.Second)
		spent, err := spendAs(t, co, low, everything)
		require.InDelta(t, 400, spent, upsertRUs)
		_, wait := refusal(t, err)
		require.LessOrEqual(t, wait, time.Second)
		require.Positive(t, wait)
	}

	// Demand of low priority keeps nothing from high.
	now.advance(time.Second)
	spent, _ := spendAs(t, co, high, everything)
	require.InDelta(t, 400, spent, upsertRUs)
}

// Every operation on items has a priority; metadata requests have none.
func TestEveryOperationHasAPriority(t *testing.T) {
	now := newClock()
	s := open(t, emulator.Config{Now: now.now, PhysicalPartitions: 1})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	ctx := context.Background()
	pk := key("s", "d")
	body := encode(t, chunk{ID: "x", TenantShard: "s", Device: "d"})
	ranges, err := co.ReadFeedRanges(ctx, nil)
	require.NoError(t, err)
	for name, do := range map[string]func(p *azcosmos.PriorityLevel) error{
		"upsert": func(p *azcosmos.PriorityLevel) error {
			_, err := co.UpsertItem(ctx, pk, body, &azcosmos.ItemOptions{PriorityLevel: p})
			return err
		},
		"read": func(p *azcosmos.PriorityLevel) error {
			_, err := co.ReadItem(ctx, pk, "x", &azcosmos.ItemOptions{PriorityLevel: p})
			return err
		},
		"query": func(p *azcosmos.PriorityLevel) error {
			_, err := co.NewQueryItemsPager("SELECT * FROM c", pk, &azcosmos.QueryOptions{PriorityLevel: p}).NextPage(ctx)
			return err
		},
		"change feed": func(p *azcosmos.PriorityLevel) error {
			_, err := co.ReadChangeFeed(ctx, &azcosmos.ChangeFeedOptions{FeedRange: &ranges[0], PriorityLevel: p})
			return err
		},
		"batch": func(p *azcosmos.PriorityLevel) error {
			batch := co.NewTransactionalBatch(pk)
			batch.UpsertItem(body, nil)
			_, err := co.ExecuteTransactionalBatch(ctx, batch, &azcosmos.TransactionalBatchOptions{PriorityLevel: p})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := spendAs(t, co, high, everything)
			require.Equal(t, 429, code(err))
			now.advance(time.Second)
			err = do(low)
			require.Equal(t, 429, code(err), "%v", err)
			require.NoError(t, do(high))
			now.advance(2 * time.Second)
			require.NoError(t, do(low))
			_, err = co.Read(ctx, nil)
			require.NoError(t, err)
		})
	}
}
