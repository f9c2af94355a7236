package emulator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

func small(t testing.TB, id string, from int64) []byte {
	return encode(t, chunk{ID: id, TenantShard: "s", Device: "d", From: from})
}

func TestBatch(t *testing.T) {
	s := open(t, emulator.Config{Unlimited: true, PhysicalPartitions: 3})
	co := create(t, client(t, s), hierarchical("chunks"), 1000)
	ctx, pk := context.Background(), key("s", "d")
	for _, id := range []string{"replaced", "deleted", "patched", "upserted"} {
		_, err := co.CreateItem(ctx, pk, small(t, id, 1), nil)
		require.NoError(t, err)
	}
	b := co.NewTransactionalBatch(pk)
	b.CreateItem(small(t, "new", 1), nil)
	b.ReadItem("new", nil) // sees what came before it
	b.UpsertItem(small(t, "upserted", 2), nil)
	b.UpsertItem(small(t, "fresh", 2), nil)
	b.ReplaceItem("replaced", small(t, "replaced", 2), nil)
	var p azcosmos.PatchOperations
	p.SetCondition(`from c where c[\"from\"] = 1`)
	p.AppendIncrement("/from", 1)
	b.PatchItem("patched", p, nil)
	b.DeleteItem("deleted", nil)
	b.CreateItem(small(t, "deleted", 9), nil)
	resp, err := co.ExecuteTransactionalBatch(ctx, b, nil)
	require.NoError(t, err)
	require.True(t, resp.Success)
	require.NotEmpty(t, resp.SessionToken)
	sum := float32(0)
	etags := map[azcore.ETag]bool{}
	for i, want := range []int32{201, 200, 200, 201, 200, 200, 204, 201} {
		r := resp.OperationResults[i]
		require.Equal(t, want, r.StatusCode, i)
		require.Positive(t, r.RequestCharge, i)
		require.Equal(t, want != 204, r.ETag != "", i)
		require.Equal(t, want != 204, len(r.ResourceBody) > 0, "a batch with a read gives bodies: %d", i)
		sum += r.RequestCharge
		etags[r.ETag] = true
	}
	require.InDelta(t, sum, resp.RequestCharge, 0.01)
	require.Equal(t, resp.OperationResults[0].ETag, resp.OperationResults[1].ETag)
	require.Len(t, etags, 7, "every write has an ETag of its own")
	for id, from := range map[string]int64{
		"new": 1, "upserted": 2, "fresh": 2, "replaced": 2, "patched": 2, "deleted": 9,
	} {
		got, err := co.ReadItem(ctx, pk, id, nil)
		require.NoError(t, err)
		var c chunk
		require.NoError(t, json.Unmarshal(got.Value, &c))
		require.Equal(t, from, c.From, id)
	}
	parts, err := s.Partitions("db", "chunks")
	require.NoError(t, err)
	items := int64(0)
	for _, p := range parts {
		items += p.Items
	}
	require.EqualValues(t, 6, items)

	writes := co.NewTransactionalBatch(pk)
	writes.CreateItem(small(t, "quiet", 1), nil)
	resp, err = co.ExecuteTransactionalBatch(ctx, writes, nil)
	require.NoError(t, err)
	require.Nil(t, resp.OperationResults[0].ResourceBody)
}

// A batch in which one operation fails changes nothing, and says which one it was.
func TestBatchIsAtomic(t *testing.T) {
	stale := to(azcore.ETag(`"stale"`))
	for _, c := range []struct {
		name   string
		status int32
		add    func(b *azcosmos.TransactionalBatch)
	}{
		{"create of one that exists", 409, func(b *azcosmos.TransactionalBatch) { b.CreateItem(small(t, "there", 2), nil) }},
		{"create twice in the batch", 409, func(b *azcosmos.TransactionalBatch) { b.CreateItem(small(t, "first", 2), nil) }},
		{"replace of one that is absent", 404, func(b *azcosmos.TransactionalBatch) {
			b.ReplaceItem("none", small(t, "none", 2), nil)
		}},
		{"replace under another id", 400, func(b *azcosmos.TransactionalBatch) {
			b.ReplaceItem("there", small(t, "none", 2), nil)
		}},
		{"delete of one that is absent", 404, func(b *azcosmos.TransactionalBatch) { b.DeleteItem("none", nil) }},
		{"read of one that is absent", 404, func(b *azcosmos.TransactionalBatch) { b.ReadItem("none", nil) }},
		{"read of one deleted in the batch", 404, func(b *azcosmos.TransactionalBatch) { b.ReadItem("gone", nil) }},
		{"stale replace", 412, func(b *azcosmos.TransactionalBatch) {
			b.ReplaceItem("there", small(t, "there", 2), &azcosmos.TransactionalBatchItemOptions{IfMatchETag: stale})
		}},
		{"stale upsert", 412, func(b *azcosmos.TransactionalBatch) {
			b.UpsertItem(small(t, "there", 2), &azcosmos.TransactionalBatchItemOptions{IfMatchETag: stale})
		}},
		{"patch of what is not there", 400, func(b *azcosmos.TransactionalBatch) {
			var p azcosmos.PatchOperations
			p.AppendRemove("/nothing")
			b.PatchItem("there", p, nil)
		}},
		{"patch whose condition is false", 412, func(b *azcosmos.TransactionalBatch) {
			var p azcosmos.PatchOperations
			p.SetCondition(`from c where c[\"from\"] = 7`)
			p.AppendRemove("/from")
			b.PatchItem("there", p, nil)
		}},
		{"item of another key", 400, func(b *azcosmos.TransactionalBatch) {
			b.CreateItem(encode(t, chunk{ID: "x", TenantShard: "s", Device: "other"}), nil)
		}},
		{"item without an id", 400, func(b *azcosmos.TransactionalBatch) {
			b.CreateItem([]byte(`{"tenantShard":"s","device":"d"}`), nil)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, emulator.Config{Unlimited: true})
			co := create(t, client(t, s), hierarchical("chunks"), 400)
			ctx, pk := context.Background(), key("s", "d")
			for _, id := range []string{"there", "gone"} {
				_, err := co.CreateItem(ctx, pk, small(t, id, 1), nil)
				require.NoError(t, err)
			}
			before, _, _ := query(t, co, pk, "SELECT * FROM c", 0)
			b := co.NewTransactionalBatch(pk)
			b.CreateItem(small(t, "first", 1), nil)
			b.DeleteItem("gone", nil)
			c.add(&b)
			b.UpsertItem(small(t, "there", 3), nil)
			resp, err := co.ExecuteTransactionalBatch(ctx, b, nil)
			require.NoError(t, err)
			require.False(t, resp.Success)
			require.Equal(t, 207, resp.RawResponse.StatusCode)
			require.Positive(t, resp.RequestCharge)
			for i, want := range []int32{424, 424, c.status, 424} {
				require.Equal(t, want, resp.OperationResults[i].StatusCode, i)
				require.Nil(t, resp.OperationResults[i].ResourceBody)
				require.Empty(t, resp.OperationResults[i].ETag)
			}
			after, _, _ := query(t, co, pk, "SELECT * FROM c", 0)
			require.Equal(t, before, after)
		})
	}
}

// A batch belongs to the partition key that it names, whatever the items in it say.
func TestABatchIsPlacedByItsKey(t *testing.T) {
	s := open(t, emulator.Config{PhysicalPartitions: 8})
	co := create(t, client(t, s), hierarchical("chunks"), 8000)
	want := rangeOf(t, s, "s", "d")
	require.NotEqual(t, want, rangeOf(t, s, "s0", "d"), "else this shows nothing")
	s.ResetStats()
	b := co.NewTransactionalBatch(key("s", "d"))
	for _, other := range []string{"s0", "s1", "s2", "s3"} {
		b.CreateItem(encode(t, chunk{ID: "x", TenantShard: other, Device: "d"}), nil)
	}
	resp, err := co.ExecuteTransactionalBatch(context.Background(), b, nil)
	require.NoError(t, err)
	require.False(t, resp.Success)
	require.Equal(t, want, resp.RawResponse.Header.Get("x-ms-documentdb-partitionkeyrangeid"))
	parts, err := s.Partitions("db", "chunks")
	require.NoError(t, err)
	for _, p := range parts {
		require.Equal(t, p.ID == want, p.RUs > 0, "only %s is charged, %s was", want, p.ID)
	}
}

func TestBatchLimits(t *testing.T) {
	s := open(t, emulator.Config{Unlimited: true})
	create(t, client(t, s), hierarchical("chunks"), 400)
	list := func(n int) string {
		ops := make([]string, n)
		for i := range ops {
			ops[i] = fmt.Sprintf(`{"operationType":"Create","resourceBody":{"id":"%d","tenantShard":"s","device":"d"}}`, i)
		}
		return "[" + strings.Join(ops, ",") + "]"
	}
	big := `{"operationType":"Create","resourceBody":{"id":"big","tenantShard":"s","device":"d","x":"` +
		strings.Repeat("x", 1100<<10) + `"}}`
	for _, c := range []struct {
		name, key, body string
		status          int
	}{
		{"none", `["s","d"]`, `[]`, 400},
		{"no array", `["s","d"]`, `{}`, 400},
		{"no JSON", `["s","d"]`, `[`, 400},
		{"too many", `["s","d"]`, list(101), 400},
		{"too large", `["s","d"]`, "[" + big + "," + strings.Replace(big, `"big"`, `"big2"`, 1) + "]", 413},
		{"no key", ``, list(1), 400},
		{"a prefix of a key", `["s"]`, list(1), 400},
		{"unknown operation", `["s","d"]`, `[{"operationType":"Move"}]`, 400},
		{"no body", `["s","d"]`, `[{"operationType":"Create"}]`, 207},
		{"no id", `["s","d"]`, `[{"operationType":"Delete"}]`, 207},
		{"no objects", `["s","d"]`, `[1]`, 400},
		{"most", `["s","d"]`, list(100), 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			header := []string{"x-ms-cosmos-is-batch-request", "True", "x-ms-cosmos-batch-atomic", "True"}
			if c.key != "" {
				header = append(header, "x-ms-documentdb-partitionkey", c.key)
			}
			resp, text := send(t, s, "POST", docsPath, "docs", docsLink, c.body, header...)
			require.Equal(t, c.status, resp.StatusCode, text)
		})
	}
}

// A batch is admitted, and throttled, as a whole.
func TestBatchBudget(t *testing.T) {
	clock := newClock()
	s := open(t, emulator.Config{Now: clock.now})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	ctx, pk := context.Background(), key("s", "d")
	b := co.NewTransactionalBatch(pk)
	for i := range 100 {
		b.CreateItem(small(t, fmt.Sprint(i), 1), nil)
	}
	resp, err := co.ExecuteTransactionalBatch(ctx, b, nil)
	require.NoError(t, err)
	require.True(t, resp.Success)
	require.Greater(t, resp.RequestCharge, float32(600))
	_, err = co.ExecuteTransactionalBatch(ctx, b, nil)
	require.Equal(t, 429, code(err))
}

// A client takes a partition key without a version for one of version 1, and sends the operations of a bulk by ranges
// that the container does not have. They are done all the same, each in its place of the answer; of one with version 2
// those of another range are gone.
func TestBulkOfAnyRanges(t *testing.T) {
	for version, gone := range map[string]bool{"": false, `,"version":2`: true} {
		s := open(t, emulator.Config{Unlimited: true, PhysicalPartitions: 4})
		r := rest{t, s}
		r.do(201, "POST", "dbs", "dbs", "", `{"id":"d"}`)
		r.do(201, "POST", "dbs/d/colls", "colls", "dbs/d",
			`{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash"`+version+`}}`)
		var ops []string
		for i := range 40 {
			ops = append(ops, fmt.Sprintf(
				`{"operationType":"Create","partitionKey":"[\"p%d\"]","resourceBody":{"id":"i%[1]d","pk":"p%[1]d"}}`, i))
		}
		bulk := func(op []string) (statuses []int, ids []string) {
			resp, text := send(t, s, "POST", "dbs/d/colls/c/docs", "docs", "dbs/d/colls/c", "["+strings.Join(op, ",")+"]",
				"x-ms-cosmos-is-batch-request", "True", "x-ms-cosmos-batch-atomic", "False",
				"x-ms-cosmos-batch-continue-on-error", "True", "x-ms-documentdb-partitionkeyrangeid", "0")
			require.Less(t, resp.StatusCode, 300, text)
			var all []struct {
				StatusCode   int
				ResourceBody struct{ ID string }
			}
			require.NoError(t, json.Unmarshal([]byte(text), &all))
			for _, a := range all {
				statuses, ids = append(statuses, a.StatusCode), append(ids, a.ResourceBody.ID)
			}
			return statuses, ids
		}
		statuses, ids := bulk(ops)
		require.Equal(t, gone, slices.Contains(statuses, 410))
		require.Contains(t, statuses, 201)
		if gone {
			continue
		}
		for i, id := range ids {
			require.Equal(t, fmt.Sprintf("i%d", i), id)
		}
		statuses, _ = bulk(ops[10:20])
		require.Equal(t, slices.Repeat([]int{409}, 10), statuses)
	}
}
