package emulator_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator"
)

// indexed makes a container of 50 small items in one logical partition, under an indexing policy.
func indexed(t *testing.T, policy string) (*emulator.Server, *azcosmos.ContainerClient) {
	t.Helper()
	s := open(t, emulator.Config{Unlimited: true})
	c := client(t, s)
	create(t, c, hierarchical("any"), 400)
	resp, body := send(t, s, "POST", "dbs/db/colls", "colls", "dbs/db",
		`{"id":"c","partitionKey":{"paths":["/pk"]},"indexingPolicy":`+policy+`}`)
	require.Equal(t, http.StatusCreated, resp.StatusCode, body)
	co, err := c.NewContainer("db", "c")
	require.NoError(t, err)
	for i := range 50 {
		doc := fmt.Sprintf(`{"id":"%02d","pk":"p","a":%d,"b":%d,"s":"text %d","l":[%d,{"k":%d}]}`, i, i%5, i%7, i, i%3, i%4)
		_, err := co.CreateItem(context.Background(), azcosmos.NewPartitionKeyString("p"), []byte(doc), nil)
		require.NoError(t, err)
	}
	return s, co
}

// TestOrderThatThePolicyCannotServe is refused with the service's words.
func TestOrderThatThePolicyCannotServe(t *testing.T) {
	_, co := indexed(t, `{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/s/?"},{"path":"/l/*"}],
		"compositeIndexes":[[{"path":"/a","order":"ascending"},{"path":"/b","order":"descending"}],[{"path":"/a"},{"path":"/b"},{"path":"/s"}]]}`)
	for _, c := range []struct{ order, names string }{
		{"c.a", ""}, {"c.a DESC", ""}, {"c.id DESC", ""}, {"c._ts", ""}, {"c.missing", ""},
		{"c.a, c.b DESC", ""}, {"c.a DESC, c.b", ""}, {"c.a, c.b, c.s", ""}, {"c.a DESC, c.b DESC, c.s DESC", ""},
		{"c.s", "excluded"}, {"c.l", "excluded"},
		{"c.a, c.b", "/a ASC, /b ASC"}, {"c.b DESC, c.a", "composite"}, {"c.a, c.s", "composite"},
		{"c.a, c.b DESC, c.s", "composite"}, {"c.id, c.a", "composite"},
	} {
		t.Run(c.order, func(t *testing.T) {
			pager := co.NewQueryItemsPager("SELECT * FROM c ORDER BY "+c.order, azcosmos.NewPartitionKeyString("p"), nil)
			_, err := pager.NextPage(context.Background())
			if c.names == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, http.StatusBadRequest, code(err))
			require.ErrorContains(t, err, c.names)
		})
	}
}

// TestLoadedItemsAreCharged tells conditions that the index answers from those for which every item is
// loaded, by what the query costs.
func TestLoadedItemsAreCharged(t *testing.T) {
	_, co := indexed(t, `{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/s/?"}]}`)
	charged := func(w ru.QueryWork) float64 { return ru.Shown(ru.Stepped.Query(w)) }
	for _, c := range []struct {
		where       string
		seeks, docs int // with the partition key; of 50 items
	}{
		{`c.a = -1`, 2, 0}, {`c.a IN (7, 8)`, 3, 0}, {`c.a > 90 OR c.b > 90`, 3, 0}, {`NOT c.a < 9`, 2, 0},
		{`NOT IS_DEFINED(c.a)`, 2, 0}, {`c.pk LIKE 'x%'`, 2, 0},
		{`ARRAY_CONTAINS(c.l, 9)`, 2, 0}, {`CONTAINS(c.pk, 'q')`, 2, 0}, {`STARTSWITH(c.pk, 'Q', true)`, 2, 0},
		{`c.s = 'nothing'`, 2, 50}, {`c.a = 9 OR c.s = 'nothing'`, 3, 50}, {`c.a + 1 = 90`, 2, 50},
		{`UPPER(c.pk) = 'Q'`, 2, 50}, {`c.a > c.b + 90`, 2, 50}, {`LENGTH(c.pk) = 9`, 2, 50},
		{`POWER(c.a, 1) = 9`, 2, 50}, {`c.a = 1 AND c.s = 'nothing'`, 3, 10},
	} {
		t.Run(c.where, func(t *testing.T) {
			rows, _, charge := query(t, co, azcosmos.NewPartitionKeyString("p"), "SELECT * FROM c WHERE "+c.where, 100)
			require.Empty(t, rows)
			require.InDelta(t, charged(ru.QueryWork{Seeks: c.seeks, Docs: c.docs}), charge, 1e-3)
		})
	}
	for _, c := range []struct {
		text string
		rows int
		want ru.QueryWork
	}{
		{`SELECT VALUE x.k FROM c JOIN x IN c.l WHERE x.k = 3`, 12,
			ru.QueryWork{Seeks: 3, Columns: 1, Docs: 12, Scattered: 9}},
		{`SELECT VALUE x.k FROM c JOIN x IN c.l WHERE x.k + 0 = 3`, 12, ru.QueryWork{Seeks: 3, Columns: 1, Docs: 50}},
	} {
		rows, _, charge := query(t, co, azcosmos.NewPartitionKeyString("p"), c.text, 100)
		require.Len(t, rows, c.rows)
		require.InDelta(t, charged(c.want), charge, 1e-3, c.text)
	}
	_, pages, charge := query(t, co, azcosmos.NewPartitionKeyString("p"),
		`SELECT c.id, COUNT(1) AS n FROM c GROUP BY c.id`, 20)
	require.Equal(t, 3, pages)
	first, later := ru.QueryWork{Seeks: 1, Columns: 2, Docs: 50}, ru.QueryWork{Seeks: 1, Columns: 2}
	require.InDelta(t, charged(first)+2*charged(later), charge, 1e-3, "the work is charged once")
}

// TestCombinationsAreBounded: without the bound the query would not end.
func TestCombinationsAreBounded(t *testing.T) {
	_, co := indexed(t, `{}`)
	pk := azcosmos.NewPartitionKeyString("p")
	doc := `{"id":"long","pk":"p","w":[` + strings.TrimSuffix(strings.Repeat("1,", 200), ",") + `]}`
	_, err := co.CreateItem(context.Background(), pk, []byte(doc), nil)
	require.NoError(t, err)
	joins := strings.Repeat(" JOIN x%d IN c.w", 5)
	for _, text := range []string{
		"SELECT c.id FROM c" + fmt.Sprintf(joins, 0, 1, 2, 3, 4) + " WHERE x4 = 2",
		"SELECT VALUE COUNT(1) FROM c" + fmt.Sprintf(joins, 0, 1, 2, 3, 4),
	} {
		_, err := co.NewQueryItemsPager(text, pk, nil).NextPage(context.Background())
		require.Equal(t, http.StatusBadRequest, code(err))
		require.ErrorContains(t, err, "combine")
	}
}

func TestIndexMetrics(t *testing.T) {
	_, co := indexed(t, `{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/s/?"}],"compositeIndexes":[[{"path":"/a"},{"path":"/b"}]]}`)
	metrics := func(text string, ask bool) string {
		pager := co.NewQueryItemsPager(text, azcosmos.NewPartitionKeyString("p"),
			&azcosmos.QueryOptions{PopulateIndexMetrics: ask})
		resp, err := pager.NextPage(context.Background())
		require.NoError(t, err)
		if resp.IndexMetrics == nil {
			return ""
		}
		raw, err := base64.StdEncoding.DecodeString(*resp.IndexMetrics)
		require.NoError(t, err)
		var got struct {
			UtilizedSingleIndexes, PotentialSingleIndexes       []struct{ IndexSpec string }
			UtilizedCompositeIndexes, PotentialCompositeIndexes []struct{ IndexSpecs []string }
		}
		require.NoError(t, json.Unmarshal(raw, &got))
		var out []string
		for _, i := range got.UtilizedSingleIndexes {
			out = append(out, "+"+i.IndexSpec)
		}
		for _, i := range got.PotentialSingleIndexes {
			out = append(out, "?"+i.IndexSpec)
		}
		for _, i := range got.UtilizedCompositeIndexes {
			out = append(out, "+"+strings.Join(i.IndexSpecs, ","))
		}
		return strings.Join(out, " ")
	}
	require.Equal(t, "", metrics(`SELECT * FROM c WHERE c.a = 1`, false))
	require.Equal(t, "+/pk/?", metrics(`SELECT * FROM c`, true), "the key that the request names")
	require.Equal(t, "+/pk/? +/a/? ?/s/?", metrics(`SELECT * FROM c WHERE c.a = 1 AND c.s = 'x' AND UPPER(c.b) = 'X'`, true))
	require.Equal(t, "+/pk/? +/a/? +/a ASC,/b ASC", metrics(`SELECT * FROM c WHERE c.a > 1 ORDER BY c.a, c.b`, true))
	require.Equal(t, "+/pk/? +/l/[]/k/? +/b/?", metrics(`SELECT c.id FROM c WHERE c.l[1].k = 1 ORDER BY c.b`, true))
}

// TestQueriesThatNeedAPlan are refused over several physical partitions, in the shape that makes other
// SDKs ask for a plan.
func TestQueriesThatNeedAPlan(t *testing.T) {
	s, co := indexed(t, `{}`)
	for _, c := range []struct{ text, names string }{
		{`SELECT * FROM c ORDER BY c.a`, "ORDER BY"}, {`SELECT TOP 3 * FROM c`, "TOP"},
		{`SELECT * FROM c OFFSET 1 LIMIT 2`, "OFFSET LIMIT"},
		{`SELECT VALUE COUNT(1) FROM c`, "aggregate"}, {`SELECT DISTINCT c.a FROM c`, "DISTINCT"},
		{`SELECT c.a FROM c GROUP BY c.a`, ""}, {`SELECT COUNT(1) AS n FROM c`, ""},
	} {
		resp, body := send(t, s, "POST", "dbs/db/colls/c/docs", "docs", "dbs/db/colls/c", `{"query":"`+c.text+`"}`,
			"x-ms-documentdb-query", "True", "x-ms-documentdb-query-enablecrosspartition", "True")
		require.Equal(t, http.StatusBadRequest, resp.StatusCode, c.text)
		var fault struct{ Code, Message, AdditionalErrorInfo string }
		require.NoError(t, json.Unmarshal([]byte(body), &fault))
		require.Equal(t, "BadRequest", fault.Code)
		if c.names == "" {
			require.Empty(t, resp.Header.Get("x-ms-substatus"))
			require.Contains(t, fault.Message, "only supports 'VALUE <AggregateFunc>'")
		} else {
			require.Equal(t, "1004", resp.Header.Get("x-ms-substatus"))
			require.Contains(t, fault.AdditionalErrorInfo, `{"partitionedQueryExecutionInfoVersion":2,`)
			require.Contains(t, fault.Message, "cross partition query can not be directly served by the gateway")
			require.Contains(t, fault.Message, c.names)
		}
		rows, _, _ := query(t, co, azcosmos.NewPartitionKeyString("p"), c.text, 7)
		require.NotEmpty(t, rows, "with the key")
		rows, _, _ = query(t, co, azcosmos.NewPartitionKey(),
			strings.Replace(c.text, "FROM c", "FROM c WHERE c.pk = 'p'", 1), 7)
		require.NotEmpty(t, rows, "with the key in the text")
	}
	rows, _, _ := query(t, co, azcosmos.NewPartitionKey(), `SELECT VALUE x.k FROM c JOIN x IN c.l`, 7)
	require.Len(t, rows, 50, "a JOIN needs no plan")
}
