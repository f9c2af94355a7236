package emulator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
	"binnacle/sharding/epk"
)

// keyRange is a physical partition as pkranges shows it.
type keyRange struct {
	ID      string   `json:"id"`
	Min     string   `json:"minInclusive"`
	Max     string   `json:"maxExclusive"`
	Parents []string `json:"parents"`
}

// readRanges returns what pkranges answers to an ETag, and its own.
func readRanges(t testing.TB, s *emulator.Server, etag string) ([]keyRange, string) {
	t.Helper()
	resp, body := send(t, s, "GET", chunksLink+"/pkranges", "pkranges", chunksLink, "", "A-IM", "Incremental Feed",
		"If-None-Match", etag)
	if resp.StatusCode == http.StatusNotModified {
		return nil, resp.Header.Get("ETag")
	}
	require.Equal(t, 200, resp.StatusCode)
	var in struct{ PartitionKeyRanges []keyRange }
	require.NoError(t, json.Unmarshal([]byte(body), &in))
	return in.PartitionKeyRanges, resp.Header.Get("ETag")
}

// merged is what an SDK makes of the ranges it knows and those that are new.
func merged(known, fresh []keyRange) []keyRange {
	all := slices.Concat(known, fresh)
	gone := map[string]bool{}
	for _, r := range all {
		for _, p := range r.Parents {
			gone[p] = true
		}
	}
	all = slices.DeleteFunc(all, func(r keyRange) bool { return gone[r.ID] })
	slices.SortFunc(all, func(a, b keyRange) int { return epk.Compare(a.Min, b.Min) })
	return all
}

func requireContiguous(t testing.TB, ranges []keyRange) {
	t.Helper()
	require.NotEmpty(t, ranges)
	require.Equal(t, epk.Min, ranges[0].Min)
	require.Equal(t, epk.Max, ranges[len(ranges)-1].Max)
	ids := map[string]bool{}
	for i, r := range ranges {
		require.Negative(t, epk.Compare(r.Min, r.Max))
		require.False(t, ids[r.ID])
		ids[r.ID] = true
		if i > 0 {
			require.Equal(t, ranges[i-1].Max, r.Min)
		}
	}
}

// Whatever is stored and split, the ranges cover the space once, the counters are those of the items,
// and every earlier ETag of pkranges leads to the same ranges.
func TestRandomSplitsKeepTheRangesContiguous(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range 6 {
		s := open(t, emulator.Config{PhysicalPartitions: 1 + random.IntN(3), Unlimited: true})
		co := create(t, client(t, s), hierarchical("chunks"), 400)
		shards, devices := 1+random.IntN(3), 1+random.IntN(20)
		type known struct {
			ranges []keyRange
			etag   string
		}
		var history []known
		items := map[string]int{}
		used := map[string]bool{}
		for range 12 {
			for range random.IntN(40) {
				shard, device := fmt.Sprint("s", random.IntN(shards)), fmt.Sprint("d", random.IntN(devices))
				id := fmt.Sprint(random.IntN(20))
				body := encode(t, chunk{ID: id, TenantShard: shard, Device: device, Data: strings.Repeat("x", random.IntN(2000))})
				_, err := co.UpsertItem(context.Background(), key(shard, device), body, nil)
				require.NoError(t, err)
				items[shard+"/"+device+"/"+id]++
			}
			ranges, etag := readRanges(t, s, "")
			requireContiguous(t, ranges)
			history = append(history, known{ranges, etag})
			old := ranges[random.IntN(len(ranges))]
			require.NoError(t, s.Split("db", "chunks", old.ID))
			require.Equal(t, 410, readFeed(t, s, old.ID, "").status)
			used[old.ID] = true
		}
		now, etag := readRanges(t, s, "")
		requireContiguous(t, now)
		for _, r := range now {
			require.False(t, used[r.ID], "ids are not used again")
		}
		for _, h := range history {
			fresh, at := readRanges(t, s, h.etag)
			require.Equal(t, etag, at)
			require.Equal(t, now, merged(h.ranges, fresh), "round %d", round)
		}
		none, _ := readRanges(t, s, etag)
		require.Empty(t, none)
		stored, size := 0, int64(0)
		parts, err := s.Partitions("db", "chunks")
		require.NoError(t, err)
		for _, p := range parts {
			require.GreaterOrEqual(t, p.Items, int64(0))
			stored += int(p.Items)
			size += p.Bytes
		}
		require.Equal(t, len(items), stored)
		for _, r := range now {
			require.Error(t, s.Split("db", "chunks", "999"+r.ID))
		}
	}
}

// A partition is split where its bytes are halved, inside a prefix if need be.
func TestSplitAtTheMedianOfBytes(t *testing.T) {
	s := open(t, emulator.Config{Unlimited: true})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	for i := range 100 {
		put(t, co, "x", "one", fmt.Sprint("d", i), 1)
	}
	require.NoError(t, s.Split("db", "chunks", "0"))
	parts, err := s.Partitions("db", "chunks")
	require.NoError(t, err)
	require.Len(t, parts, 2)
	require.InDelta(t, 50, parts[0].Items, 1)
	require.Len(t, parts[0].Max, 64, "the boundary is inside the prefix")
	require.Equal(t, epk.MultiHash(epk.String("one")), parts[0].Max[:32])
	require.Equal(t, "1", parts[0].ID)
	require.Equal(t, "2", parts[1].ID)

	// Without data to go by: the middle of the range.
	require.NoError(t, s.Split("db", "chunks", "2"))
	create(t, client(t, s), hierarchical("empty"), 400)
	require.NoError(t, s.Split("db", "empty", "0"))
	parts, err = s.Partitions("db", "empty")
	require.NoError(t, err)
	require.Equal(t, "20000000000000000000000000000000", parts[0].Max)

	require.Error(t, s.Split("db", "none", "0"))
}

func TestStorageSplits(t *testing.T) {
	now := newClock()
	s := open(t, emulator.Config{
		Now: now.now, Unlimited: true, SplitTakes: time.Hour, Limits: emulator.Limits{PhysicalPartitionBytes: 64 << 10},
	})
	co := create(t, client(t, s), hierarchical("chunks"), 8000)
	write := func(device string, i int) error {
		body := encode(t, chunk{ID: fmt.Sprint(i), TenantShard: "s", Device: device, Data: strings.Repeat("x", 1<<10)})
		_, err := co.UpsertItem(context.Background(), key("s", device), body, nil)
		return err
	}
	count := func() int {
		parts, err := s.Partitions("db", "chunks")
		require.NoError(t, err)
		return len(parts)
	}
	require.Equal(t, 2, count())
	var err error
	n := 0
	for ; n < 100 && err == nil; n++ {
		err = write("alone", n)
	}
	require.Equal(t, 403, code(err), "one key is not divided")
	require.ErrorContains(t, err, "cannot be split")
	require.InDelta(t, 60, n, 3)
	_, err = co.DeleteItem(context.Background(), key("s", "alone"), "0", nil)
	require.NoError(t, err)
	_, err = co.DeleteItem(context.Background(), key("s", "alone"), "1", nil)
	require.NoError(t, err)
	require.NoError(t, write("alone", 1), "there is room again")
	for i := range 20 {
		require.NoError(t, write("other", i), "two keys can be divided, and are written to meanwhile")
	}
	require.Equal(t, 2, count())
	now.advance(59 * time.Minute)
	require.Equal(t, 2, count())
	now.advance(time.Minute)
	require.Equal(t, 3, count())
	parts, err := s.Partitions("db", "chunks")
	require.NoError(t, err)
	for _, p := range parts {
		require.InDelta(t, 8000.0/3, p.Budget, 1e-6, "the throughput is divided by three")
	}
	require.NoError(t, write("other", 21))
}

func TestThroughputSplits(t *testing.T) {
	now := newClock()
	dir := t.TempDir()
	cfg := emulator.Config{DataDir: dir, Now: now.now}
	s, err := emulator.Open(cfg)
	require.NoError(t, err)
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	ctx := context.Background()
	for i := range 20 {
		put(t, co, "x", "s", fmt.Sprint(i), 1)
	}
	set := func(rus int32) (azcosmos.ThroughputResponse, error) {
		now.advance(time.Minute)
		return co.ReplaceThroughput(ctx, azcosmos.NewManualThroughputProperties(rus), nil)
	}
	resp, err := set(10000)
	require.NoError(t, err)
	require.False(t, resp.IsReplacePending, "one partition serves 10,000 RU/s")
	resp, err = set(25000)
	require.NoError(t, err)
	require.True(t, resp.IsReplacePending)
	_, err = set(30000)
	require.Equal(t, 423, code(err))
	now.advance(4 * time.Hour)
	read, err := co.ReadThroughput(ctx, nil)
	require.NoError(t, err)
	require.True(t, read.IsReplacePending)
	rus, _ := read.ThroughputProperties.ManualThroughput()
	require.EqualValues(t, 10000, rus)
	put(t, co, "y", "s", "meanwhile", 1)

	// The change outlives a restart.
	require.NoError(t, s.Close())
	s = open(t, cfg)
	db, err := client(t, s).NewDatabase("db")
	require.NoError(t, err)
	co, err = db.NewContainer("chunks")
	require.NoError(t, err)
	now.advance(time.Hour)
	read, err = co.ReadThroughput(ctx, nil)
	require.NoError(t, err)
	require.False(t, read.IsReplacePending)
	rus, _ = read.ThroughputProperties.ManualThroughput()
	require.EqualValues(t, 25000, rus)
	requireShares(t, s, "chunks", 3, 25000)

	_, err = set(400)
	require.NoError(t, err)
	requireShares(t, s, "chunks", 3, 400)
	_, err = set(30000)
	require.NoError(t, err)
	requireShares(t, s, "chunks", 3, 30000)
	ranges, err := co.ReadFeedRanges(ctx, nil)
	require.NoError(t, err)
	require.Len(t, ranges, 3)
}

func requireShares(t testing.TB, s *emulator.Server, container string, n int, rus float64) {
	t.Helper()
	parts, err := s.Partitions("db", container)
	require.NoError(t, err)
	require.Len(t, parts, n)
	for _, p := range parts {
		require.InDelta(t, rus/float64(n), p.Budget, 1e-6)
	}
}

// Raising the throughput of a database splits all containers that share it.
func TestSharedThroughputSplits(t *testing.T) {
	now := newClock()
	dir := t.TempDir()
	cfg := emulator.Config{DataDir: dir, Now: now.now, SplitTakes: -1}
	s, err := emulator.Open(cfg)
	require.NoError(t, err)
	c := client(t, s)
	ctx := context.Background()
	shared := azcosmos.NewAutoscaleThroughputProperties(10000)
	_, err = c.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "db"},
		&azcosmos.CreateDatabaseOptions{ThroughputProperties: &shared})
	require.NoError(t, err)
	db, err := c.NewDatabase("db")
	require.NoError(t, err)
	for _, id := range []string{"a", "b"} {
		_, err = db.CreateContainer(ctx, hierarchical(id), nil)
		require.NoError(t, err)
	}
	create(t, c, hierarchical("own"), 500)
	require.NoError(t, s.Split("db", "b", "0"))
	resp, err := db.ReplaceThroughput(ctx, azcosmos.NewAutoscaleThroughputProperties(30000), nil)
	require.NoError(t, err)
	require.True(t, resp.IsReplacePending)
	check := func(s *emulator.Server) {
		requireShares(t, s, "a", 3, 30000)
		requireShares(t, s, "own", 1, 500)
		parts, err := s.Partitions("db", "b")
		require.NoError(t, err)
		require.Len(t, parts, 4, "it had been split before: two of its partitions share a budget")
		for _, p := range parts {
			require.InDelta(t, 10000, p.Budget, 1e-6)
		}
	}
	check(s)
	require.NoError(t, s.Close())
	check(open(t, cfg))
}

// A client that reads pages of queries, or the change feed, goes on through splits.
func TestReadersGoOnThroughSplits(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := open(t, emulator.Config{PhysicalPartitions: 2, Unlimited: true})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	ctx := context.Background()
	for i := range 300 {
		put(t, co, fmt.Sprintf("%03d", i), "s", fmt.Sprint("d", i%3), int64(i%7))
	}
	split := func() {
		ranges, _ := readRanges(t, s, "")
		if len(ranges) < 12 {
			require.NoError(t, s.Split("db", "chunks", ranges[random.IntN(len(ranges))].ID))
		}
	}
	var ids []string
	for _, q := range []struct {
		text string
		pk   azcosmos.PartitionKey
		want int
	}{
		{`SELECT VALUE c.id FROM c WHERE c.tenantShard = "s"`, azcosmos.NewPartitionKey(), 300},
		{`SELECT VALUE c.id FROM c`, azcosmos.NewPartitionKey(), 300},
		{`SELECT VALUE c.id FROM c`, key("s"), 300},
		{`SELECT VALUE c.id FROM c`, key("s", "d1"), 100},
		{`SELECT VALUE c.id FROM c ORDER BY c["from"]`, key("s", "d1"), 100},
		{`SELECT VALUE c.id FROM c ORDER BY c.id DESC`, key("s", "d2"), 100},
	} {
		before, _, _ := query(t, co, q.pk, q.text, 1000)
		ids = nil
		pager := co.NewQueryItemsPager(q.text, q.pk, &azcosmos.QueryOptions{PageSizeHint: 17})
		for pager.More() {
			page, err := pager.NextPage(ctx)
			require.NoError(t, err)
			for _, item := range page.Items {
				ids = append(ids, string(item))
			}
			split()
		}
		if q.want == 100 {
			require.Equal(t, before, ids, q.text)
		}
		require.ElementsMatch(t, before, ids, q.text)
		require.Len(t, ids, q.want)
	}
}

// azcosmos follows a split by itself: its token names the old range, and it is told 410.
func TestAzcosmosReadsTheChangeFeedThroughSplits(t *testing.T) {
	s := open(t, emulator.Config{Unlimited: true})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	ctx := context.Background()
	for i := range 50 {
		put(t, co, fmt.Sprint("a", i), fmt.Sprint("s", i%9), "d", 1)
	}
	ranges, err := co.ReadFeedRanges(ctx, nil)
	require.NoError(t, err)
	require.Len(t, ranges, 1)
	opts := &azcosmos.ChangeFeedOptions{FeedRange: &ranges[0], MaxItemCount: 10}
	seen := map[string]int{}
	drain := func(calls int) {
		for range calls {
			resp, err := co.ReadChangeFeed(ctx, opts)
			require.NoError(t, err)
			for _, raw := range resp.Items {
				var item feedItem
				require.NoError(t, json.Unmarshal(raw, &item))
				seen[item.ID]++
			}
			token := resp.ContinuationToken
			opts = &azcosmos.ChangeFeedOptions{Continuation: &token, MaxItemCount: 10}
			if len(resp.Items) == 0 {
				return
			}
		}
	}
	drain(2)
	require.Len(t, seen, 20)
	require.NoError(t, s.Split("db", "chunks", "0"))
	require.NoError(t, s.Split("db", "chunks", "1"))
	for i := range 50 {
		put(t, co, fmt.Sprint("b", i), fmt.Sprint("s", i%9), "d", 1)
	}
	drain(100)
	require.Len(t, seen, 100)
	for id, times := range seen {
		require.Equal(t, 1, times, id)
	}
	drain(1)
	require.Len(t, seen, 100)
	ranges, err = co.ReadFeedRanges(ctx, nil)
	require.NoError(t, err)
	require.Len(t, ranges, 3, "the SDK has learned of the splits")
	items := []azcosmos.ItemIdentity{}
	for i := range 50 {
		items = append(items, azcosmos.ItemIdentity{ID: fmt.Sprint("a", i), PartitionKey: key(fmt.Sprint("s", i%9), "d")})
	}
	many, err := co.ReadManyItems(ctx, items, nil)
	require.NoError(t, err)
	require.Len(t, many.Items, 50)
	require.NoError(t, s.Split("db", "chunks", "2"))
	many, err = co.ReadManyItems(ctx, items, nil)
	require.NoError(t, err, "410 makes it look for the ranges again")
	require.Len(t, many.Items, 50)
}
