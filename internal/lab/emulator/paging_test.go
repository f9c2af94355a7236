package emulator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fastjson"

	"binnacle/internal/lab/emulator"
	"binnacle/internal/lab/emulator/sql"
)

// jsonRow is a stored document as a source of values.
type jsonRow struct {
	doc   *fastjson.Value
	paths []sql.Path
}

func (r jsonRow) Value(path int) sql.Value { return r.paths[path].In(r.doc) }

// expected answers a query over all documents by brute force: every document is tested, all are
// sorted, then cut. Documents are given in the order of ids.
func expected(t *testing.T, text string, docs []string) []string {
	t.Helper()
	q, err := sql.Parse(text)
	require.NoError(t, err)
	b, err := q.Bind(nil)
	require.NoError(t, err)
	type match struct {
		row  string
		sort []sql.Value
	}
	var matches []match
	all := b.Collector(true)
	for _, d := range docs {
		r := jsonRow{fastjson.MustParse(d), q.Paths()}
		if slices.ContainsFunc(b.Conditions(), func(c sql.Condition) bool { return !c.True(r) }) {
			continue
		}
		m := match{row: d}
		switch {
		case q.Collected():
			require.NoError(t, all.Add(r))
			continue
		case q.Iterates():
			b.Each(r, func(j []byte) bool { matches = append(matches, match{row: string(j)}); return true })
			continue
		case !q.Star:
			j, ok := b.Project(nil, r)
			if !ok {
				continue
			}
			m.row = string(j)
		}
		if len(q.Order) > 0 {
			for _, o := range q.Order {
				m.sort = append(m.sort, r.Value(o.Path))
			}
		}
		matches = append(matches, m)
	}
	if len(q.Order) > 0 {
		slices.SortStableFunc(matches, func(a, b match) int { return q.CompareOrder(a.sort, b.sort) })
	}
	out := []string{}
	if q.Collected() {
		for _, j := range all.Rows() {
			out = append(out, string(j))
		}
		return out
	}
	skip, take := b.Window()
	for i, m := range matches {
		if i >= skip && (take < 0 || i < skip+take) {
			out = append(out, m.row)
		}
	}
	return out
}

// TestQueriesAgainstBruteForce holds every way of running a query, with pages of any size, against
// testing each document by itself. A restart between two pages changes nothing.
func TestQueriesAgainstBruteForce(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := open(t, emulator.Config{PhysicalPartitions: 5, Unlimited: true})
	props := hierarchical("chunks")
	props.IndexingPolicy.CompositeIndexes = [][]azcosmos.CompositeIndex{
		{{Path: "/n", Order: azcosmos.CompositeIndexAscending}, {Path: "/from", Order: azcosmos.CompositeIndexDescending}},
	}
	co := create(t, client(t, s), props, 400)
	ctx := context.Background()

	all := map[string][]string{} // by partition key
	for i := range 300 {
		shard, device := fmt.Sprint("s", random.IntN(3)), fmt.Sprint("d", random.IntN(3))
		doc := map[string]any{"id": fmt.Sprintf("%03d", i), "tenantShard": shard, "device": device, "n": random.IntN(5)}
		if random.IntN(5) > 0 {
			doc["from"] = []any{random.IntN(20), -1.5, "text", nil, true, []int{1},
				strings.Repeat("long", 100)}[max(0, random.IntN(30)-23)]
		}
		if random.IntN(5) > 0 {
			doc["to"] = random.IntN(30)
		}
		for range random.IntN(4) {
			list, _ := doc["list"].([]any)
			doc["list"] = append(list, map[string]any{"k": random.IntN(3)})
		}
		body := encode(t, doc)
		_, err := co.CreateItem(ctx, key(shard, device), body, nil)
		require.NoError(t, err)
		got, err := co.ReadItem(ctx, key(shard, device), doc["id"].(string), nil)
		require.NoError(t, err)
		k := shard + "/" + device
		all[k] = append(all[k], string(got.Value))
	}

	conditions := []string{
		`c["from"] < 10`, `c["to"] >= 12`, `c.n = 3`, `c.id >= "100"`, `c.id < "200"`,
		`c.id IN ("003", "050", "100", "250")`, `STARTSWITH(c.id, "1")`,
		`NOT IS_DEFINED(c["from"])`, `c["from"] = null`, `c.n IN (1, 2)`, `(c.n = 1 OR c.id = "077")`,
		`c.id BETWEEN "050" AND "150"`, `c._ts > 0`, `c["from"] != "text"`,
		`(c.id = "001" OR c.id = "200" OR c.id > "290")`,
	}
	selects := []string{"*", "c.id", `VALUE c["to"]`, `c.id, c["from"], c.n`,
		`VALUE {"sum": c.n + c["to"], "first": c.list[0].k}`}
	iterating := []string{"c.id, l.k FROM c JOIN l IN c.list", "VALUE l FROM l IN c.list",
		"c.id, a.k, b.k AS other FROM c JOIN a IN c.list JOIN b IN c.list"}
	collecting := []string{"DISTINCT c.n FROM c", "DISTINCT VALUE l.k FROM c JOIN l IN c.list", "VALUE COUNT(1) FROM c"}
	orders := []string{"", "", " ORDER BY c.id", " ORDER BY c.id DESC", ` ORDER BY c["from"]`, ` ORDER BY c["from"] DESC`,
		` ORDER BY c["to"]`, ` ORDER BY c.n, c["from"] DESC`, ` ORDER BY c.n DESC, c["from"]`}
	tails := []string{"", "", " OFFSET 2 LIMIT 7", " OFFSET 0 LIMIT 3"}
	for range 300 {
		shard, device := fmt.Sprint("s", random.IntN(3)), fmt.Sprint("d", random.IntN(3))
		full := random.IntN(3) > 0
		var where []string
		if random.IntN(2) == 0 || !full {
			where = append(where, fmt.Sprintf("c.tenantShard = %q", shard))
			if full {
				where = append(where, fmt.Sprintf("c.device = %q", device))
			}
		}
		for range random.IntN(3) {
			where = append(where, conditions[random.IntN(len(conditions))])
		}
		kind := random.IntN(6)
		text := "SELECT " + selects[random.IntN(len(selects))] + " FROM c"
		switch {
		case kind == 0:
			text = "SELECT " + iterating[random.IntN(len(iterating))]
			where = slices.DeleteFunc(where, func(string) bool {
				return strings.Contains(text, "l IN c.list") && !strings.Contains(text, "FROM c")
			})
			if !full && len(where) == 0 {
				kind, text = 5, "SELECT * FROM c WHERE c.tenantShard = "+fmt.Sprintf("%q", shard)
			}
		case kind == 1 && full:
			text = "SELECT " + collecting[random.IntN(len(collecting))]
		case kind == 2 && full:
			text = "SELECT c.n, COUNT(1) AS count, MAX(c[\"to\"]) AS last FROM c"
		}
		if len(where) > 0 {
			text += " WHERE " + strings.Join(where, " AND ")
		}
		pk := azcosmos.NewPartitionKey()
		var docs []string
		if full {
			switch {
			case kind == 2:
				text += " GROUP BY c.n"
			case kind > 2 || kind == 0 && strings.Contains(text, "FROM c"):
				text += orders[random.IntN(len(orders))]
			}
			text += tails[random.IntN(len(tails))]
			pk = key(shard, device)
			docs = all[shard+"/"+device]
		} else {
			for k, more := range all {
				if strings.HasPrefix(k, shard+"/") {
					docs = append(docs, more...)
				}
			}
		}
		page := int32(1 + random.IntN(12))
		rows, _, _ := query(t, co, pk, text, page)
		want := expected(t, text, docs)
		if !full {
			slices.Sort(rows)
			slices.Sort(want)
		}
		require.Equal(t, len(want), len(rows), "%s, page %d, key %v", text, page, pk)
		for i := range want {
			require.Equal(t, want[i], rows[i], "%s, page %d", text, page)
		}
	}
}

// The sizes of pages that the SDK's own conformance suite pins.
func TestPages(t *testing.T) {
	s := open(t, emulator.Config{Unlimited: true})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	ctx := context.Background()
	pages := func(text string, pk azcosmos.PartitionKey, size int32) []int {
		var out []int
		pager := co.NewQueryItemsPager(text, pk, &azcosmos.QueryOptions{PageSizeHint: size})
		for pager.More() {
			resp, err := pager.NextPage(ctx)
			require.NoError(t, err)
			out = append(out, len(resp.Items))
			require.NotNil(t, resp.QueryMetrics)
		}
		return out
	}
	pk := key("s", "d")
	for i := range 20 {
		_, err := co.CreateItem(ctx, pk, encode(t, chunk{ID: fmt.Sprintf("%02d", i), TenantShard: "s", Device: "d",
			From: int64(i)}), nil)
		require.NoError(t, err)
	}
	require.Equal(t, []int{5, 5, 5, 5, 0}, pages(`SELECT * FROM c`, azcosmos.NewPartitionKey(), 5))
	require.Equal(t, []int{10, 10}, pages(`SELECT * FROM c ORDER BY c.id`, pk, 10))
	require.Equal(t, []int{10, 10}, pages(`SELECT * FROM c ORDER BY c["from"]`, pk, 10))
	require.Equal(t, []int{9, 9, 2}, pages(`SELECT * FROM c`, pk, 9))
	require.Equal(t, []int{4, 3}, pages(`SELECT TOP 7 * FROM c`, pk, 4))
	require.Equal(t, []int{4, 3}, pages(`SELECT TOP 7 * FROM c ORDER BY c["from"] DESC`, pk, 4))
	require.Equal(t, []int{7}, pages(`SELECT TOP 7 * FROM c ORDER BY c.id DESC`, pk, 7))
	require.Equal(t, []int{0}, pages(`SELECT TOP 0 * FROM c`, pk, 4))
	require.Equal(t, []int{0}, pages(`SELECT * FROM c WHERE c.id = "nothing"`, pk, 4))
	require.Equal(t, []int{20}, pages(`SELECT * FROM c`, pk, -1))
}

func TestAnswersAreBoundedInBytes(t *testing.T) {
	require.Equal(t, 4<<20, emulator.Limits{}.WithDefaults().ResponseBytes)
	s := open(t, emulator.Config{Unlimited: true, Limits: emulator.Limits{ResponseBytes: 4 << 10}})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	ctx := context.Background()
	pk := key("s", "d")
	for i := range 5 {
		c := chunk{ID: fmt.Sprint(i), TenantShard: "s", Device: "d", From: int64(i), Data: strings.Repeat("x", 1500)}
		_, err := co.CreateItem(ctx, pk, encode(t, c), nil)
		require.NoError(t, err)
	}
	for _, order := range []string{"", " ORDER BY c.id DESC", ` ORDER BY c["from"]`} {
		rows, pages, _ := query(t, co, pk, "SELECT * FROM c"+order, -1)
		require.Len(t, rows, 5)
		require.Equal(t, 3, pages, order)
	}
}

func TestPagesOutliveARestart(t *testing.T) {
	dir := t.TempDir()
	ctx := context.Background()
	s, err := emulator.Open(emulator.Config{DataDir: dir, PhysicalPartitions: 3, Unlimited: true})
	require.NoError(t, err)
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	for i := range 30 {
		shard := fmt.Sprint("s", i)
		_, err := co.CreateItem(ctx, key(shard, "d"), encode(t, chunk{ID: "a", TenantShard: shard, Device: "d"}), nil)
		require.NoError(t, err)
	}
	seen := map[string]bool{}
	var token *string
	for pages := 0; pages == 0 || token != nil; pages++ {
		pager := co.NewQueryItemsPager("SELECT * FROM c", azcosmos.NewPartitionKey(),
			&azcosmos.QueryOptions{PageSizeHint: 7, ContinuationToken: token})
		resp, err := pager.NextPage(ctx)
		require.NoError(t, err)
		for _, item := range resp.Items {
			var c chunk
			require.NoError(t, json.NewDecoder(bytes.NewReader(item)).Decode(&c))
			require.False(t, seen[c.TenantShard])
			seen[c.TenantShard] = true
		}
		token = resp.ContinuationToken
		require.NoError(t, s.Close())
		s, err = emulator.Open(emulator.Config{DataDir: dir, Unlimited: true})
		require.NoError(t, err)
		co, err = client(t, s).NewContainer("db", "chunks")
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	require.Len(t, seen, 30)
}
