package emulator_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator"
)

// patchable is the item of the patch tests, without its system properties.
const patchable = `{"id":"a","tenantShard":"s","device":"d","n":1,"f":1.5,"o":{"p":"q","a/b":1,"t~":2},"list":[1,2,3],"big":9007199254740993}`

const docsPath, docsLink = "dbs/db/colls/chunks/docs", "dbs/db/colls/chunks"

var partitionKeyHeader = []string{"x-ms-documentdb-partitionkey", `["s","d"]`}

// bare is an item without its system properties.
func bare(t testing.TB, body string) string {
	t.Helper()
	at := strings.Index(body, `,"_rid":`)
	require.Positive(t, at, body)
	return body[:at] + "}"
}

func TestPatchOperations(t *testing.T) {
	s := open(t, emulator.Config{Unlimited: true})
	create(t, client(t, s), hierarchical("chunks"), 400)
	for _, c := range []struct{ name, ops, want string }{ // want: what replaces what in the item, or the fault
		{"set new", `{"op":"set","path":"/x","value":true}`, `+"x":true`},
		{"set", `{"op":"set","path":"/n","value":{"deep":[null]}}`, `"n":1=>"n":{"deep":[null]}`},
		{"set in an array", `{"op":"set","path":"/list/1","value":9}`, `[1,2,3]=>[1,9,3]`},
		{"set at the end of an array", `{"op":"set","path":"/list/3","value":9}`, `[1,2,3]=>[1,2,3,9]`},
		{"add new", `{"op":"add","path":"/o/x","value":1}`, `"t~":2=>"t~":2,"x":1`},
		{"add over", `{"op":"add","path":"/n","value":2}`, `"n":1=>"n":2`},
		{"add inserts", `{"op":"add","path":"/list/0","value":9}`, `[1,2,3]=>[9,1,2,3]`},
		{"add appends", `{"op":"add","path":"/list/-","value":9}`, `[1,2,3]=>[1,2,3,9]`},
		{"add beyond", `{"op":"add","path":"/list/4","value":9}`, `!no index`},
		{"add null", `{"op":"add","path":"/n","value":null}`, `"n":1=>"n":null`},
		{"add without a value", `{"op":"add","path":"/n"}`, `!needs a value`},
		{"add without a parent", `{"op":"add","path":"/x/y","value":1}`, `!no parent`},
		{"add below a scalar", `{"op":"add","path":"/n/y","value":1}`, `!neither an object nor an array`},
		{"add to what was added", `{"op":"add","path":"/x","value":{}},{"op":"add","path":"/x/y","value":1}`, `+"x":{"y":1}`},
		{"replace", `{"op":"replace","path":"/o/p","value":"r"}`, `"q"=>"r"`},
		{"replace in an array", `{"op":"replace","path":"/list/2","value":9}`, `[1,2,3]=>[1,2,9]`},
		{"replace nothing", `{"op":"replace","path":"/x","value":1}`, `!nothing at the path`},
		{"replace past the end", `{"op":"replace","path":"/list/3","value":1}`, `!nothing at the path`},
		{"remove", `{"op":"remove","path":"/f"}`, `"f":1.5,=>`},
		{"remove from an array", `{"op":"remove","path":"/list/0"}`, `[1,2,3]=>[2,3]`},
		{"remove nothing", `{"op":"remove","path":"/x"}`, `!nothing at the path`},
		{"remove past the end", `{"op":"remove","path":"/list/3"}`, `!nothing at the path`},
		{"remove with a leading zero", `{"op":"remove","path":"/list/00"}`, `!no index`},
		{"incr", `{"op":"incr","path":"/n","value":41}`, `"n":1=>"n":42`},
		{"incr down", `{"op":"incr","path":"/n","value":-2}`, `"n":1=>"n":-1`},
		{"incr is exact", `{"op":"incr","path":"/big","value":1}`, `9007199254740993=>9007199254740994`},
		{"incr a fraction", `{"op":"incr","path":"/f","value":0.25}`, `1.5=>1.75`},
		{"incr overflow", `{"op":"incr","path":"/big","value":9223372036854775807}`,
			`9007199254740993=>9.2323792361095168e+018`},
		{"incr new", `{"op":"incr","path":"/x","value":5}`, `+"x":5`},
		{"incr a string", `{"op":"incr","path":"/o/p","value":5}`, `!not a number`},
		{"incr by a string", `{"op":"incr","path":"/n","value":"5"}`, `!not a number`},
		{"move", `{"op":"move","from":"/o/p","path":"/x"}`, `"p":"q",=>;+"x":"q"`},
		{"move into itself", `{"op":"move","from":"/o","path":"/o/x"}`, `!inside its from`},
		{"move nothing", `{"op":"move","from":"/x","path":"/y"}`, `!nothing at the path`},
		{"escapes", `{"op":"set","path":"/o/a~1b","value":2},{"op":"set","path":"/o/t~0","value":3}`,
			`"a/b":1,"t~":2=>"a/b":2,"t~":3`},
		{"in order", `{"op":"add","path":"/x","value":1},{"op":"incr","path":"/x","value":1},{"op":"remove","path":"/n"}`,
			`"n":1,=>;+"x":2`},
		{"all or none", `{"op":"set","path":"/n","value":7},{"op":"remove","path":"/x"}`, `!patch operation 1`},
		{"ttl", `{"op":"set","path":"/ttl","value":60}`, `+"ttl":60`},
		{"bad ttl", `{"op":"set","path":"/ttl","value":0}`, `!ttl`},
		{"id", `{"op":"set","path":"/id","value":"b"}`, `!the id of an item cannot be patched`},
		{"system property", `{"op":"remove","path":"/_ts"}`, `!_ts`},
		{"partition key", `{"op":"set","path":"/device","value":"e"}`, `!partition key`},
		{"partition key as it is", `{"op":"set","path":"/device","value":"d"}`, ``},
		{"unknown", `{"op":"copy","path":"/n","value":1}`, `!\"copy\"`},
		{"no path", `{"op":"set","value":1}`, `!JSON pointer`},
		{"root", `{"op":"set","path":"","value":1}`, `!JSON pointer`},
		{"none", ``, `!1 to 10 operations`},
		{"ten", strings.Repeat(`{"op":"incr","path":"/n","value":1},`, 9) + `{"op":"incr","path":"/n","value":1}`,
			`"n":1=>"n":11`},
		{"eleven", strings.Repeat(`{"op":"incr","path":"/n","value":1},`, 10) + `{"op":"incr","path":"/n","value":1}`,
			`!1 to 10 operations`},
	} {
		t.Run(c.name, func(t *testing.T) {
			header := append([]string{"x-ms-documentdb-is-upsert", "true"}, partitionKeyHeader...)
			resp, text := send(t, s, "POST", docsPath, "docs", docsLink, patchable, header...)
			require.Less(t, resp.StatusCode, 300, text)
			for i, body := range []string{`{"operations":[` + c.ops + `]}`, `[` + c.ops + `]`} {
				if i == 1 {
					send(t, s, "POST", docsPath, "docs", docsLink, patchable, header...)
				}
				resp, text = send(t, s, "PATCH", docsPath+"/a", "docs", docsLink+"/docs/a", body, partitionKeyHeader...)
				if fault, refused := strings.CutPrefix(c.want, "!"); refused {
					require.Equal(t, 400, resp.StatusCode, text)
					require.Contains(t, text, fault)
					_, text = send(t, s, "GET", docsPath+"/a", "docs", docsLink+"/docs/a", "", partitionKeyHeader...)
					require.Equal(t, patchable, bare(t, text), "nothing of a refused patch is done")
					continue
				}
				require.Equal(t, 200, resp.StatusCode, text)
				want, added := edited(c.want)
				require.Equal(t, want, bare(t, text))
				require.Contains(t, text, `"_attachments":"attachments/"`+added+`,"_ts":`)
				_, stored := send(t, s, "GET", docsPath+"/a", "docs", docsLink+"/docs/a", "", partitionKeyHeader...)
				require.Equal(t, text, stored)
				require.NotEmpty(t, resp.Header.Get("etag"))
			}
		})
	}
}

// edited is the patchable item after edits in the form "old=>new;old=>new;+added", and what is added: it stands after
// all but the last of the system properties.
func edited(edits string) (item, added string) {
	item = patchable
	for edit := range strings.SplitSeq(edits, ";") {
		if text, ok := strings.CutPrefix(edit, "+"); ok {
			added = "," + text
			continue
		}
		from, to, _ := strings.Cut(edit, "=>")
		item = strings.Replace(item, from, to, 1)
	}
	return item, added
}

func TestPatchConditions(t *testing.T) {
	s := open(t, emulator.Config{Unlimited: true})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	ctx, pk := context.Background(), key("s", "d")
	made, err := co.CreateItem(ctx, pk, []byte(patchable), nil)
	require.NoError(t, err)
	for _, c := range []struct {
		name, condition string
		options         *azcosmos.ItemOptions
		id              string
		want            int
	}{
		{"true", `from c where c.n = 1 and c.o.p = 'q'`, nil, "a", 0},
		{"another alias", `FROM products p WHERE p.list[0] = 1`, nil, "a", 0},
		{"of system properties", `from c where c._ts > 0 and is_defined(c._etag)`, nil, "a", 0},
		{"without WHERE", `from c`, nil, "a", 0},
		{"false", `from c where c.n = 2`, nil, "a", 412},
		{"undefined", `from c where c.nothing = 2`, nil, "a", 412},
		{"no SQL", `where c.n = 2`, nil, "a", 400},
		{"with ORDER BY", `from c where c.n = 1 order by c.n`, nil, "a", 400},
		{"with a parameter", `from c where c.n = @n`, nil, "a", 412},
		{"absent item", `from c`, nil, "b", 404},
		{"stale ETag", `from c`, &azcosmos.ItemOptions{IfMatchEtag: to(azcore.ETag(`"stale"`))}, "a", 412},
		{"ETag", `from c`, &azcosmos.ItemOptions{IfMatchEtag: &made.ETag, EnableContentResponseOnWrite: true}, "a", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p azcosmos.PatchOperations
			p.SetCondition(c.condition)
			p.AppendSet("/seen", c.name)
			if c.name == "ETag" {
				now, err := co.ReadItem(ctx, pk, "a", nil)
				require.NoError(t, err)
				c.options.IfMatchEtag = &now.ETag
			}
			resp, err := co.PatchItem(ctx, pk, c.id, p, c.options)
			require.Equal(t, c.want, code(err), "%v", err)
			if c.want != 0 {
				return
			}
			require.Equal(t, c.options == nil, len(resp.Value) == 0, "the item comes back when asked for")
			got, err := co.ReadItem(ctx, pk, "a", nil)
			require.NoError(t, err)
			require.Equal(t, got.ETag, resp.ETag)
			var item struct{ Seen string }
			require.NoError(t, json.Unmarshal(got.Value, &item))
			require.Equal(t, c.name, item.Seen)
		})
	}
	resp, text := send(t, s, "PATCH", docsPath+"/a", "docs", docsLink+"/docs/a",
		`{"condition":"from c where c.n +","operations":[{"op":"remove","path":"/n"}]}`, partitionKeyHeader...)
	require.Equal(t, 400, resp.StatusCode)
	require.Contains(t, text, "line 1, column ", "the place is that in the condition")
}

func to[T any](v T) *T { return &v }

// A patch is charged as the replace that does the same, and a little for each operation.
func TestPatchCharge(t *testing.T) {
	s := open(t, emulator.Config{Unlimited: true})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	ctx, pk := context.Background(), key("s", "d")
	var charges [2]float32
	for i, id := range []string{"a", "b"} {
		doc := strings.Replace(patchable, `"id":"a"`, `"id":"`+id+`"`, 1)
		_, err := co.CreateItem(ctx, pk, []byte(doc), nil)
		require.NoError(t, err)
		if i == 0 {
			var p azcosmos.PatchOperations
			p.AppendSet("/from", 7)
			resp, err := co.PatchItem(ctx, pk, id, p, nil)
			require.NoError(t, err)
			charges[i] = resp.RequestCharge
			continue
		}
		resp, err := co.ReplaceItem(ctx, pk, id, []byte(doc[:len(doc)-1]+`,"from":7}`), nil)
		require.NoError(t, err)
		charges[i] = resp.RequestCharge
	}
	require.InDelta(t, float64(charges[1])+ru.Stepped.Patch(1), charges[0], 0.01)
	require.Greater(t, charges[0], float32(10))
}
