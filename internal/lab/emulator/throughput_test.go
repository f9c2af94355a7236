package emulator_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

// clock is a clock that a test moves.
type clock struct{ at time.Time }

func newClock() *clock { return &clock{time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time           { return c.at }
func (c *clock) advance(by time.Duration) { c.at = c.at.Add(by) }

func TestPartitionsByThroughput(t *testing.T) {
	s := open(t, emulator.Config{})
	c := client(t, s)
	ctx := context.Background()
	_, err := c.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "db"}, nil)
	require.NoError(t, err)
	db, err := c.NewDatabase("db")
	require.NoError(t, err)
	for i, x := range []struct {
		throughput azcosmos.ThroughputProperties
		want       int
	}{
		{azcosmos.NewManualThroughputProperties(400), 1},
		{azcosmos.NewManualThroughputProperties(6000), 1},
		{azcosmos.NewManualThroughputProperties(6100), 2},
		{azcosmos.NewManualThroughputProperties(30000), 5},
		{azcosmos.NewAutoscaleThroughputProperties(10000), 1},
		{azcosmos.NewAutoscaleThroughputProperties(50000), 5},
	} {
		id := "c" + strconv.Itoa(i)
		_, err := db.CreateContainer(ctx, hierarchical(id),
			&azcosmos.CreateContainerOptions{ThroughputProperties: &x.throughput})
		require.NoError(t, err)
		parts, err := s.Partitions("db", id)
		require.NoError(t, err)
		require.Len(t, parts, x.want)
		require.Equal(t, "", parts[0].Min)
		require.Equal(t, "FF", parts[x.want-1].Max)
		for j := 1; j < len(parts); j++ {
			require.Equal(t, parts[j-1].Max, parts[j].Min)
		}
		co, err := db.NewContainer(id)
		require.NoError(t, err)
		ranges, err := co.ReadFeedRanges(ctx, nil)
		require.NoError(t, err)
		require.Len(t, ranges, x.want)
	}
}

func TestOffers(t *testing.T) {
	s := open(t, emulator.Config{})
	c := client(t, s)
	ctx := context.Background()
	co := create(t, c, hierarchical("manual"), 12000)

	read, err := co.ReadThroughput(ctx, nil)
	require.NoError(t, err)
	rus, ok := read.ThroughputProperties.ManualThroughput()
	require.True(t, ok)
	require.EqualValues(t, 12000, rus)
	require.EqualValues(t, 400, *read.MinThroughput)
	require.False(t, read.IsReplacePending)

	replaced, err := co.ReplaceThroughput(ctx, azcosmos.NewManualThroughputProperties(20000), nil)
	require.NoError(t, err)
	rus, _ = replaced.ThroughputProperties.ManualThroughput()
	require.EqualValues(t, 20000, rus)
	for _, x := range []struct {
		to     azcosmos.ThroughputProperties
		status int
		reason string
	}{
		{azcosmos.NewManualThroughputProperties(300), 400, "minimum throughput 400"},
		{azcosmos.NewManualThroughputProperties(450), 400, "steps of 100"},
		{azcosmos.NewAutoscaleThroughputProperties(4000), 400, "cannot be exchanged"},
	} {
		_, err := co.ReplaceThroughput(ctx, x.to, nil)
		require.Equal(t, x.status, code(err))
		require.ErrorContains(t, err, x.reason)
	}
	parts, err := s.Partitions("db", "manual")
	require.NoError(t, err)
	require.Len(t, parts, 2, "lowering and raising never change the number of partitions")

	db, err := c.NewDatabase("db")
	require.NoError(t, err)
	auto := azcosmos.NewAutoscaleThroughputProperties(40000)
	_, err = db.CreateContainer(ctx, hierarchical("auto"), &azcosmos.CreateContainerOptions{ThroughputProperties: &auto})
	require.NoError(t, err)
	aco, err := db.NewContainer("auto")
	require.NoError(t, err)
	read, err = aco.ReadThroughput(ctx, nil)
	require.NoError(t, err)
	most, ok := read.ThroughputProperties.AutoscaleMaxThroughput()
	require.True(t, ok)
	require.EqualValues(t, 40000, most)
	require.EqualValues(t, 4000, *read.MinThroughput)
	_, err = aco.ReplaceThroughput(ctx, azcosmos.NewAutoscaleThroughputProperties(3000), nil)
	require.ErrorContains(t, err, "minimum throughput 4000")

	_, err = db.ReadThroughput(ctx, nil)
	require.Equal(t, 404, code(err), "a database without throughput has no offer")
}

func TestSharedThroughput(t *testing.T) {
	now := newClock()
	s := open(t, emulator.Config{Now: now.now})
	c := client(t, s)
	ctx := context.Background()
	shared := azcosmos.NewManualThroughputProperties(400)
	_, err := c.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "shared"},
		&azcosmos.CreateDatabaseOptions{ThroughputProperties: &shared})
	require.NoError(t, err)
	db, err := c.NewDatabase("shared")
	require.NoError(t, err)
	var cos []*azcosmos.ContainerClient
	for _, id := range []string{"a", "b"} {
		_, err = db.CreateContainer(ctx, hierarchical(id), nil)
		require.NoError(t, err)
		co, err := db.NewContainer(id)
		require.NoError(t, err)
		_, err = co.ReadThroughput(ctx, nil)
		require.Equal(t, 404, code(err))
		cos = append(cos, co)
	}
	spend(t, cos[0], 400)
	_, err = cos[1].ReadItem(ctx, key("s", "d"), "x", nil)
	require.Equal(t, 429, code(err), "the budget is one for both containers")
}

// spend writes to one logical partition until that many request units are charged or a write is
// refused, and gives how many were charged.
func spend(t testing.TB, co *azcosmos.ContainerClient, rus float64) float64 {
	t.Helper()
	total := 0.0
	for i := 0; total < rus; i++ {
		body := encode(t, chunk{ID: "x", TenantShard: "s", Device: "d", Data: strings.Repeat("x", 900)})
		resp, err := co.UpsertItem(context.Background(), key("s", "d"), body, nil)
		if code(err) == 429 {
			return total
		}
		require.NoError(t, err)
		total += float64(resp.RequestCharge)
	}
	return total
}

func TestBudgetOfAPhysicalPartition(t *testing.T) {
	now := newClock()
	now.advance(250 * time.Millisecond)
	s := open(t, emulator.Config{Now: now.now, PhysicalPartitions: 4})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	ctx := context.Background()

	spent := spend(t, co, 1e9)
	require.Greater(t, spent, 100.0, "a partition has a quarter of 400 RU/s, and may overdraw it")
	require.Less(t, spent, 112.0)

	_, err := co.ReadItem(ctx, key("s", "d"), "x", nil)
	var re *azcore.ResponseError
	require.True(t, errors.As(err, &re))
	require.Equal(t, 429, re.StatusCode)
	require.Equal(t, "3200", re.RawResponse.Header.Get("x-ms-substatus"))
	require.Equal(t, "500", re.RawResponse.Header.Get("x-ms-retry-after-ms"), "no client is told to wait for longer")

	other := 0
	for i := range 20 {
		k := key("t"+strconv.Itoa(i), "d")
		if _, err := co.ReadItem(ctx, k, "x", nil); code(err) == 404 {
			other++
		}
	}
	require.Greater(t, other, 5, "other partitions have budget")
	require.Less(t, other, 20)

	now.advance(750 * time.Millisecond)
	second := spend(t, co, 1e9)
	require.InDelta(t, 200, spent+second, 12, "the debt is taken from the next second")

	// One request of three seconds' budget: the debt outlasts the seconds between.
	now.advance(time.Second)
	big := encode(t, chunk{ID: "big", TenantShard: "s", Device: "d", Data: strings.Repeat("x", 500<<10)})
	resp, err := co.CreateItem(ctx, key("s", "d"), big, nil)
	require.NoError(t, err)
	require.Greater(t, resp.RequestCharge, float32(150))
	_, err = co.ReadItem(ctx, key("s", "d"), "x", nil)
	require.Equal(t, 429, code(err))
	waited := waitFor(t, now, func() error {
		_, err := co.ReadItem(ctx, key("s", "d"), "x", nil)
		if code(err) == 404 {
			return nil
		}
		return err
	})
	require.Equal(t, time.Second, waited, "as long as the debt")

	// Unused seconds are not saved.
	now.advance(time.Hour)
	require.Less(t, spend(t, co, 1e9), 112.0)

	parts, err := s.Partitions("db", "chunks")
	require.NoError(t, err)
	throttled, rus := int64(0), 0.0
	for _, p := range parts {
		throttled += p.Throttled
		rus += p.RUs
	}
	require.Greater(t, throttled, int64(4))
	require.Greater(t, rus, 500.0)
	s.ResetStats()
	parts, err = s.Partitions("db", "chunks")
	require.NoError(t, err)
	for _, p := range parts {
		require.Zero(t, p.RUs)
		require.Zero(t, p.Throttled)
	}
}

func TestRaisingThroughputCountsAtOnce(t *testing.T) {
	now := newClock()
	s := open(t, emulator.Config{Now: now.now})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	spend(t, co, 1e9)
	_, err := co.ReplaceThroughput(context.Background(), azcosmos.NewManualThroughputProperties(1000), nil)
	require.NoError(t, err)
	require.InDelta(t, 600, spend(t, co, 1e9), 24)
}

func TestUnlimitedCountsAndNeverThrottles(t *testing.T) {
	now := newClock()
	s := open(t, emulator.Config{Now: now.now, Unlimited: true})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	require.Greater(t, spend(t, co, 2000), 2000.0)
	parts, err := s.Partitions("db", "chunks")
	require.NoError(t, err)
	require.Greater(t, parts[0].RUs, 2000.0)
	require.InDelta(t, parts[0].RUs, parts[0].Peak, 1e-9)
	require.Zero(t, parts[0].LastSecond)
	now.advance(time.Second)
	parts, err = s.Partitions("db", "chunks")
	require.NoError(t, err)
	require.InDelta(t, parts[0].RUs, parts[0].LastSecond, 1e-9)
	require.EqualValues(t, 1, parts[0].Items)
}
