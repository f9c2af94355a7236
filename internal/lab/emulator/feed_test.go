package emulator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

const chunksLink = "dbs/db/colls/chunks"

// feedItem is what a test looks at in an item of the change feed.
type feedItem struct {
	ID    string `json:"id"`
	Shard string `json:"tenantShard"`
	From  int64  `json:"from"`
	LSN   uint64 `json:"_lsn"`
}

// feedPage is one answer of the change feed.
type feedPage struct {
	status int
	etag   string
	charge float64
	items  []feedItem
	header http.Header
}

func (p feedPage) ids() []string {
	out := []string{}
	for _, i := range p.items {
		out = append(out, i.ID)
	}
	return out
}

// readFeed asks for a page of the change feed by hand.
func readFeed(t testing.TB, s *emulator.Server, rangeID, etag string, header ...string) feedPage {
	t.Helper()
	header = append(header, "A-IM", "Incremental Feed")
	if rangeID != "" {
		header = append(header, "x-ms-documentdb-partitionkeyrangeid", rangeID)
	}
	if etag != "" {
		header = append(header, "If-None-Match", etag)
	}
	resp, body := send(t, s, "GET", chunksLink+"/docs", "docs", chunksLink, "", header...)
	page := feedPage{status: resp.StatusCode, etag: resp.Header.Get("ETag"), header: resp.Header}
	page.charge, _ = strconv.ParseFloat(resp.Header.Get("x-ms-request-charge"), 64)
	if resp.StatusCode != http.StatusOK {
		return page
	}
	var in struct {
		RID       string     `json:"_rid"`
		Documents []feedItem `json:"Documents"`
		Count     int        `json:"_count"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &in), body)
	require.Len(t, in.Documents, in.Count)
	require.Equal(t, resp.Header.Get("x-ms-item-count"), strconv.Itoa(in.Count))
	page.items = in.Documents
	return page
}

func put(t testing.TB, co *azcosmos.ContainerClient, id, shard, device string, from int64) {
	t.Helper()
	body := encode(t, chunk{ID: id, TenantShard: shard, Device: device, From: from})
	_, err := co.UpsertItem(context.Background(), key(shard, device), body, nil)
	require.NoError(t, err)
}

func TestChangeFeed(t *testing.T) {
	now := newClock()
	s := open(t, emulator.Config{Now: now.now, Unlimited: true})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	ctx := context.Background()

	page := readFeed(t, s, "0", "")
	require.Equal(t, 304, page.status)
	require.NotEmpty(t, page.etag)
	require.InDelta(t, 1, page.charge, 1e-6)
	empty := page.etag
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		put(t, co, id, "s", "d1", 1)
	}
	put(t, co, "b", "s", "d1", 2)
	_, err := co.DeleteItem(ctx, key("s", "d1"), "c", nil)
	require.NoError(t, err)

	page = readFeed(t, s, "0", empty)
	require.Equal(t, []string{"a", "d", "e", "b"}, page.ids(), "latest versions in the order of their last write")
	require.EqualValues(t, 2, page.items[3].From)
	require.Equal(t, []uint64{1, 4, 5, 6}, []uint64{page.items[0].LSN, page.items[1].LSN, page.items[2].LSN,
		page.items[3].LSN})
	require.Equal(t, `"7"`, page.etag, "the delete has a sequence number and shows nothing")
	require.InDelta(t, 1.04, page.charge, 1e-6)
	require.Equal(t, "0:-1#7", page.header.Get("x-ms-session-token"))
	require.Equal(t, 304, readFeed(t, s, "0", page.etag).status)
	require.Equal(t, page.etag, readFeed(t, s, "0", page.etag).etag)

	var paged []string
	etag := ""
	for range 4 {
		p := readFeed(t, s, "", etag, "x-ms-max-item-count", "1") // one range: no id needed
		paged, etag = append(paged, p.ids()...), p.etag
	}
	require.Equal(t, []string{"a", "d", "e", "b"}, paged)
	require.Equal(t, 304, readFeed(t, s, "0", etag).status)

	from := readFeed(t, s, "0", "*")
	require.Equal(t, 304, from.status)
	put(t, co, "late", "s", "d2", 1)
	require.Equal(t, []string{"late"}, readFeed(t, s, "0", from.etag).ids())

	// One key, by its header; one key, by its effective partition key.
	keyed := readFeed(t, s, "", "", "x-ms-documentdb-partitionkey", `["s","d2"]`)
	require.Equal(t, []string{"late"}, keyed.ids())
	require.InDelta(t, 1.06, keyed.charge, 1e-6, "the log of the whole partition is walked")
	require.Equal(t, []string{"a", "d", "e", "b", "late"},
		readFeed(t, s, "", "", "x-ms-documentdb-partitionkey", `["s"]`).ids())
	require.Equal(t, 304, readFeed(t, s, "0", "", "x-ms-start-epk", "3F", "x-ms-end-epk", "FF", "x-ms-read-key-type",
		"EffectivePartitionKeyRange").status)
	require.Equal(t, []string{"a", "d", "e", "b", "late"},
		readFeed(t, s, "0", "", "x-ms-start-epk", "", "x-ms-end-epk", "3F").ids())

	for _, wrong := range [][]string{
		{"If-None-Match", `"999"`}, {"If-None-Match", "x"}, {"If-Modified-Since", "soon"},
		{"x-ms-max-item-count", "-2"}, {"x-ms-documentdb-partitionkey", `[1,2,3]`}, {"x-ms-start-epk", "x"},
	} {
		require.Equal(t, 400, readFeed(t, s, "0", "", wrong...).status, wrong)
	}
	require.Equal(t, 410, readFeed(t, s, "7", "").status)
	resp, _ := send(t, s, "GET", chunksLink+"/docs", "docs", chunksLink, "", "A-IM", "Full-Fidelity Feed")
	require.Equal(t, 501, resp.StatusCode)
}

func TestChangeFeedFromATime(t *testing.T) {
	now := newClock()
	s := open(t, emulator.Config{Now: now.now, Unlimited: true})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	put(t, co, "old", "s", "d", 1)
	now.advance(time.Minute)
	since := now.at.UTC()
	put(t, co, "new", "s", "d", 1)
	for _, layout := range []string{time.RFC1123, http.TimeFormat} { // the Go SDK writes UTC for GMT
		page := readFeed(t, s, "0", "", "If-Modified-Since", since.Format(layout))
		require.Equal(t, []string{"new"}, page.ids())
		again := readFeed(t, s, "0", page.etag, "If-Modified-Since", since.Format(layout))
		require.Equal(t, 304, again.status, "If-None-Match has precedence")
	}
	later := since.Add(time.Hour).Format(http.TimeFormat)
	require.Equal(t, 304, readFeed(t, s, "0", "", "If-Modified-Since", later).status)
}

func TestChangeFeedWithoutTheExpired(t *testing.T) {
	now := newClock()
	s := open(t, emulator.Config{Now: now.now, Unlimited: true})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	ctx := context.Background()
	_, err := co.CreateItem(ctx, key("s", "d"), encode(t, chunk{ID: "brief", TenantShard: "s", Device: "d", TTL: 10}), nil)
	require.NoError(t, err)
	put(t, co, "stays", "s", "d", 1)
	require.Equal(t, []string{"brief", "stays"}, readFeed(t, s, "0", "").ids())
	now.advance(10 * time.Second)
	require.Equal(t, []string{"stays"}, readFeed(t, s, "0", "").ids())
	_, err = s.Sweep(ctx)
	require.NoError(t, err)
	page := readFeed(t, s, "0", "")
	require.Equal(t, []string{"stays"}, page.ids())
	require.Equal(t, `"2"`, page.etag, "what is removed in the background uses no sequence number")
	put(t, co, "brief", "s", "d", 1)
	require.Equal(t, []string{"brief"}, readFeed(t, s, "0", page.etag).ids())
}

func TestChangeFeedOfTransactions(t *testing.T) {
	s := open(t, emulator.Config{Unlimited: true})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	ctx := context.Background()
	put(t, co, "first", "s", "d", 1)
	b := co.NewTransactionalBatch(key("s", "d"))
	for _, id := range []string{"x", "y", "z"} {
		b.CreateItem(encode(t, chunk{ID: id, TenantShard: "s", Device: "d"}), nil)
	}
	b.UpsertItem(encode(t, chunk{ID: "y", TenantShard: "s", Device: "d", From: 2}), nil)
	b.DeleteItem("z", nil)
	done, err := co.ExecuteTransactionalBatch(ctx, b, nil)
	require.NoError(t, err)
	require.True(t, done.Success)
	bad := co.NewTransactionalBatch(key("s", "d"))
	bad.CreateItem(encode(t, chunk{ID: "rolled back", TenantShard: "s", Device: "d"}), nil)
	bad.CreateItem(encode(t, chunk{ID: "x", TenantShard: "s", Device: "d"}), nil)
	done, err = co.ExecuteTransactionalBatch(ctx, bad, nil)
	require.NoError(t, err)
	require.False(t, done.Success)
	put(t, co, "last", "s", "d", 1)

	one := readFeed(t, s, "0", "", "x-ms-max-item-count", "1")
	require.Equal(t, []string{"first"}, one.ids())
	two := readFeed(t, s, "0", one.etag, "x-ms-max-item-count", "1")
	require.ElementsMatch(t, []string{"x", "y"}, two.ids(), "a transaction is not divided over pages")
	require.Equal(t, two.items[0].LSN, two.items[1].LSN)
	rest := readFeed(t, s, "0", two.etag)
	require.Equal(t, []string{"last"}, rest.ids())
	require.EqualValues(t, 3, rest.items[0].LSN, "the failed transaction has used no sequence number")
}

// A page ends at 4 MB, a budget that is spent answers 429.
func TestChangeFeedPagesAndBudgets(t *testing.T) {
	now := newClock()
	s := open(t, emulator.Config{Now: now.now})
	co := create(t, client(t, s), hierarchical("chunks"), 10000)
	for i := range 12 {
		now.advance(time.Second)
		body := encode(t, chunk{ID: strconv.Itoa(i), TenantShard: "s", Device: "d", Data: strings.Repeat("x", 1<<20)})
		_, err := co.UpsertItem(context.Background(), key("s", "d"), body, nil)
		require.NoError(t, err)
	}
	now.advance(time.Hour)
	page := readFeed(t, s, rangeOf(t, s, "s", "d"), "")
	require.Len(t, page.items, 3)
	require.Len(t, readFeed(t, s, rangeOf(t, s, "s", "d"), page.etag).items, 3)
	spend(t, co, math.Inf(1))
	require.Equal(t, 429, readFeed(t, s, rangeOf(t, s, "s", "d"), page.etag).status)
}

// rangeOf is the id of the physical partition that serves a key.
func rangeOf(t testing.TB, s *emulator.Server, shard, device string) string {
	t.Helper()
	page := readFeed(t, s, "", `*`, "x-ms-documentdb-partitionkey", fmt.Sprintf(`[%q,%q]`, shard, device))
	if page.status == http.StatusTooManyRequests {
		return page.header.Get("x-ms-documentdb-partitionkeyrangeid")
	}
	require.Equal(t, 304, page.status)
	return page.header.Get("x-ms-documentdb-partitionkeyrangeid")
}
