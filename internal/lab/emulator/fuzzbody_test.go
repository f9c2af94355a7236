package emulator_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

// FuzzPatch sends any bytes as a patch. They are refused with a reason and change nothing, or the item
// is JSON with the identity that it had.
func FuzzPatch(f *testing.F) {
	for _, seed := range []string{
		`{"operations":[{"op":"set","path":"/x/0","value":{"a":[1e400,"\ud800"]}}]}`,
		`[{"op":"incr","path":"/n","value":-1.5e300}]`,
		`{"condition":"from c where c.n = 1 or c.list[1] > 2","operations":[{"op":"add","path":"/list/-","value":null},{"op":"remove","path":"/list/0"}]}`,
		`[{"op":"move","from":"/o","path":"/list/1"},{"op":"replace","path":"/list/1/a~1b","value":[]}]`,
		`[{"op":"set","path":"/~1~0~2","value":0}]`, `{}`, `[[]]`,
		`[{"op":"set","path":"/device","value":"e"}]`, `[{"op":"add","path":"/o/","value":1},{"op":"remove","path":"/o/"}]`,
	} {
		f.Add([]byte(seed))
	}
	s := open(f, emulator.Config{Unlimited: true})
	create(f, client(f, s), hierarchical("chunks"), 400)
	f.Fuzz(func(t *testing.T, body []byte) {
		header := append([]string{"x-ms-documentdb-is-upsert", "true"}, partitionKeyHeader...)
		resp, before := send(t, s, "POST", docsPath, "docs", docsLink, patchable, header...)
		require.Less(t, resp.StatusCode, 300, before)
		resp, text := send(t, s, "PATCH", docsPath+"/a", "docs", docsLink+"/docs/a", string(body), partitionKeyHeader...)
		_, after := send(t, s, "GET", docsPath+"/a", "docs", docsLink+"/docs/a", "", partitionKeyHeader...)
		if resp.StatusCode >= 400 {
			require.Less(t, resp.StatusCode, 500, text)
			require.Equal(t, before, after)
			return
		}
		require.Equal(t, text, after)
		require.True(t, json.Valid([]byte(after)), after)
		var item struct{ ID, TenantShard, Device string }
		if json.Unmarshal([]byte(after), &item) == nil {
			require.Equal(t, "a s d", item.ID+" "+item.TenantShard+" "+item.Device)
		}
	})
}

// FuzzBatch sends any bytes as a batch. They are refused, or every operation has a result; a batch that
// failed has changed nothing.
func FuzzBatch(f *testing.F) {
	for _, seed := range []string{
		`[{"operationType":"Create","resourceBody":{"id":"b","tenantShard":"s","device":"d"}},{"operationType":"Delete","id":"a"}]`,
		`[{"operationType":"Upsert","ifMatch":"\"x\"","resourceBody":{"id":"a","tenantShard":"s","device":"d"}},{"operationType":"Read","id":"a"}]`,
		`[{"operationType":"Patch","id":"a","resourceBody":{"operations":[{"op":"set","path":"/n","value":2}]}},{"operationType":"Replace","id":"a","resourceBody":[]}]`,
		`[{"operationType":"Read","id":"\u0000"},1]`, `[]`, `{}`,
		`[{"operationType":"Delete","id":"a"},{"operationType":"Read","id":"a"}]`,
	} {
		f.Add([]byte(seed))
	}
	s := open(f, emulator.Config{Unlimited: true})
	create(f, client(f, s), hierarchical("chunks"), 400)
	all := func(t *testing.T) string {
		_, text := send(t, s, "POST", docsPath, "docs", docsLink, `{"query":"SELECT * FROM c"}`,
			append([]string{"x-ms-documentdb-query", "true", "x-ms-max-item-count", "1000"}, partitionKeyHeader...)...)
		return text
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		header := append([]string{"x-ms-documentdb-is-upsert", "true"}, partitionKeyHeader...)
		send(t, s, "POST", docsPath, "docs", docsLink, patchable, header...)
		before := all(t)
		resp, text := send(t, s, "POST", docsPath, "docs", docsLink, string(body),
			append([]string{"x-ms-cosmos-is-batch-request", "True"}, partitionKeyHeader...)...)
		require.Less(t, resp.StatusCode, 500, text)
		if resp.StatusCode != 200 {
			require.Equal(t, before, all(t))
		}
		if resp.StatusCode >= 400 {
			return
		}
		var sent []any
		var results []struct{ StatusCode int }
		require.True(t, json.Valid([]byte(text)), text)
		if json.Unmarshal(body, &sent) != nil {
			return // a number that Go has no float64 for
		}
		require.NoError(t, json.Unmarshal([]byte(text), &results), text)
		require.Len(t, results, len(sent))
		for _, r := range results {
			require.Equal(t, resp.StatusCode == 200, r.StatusCode < 300, text)
		}
	})
}
