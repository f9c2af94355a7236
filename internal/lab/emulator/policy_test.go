package emulator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator"
)

// TestIndexedTermsAreCharged counts what an item has in the index under a policy by what its write costs.
func TestIndexedTermsAreCharged(t *testing.T) {
	const doc = `{"id":"a","pk":"p","s":"x","n":1,"o":{"p":1,"q":"y"},"l":["u","v","u"],"m":[{"k":1},{"k":2}],"e":[],"z":null}`
	s := open(t, emulator.Config{Unlimited: true})
	create(t, client(t, s), hierarchical("any"), 400)
	for i, c := range []struct {
		policy string
		index  int // units
	}{
		{`{}`, 30}, // id pk s n z 2 each; o 2 + p 2 + q 2; l 2 + path + u v; m 2 + 2 objects + path + 1 2; e 2
		{`{"indexingMode":"none"}`, ru.NoIndex},
		{`{"includedPaths":[],"excludedPaths":[{"path":"/*"}]}`, 2},
		{`{"includedPaths":[{"path":"/pk/?"},{"path":"/n/?"}],"excludedPaths":[{"path":"/*"}]}`, 6},
		{`{"includedPaths":[{"path":"/absent/?"},{"path":"/also/absent/?"}],"excludedPaths":[{"path":"/*"}]}`, 6},
		{`{"includedPaths":[{"path":"/id/?"}],"excludedPaths":[{"path":"/*"}]}`, 2},
		{`{"includedPaths":[{"path":"/o/*"}],"excludedPaths":[{"path":"/*"}]}`, 2 + 6},
		{`{"includedPaths":[{"path":"/o/*"}],"excludedPaths":[{"path":"/*"},{"path":"/o/p/?"}]}`, 2 + 4},
		{`{"includedPaths":[{"path":"/l/[]/?"}],"excludedPaths":[{"path":"/*"}]}`, 2 + 3},
		{`{"includedPaths":[{"path":"/m/[]/k/?"}],"excludedPaths":[{"path":"/*"}]}`, 2 + 3},
		{`{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/o/*"},{"path":"/l/*"},{"path":"/\"s\"/?"}]}`, 30 - 6 - 5 - 2},
		{`{"includedPaths":[{"path":"/*"},{"path":"/o/q/?"}],"excludedPaths":[{"path":"/o/*"}]}`, 30 - 6 + 2},
		{`{"includedPaths":[{"path":"/*"},{"path":"/absent/?"}]}`, 30 + 2},
	} {
		t.Run(c.policy, func(t *testing.T) {
			id := fmt.Sprint("c", i)
			def := `{"id":"` + id + `","partitionKey":{"paths":["/pk"]},"indexingPolicy":` + c.policy + `}`
			resp, body := send(t, s, "POST", "dbs/db/colls", "colls", "dbs/db", def)
			require.Equal(t, 201, resp.StatusCode, body)
			link := "dbs/db/colls/" + id
			resp, body = send(t, s, "POST", link+"/docs", "docs", link, doc, "x-ms-documentdb-partitionkey", `["p"]`)
			require.Equal(t, 201, resp.StatusCode, body)
			var charge float64
			require.NoError(t, json.Unmarshal([]byte(resp.Header.Get("x-ms-request-charge")), &charge))
			require.InDelta(t, ru.Stepped.Write(len(doc), c.index), charge, 0.005, "%.1f units", charge/ru.Unit-27)
		})
	}
}

func TestRefusedDefinitions(t *testing.T) {
	s := open(t, emulator.Config{})
	create(t, client(t, s), hierarchical("any"), 400)
	for _, c := range []struct{ def, names string }{
		{`{"id":"","partitionKey":{"paths":["/a"]}}`, "name"},
		{`{"id":"a/b","partitionKey":{"paths":["/a"]}}`, "name"},
		{`{"id":"x"}`, "one path"},
		{`{"id":"x","partitionKey":{"paths":["/a","/b","/c","/d"]}}`, "1 to 3 paths"},
		{`{"id":"x","partitionKey":{"paths":["/a","/b"],"kind":"Hash"}}`, "one path"},
		{`{"id":"x","partitionKey":{"paths":["/a","/a"]}}`, "twice"},
		{`{"id":"x","partitionKey":{"paths":["a"]}}`, "not a property"},
		{`{"id":"x","partitionKey":{"paths":["/a"],"kind":"Range"}}`, "Range"},
		{`{"id":"x","partitionKey":{"paths":["/a"]},"defaultTtl":0}`, "defaultTtl"},
		{`{"id":"x","partitionKey":{"paths":["/a"]},"defaultTtl":5,"indexingPolicy":{"indexingMode":"none"}}`,
			"indexingMode none"},
		{`{"id":"x","partitionKey":{"paths":["/a"]},"indexingPolicy":{"indexingMode":"lazy"}}`, "lazy"},
		{`{"id":"x","partitionKey":{"paths":["/a"]},"indexingPolicy":{"includedPaths":[{"path":"/b/?"}]}}`, "/*"},
		{`{"id":"x","partitionKey":{"paths":["/a"]},"indexingPolicy":{"includedPaths":[{"path":"/*"},{"path":"/b"}]}}`, "/b"},
		{`{"id":"x","partitionKey":{"paths":["/a"]},"indexingPolicy":{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/*"}]}}`, "included and excluded"},
		{`{"id":"x","partitionKey":{"paths":["/a"]},"indexingPolicy":{"includedPaths":[{"path":"/*"},{"path":"/a/*/b/?"}]}}`,
			"wildcard"},
		{`{"id":"x","partitionKey":{"paths":["/a"]},"indexingPolicy":{"includedPaths":[{"path":"/*"}],"compositeIndexes":{}}}`, "compositeIndexes"},
		{`{"id":"x","partitionKey":{"paths":["/a"]},"indexingPolicy":{"includedPaths":[{"path":"/*"}],"compositeIndexes":[[{"path":"/b"}]]}}`, "2 to 8 paths"},
		{`{"id":"x","partitionKey":{"paths":["/a"]},"indexingPolicy":{"includedPaths":[{"path":"/*"}],"compositeIndexes":[[{"path":"/b"},{"path":"/c"},{"path":"/d"},{"path":"/e"},{"path":"/f"},{"path":"/g"},{"path":"/h"},{"path":"/i"},{"path":"/j"}]]}}`, "2 to 8 paths"},
		{`{"id":"x","partitionKey":{"paths":["/a"]},"indexingPolicy":{"includedPaths":[{"path":"/*"}],"compositeIndexes":[[{"path":"/b"},{"path":"/c/*"}]]}}`, "/c/*"},
		{`{"id":"x","partitionKey":{"paths":["/a"]},"indexingPolicy":{"includedPaths":[{"path":"/*"}],"compositeIndexes":[[{"path":"/b"},{"path":"/b"}]]}}`, "twice"},
		{`{"id":"x","partitionKey":{"paths":["/a"]},"indexingPolicy":{"includedPaths":[{"path":"/*"}],"compositeIndexes":[[{"path":"/b"},{"path":"/c","order":"up"}]]}}`, "up"},
		{`{"id":"x","partitionKey":{"paths":["/a"]},"indexingPolicy":{"includedPaths":[{"path":"/*"}],"compositeIndexes":[` +
			strings.TrimSuffix(strings.Repeat(`[{"path":"/b"},{"path":"/c"}],`, 101), ",") + `]}}`, "at most 100"},
	} {
		resp, body := send(t, s, "POST", "dbs/db/colls", "colls", "dbs/db", c.def)
		require.Equal(t, 400, resp.StatusCode, c.def)
		require.Contains(t, body, c.names)
	}
}

// TestReplacedPolicy changes what is kept beside an item's key: items written before are read rightly.
func TestReplacedPolicy(t *testing.T) {
	s := open(t, emulator.Config{Unlimited: true})
	props := hierarchical("chunks")
	co := create(t, client(t, s), props, 400)
	ctx := context.Background()
	pk := key("s", "d")
	put := func(id string, from int64) {
		_, err := co.CreateItem(ctx, pk,
			encode(t, chunk{ID: id, TenantShard: "s", Device: "d", From: from, To: from + 5}), nil)
		require.NoError(t, err)
	}
	put("a", 1)
	put("b", 10)
	props.IndexingPolicy.IncludedPaths = props.IndexingPolicy.IncludedPaths[3:] // /to only
	_, err := co.Replace(ctx, props, nil)
	require.NoError(t, err)
	put("c", 20)
	rows, _, _ := query(t, co, pk,
		`SELECT VALUE c.id FROM c WHERE c["from"] >= 10 AND c["to"] > 0 ORDER BY c["to"] DESC`, 0)
	require.Equal(t, []string{`"c"`, `"b"`}, rows)

	props.PartitionKeyDefinition.Paths = []string{"/tenantShard", "/other"}
	_, err = co.Replace(ctx, props, nil)
	require.Equal(t, 400, code(err))
}
