package emulator_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

// FuzzItem upserts any bytes as an item. They are refused with a reason, or come back as JSON with the
// same properties and those of the system.
func FuzzItem(f *testing.F) {
	for _, seed := range []string{
		`{"id":"a","tenantShard":"s","device":"d"}`,
		`{ "id" : "a", "tenantShard":"s","device":"d","x":[1,{"y":"\u00e9\n"}],"_ts":1,"_rid":"x","ttl":5 }`,
		`{"id":"\u0001","tenantShard":"s","device":"d","from":1e400,"to":"\ud800"}`, `{"tenantShard":"s"}`, `[]`,
		`{"id":"a","tenantShard":"s","device":"d","\u0069d":"b"}`,
	} {
		f.Add([]byte(seed))
	}
	s := open(f, emulator.Config{Unlimited: true})
	create(f, client(f, s), hierarchical("chunks"), 400)
	f.Fuzz(func(t *testing.T, body []byte) {
		resp, text := send(t, s, "POST", "dbs/db/colls/chunks/docs", "docs", "dbs/db/colls/chunks", string(body),
			"x-ms-documentdb-partitionkey", `["s","d"]`, "x-ms-documentdb-is-upsert", "true")
		if resp.StatusCode >= 400 {
			require.Less(t, resp.StatusCode, 500, text)
			return
		}
		var sent, got map[string]any
		require.True(t, json.Valid([]byte(text)), text)
		if json.Unmarshal(body, &sent) != nil {
			return // a number that Go has no float64 for
		}
		require.NoError(t, json.Unmarshal([]byte(text), &got), text)
		for _, name := range []string{"_rid", "_self", "_etag", "_attachments", "_ts"} {
			require.Contains(t, got, name)
			delete(got, name)
		}
		maps.DeleteFunc(sent, func(name string, _ any) bool {
			return name == "_rid" || name == "_self" || name == "_etag" || name == "_attachments" || name == "_ts" ||
				name == "_lsn"
		})
		require.Equal(t, sent, got)
	})
}

// FuzzContinuation returns any text as a continuation token: it is refused, or pages go on.
func FuzzContinuation(f *testing.F) {
	s := open(f, emulator.Config{Unlimited: true})
	create(f, client(f, s), hierarchical("chunks"), 400)
	const docs, link = "dbs/db/colls/chunks/docs", "dbs/db/colls/chunks"
	for _, id := range []string{"a", "b", "c"} {
		resp, text := send(f, s, "POST", docs, "docs", link, `{"id":"`+id+`","tenantShard":"s","device":"d","from":1}`,
			"x-ms-documentdb-partitionkey", `["s","d"]`)
		require.Equal(f, 201, resp.StatusCode, text)
	}
	queries := []string{`{"query":"SELECT * FROM c"}`, `{"query":"SELECT * FROM c ORDER BY c[\"from\"]"}`,
		`{"query":"SELECT * FROM c ORDER BY c.id DESC"}`}
	header := []string{"x-ms-documentdb-partitionkey", `["s","d"]`, "x-ms-documentdb-query", "true",
		"x-ms-max-item-count", "1", "x-ms-continuation"}
	for i, q := range queries {
		resp, text := send(f, s, "POST", docs, "docs", link, q, append(header, "")...)
		require.Equal(f, 200, resp.StatusCode, text)
		f.Add(i, resp.Header.Get("x-ms-continuation"))
	}
	f.Fuzz(func(t *testing.T, i int, token string) {
		resp, text := send(t, s, "POST", docs, "docs", link, queries[uint(i)%uint(len(queries))], append(header, token)...)
		require.Contains(t, []int{200, 400}, resp.StatusCode, text)
	})
}
