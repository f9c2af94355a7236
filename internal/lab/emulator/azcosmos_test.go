package emulator_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator"
)

// open returns a Server in memory unless cfg says otherwise; it is closed with the test.
func open(t testing.TB, cfg emulator.Config) *emulator.Server {
	t.Helper()
	cfg.InMemory = cfg.DataDir == ""
	s, err := emulator.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// client is the real SDK over the in-memory transport, without retries of its own.
func client(t testing.TB, s *emulator.Server) *azcosmos.Client {
	t.Helper()
	cred, err := azcosmos.NewKeyCredential(emulator.Key)
	require.NoError(t, err)
	c, err := azcosmos.NewClientWithKey(s.Endpoint(), cred, &azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: s.Transport(), Retry: policy.RetryOptions{MaxRetries: -1},
	}})
	require.NoError(t, err)
	return c
}

// keyPaths is a container like those of a telemetry store: two levels, few indexed paths.
func hierarchical(id string) azcosmos.ContainerProperties {
	ttl := int32(-1)
	return azcosmos.ContainerProperties{
		ID: id,
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{
			Kind: azcosmos.PartitionKeyKindMultiHash, Version: 2, Paths: []string{"/tenantShard", "/device"},
		},
		DefaultTimeToLive: &ttl,
		IndexingPolicy: &azcosmos.IndexingPolicy{
			Automatic: true, IndexingMode: azcosmos.IndexingModeConsistent,
			IncludedPaths: []azcosmos.IncludedPath{{Path: "/tenantShard/?"}, {Path: "/device/?"}, {Path: "/from/?"},
				{Path: "/to/?"}},
			ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/*"}},
		},
	}
}

// create makes a database "db" with a container.
func create(t testing.TB, c *azcosmos.Client, props azcosmos.ContainerProperties, rus int32) *azcosmos.ContainerClient {
	t.Helper()
	ctx := context.Background()
	_, err := c.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "db"}, nil)
	if code(err) != 409 {
		require.NoError(t, err)
	}
	db, err := c.NewDatabase("db")
	require.NoError(t, err)
	throughput := azcosmos.NewManualThroughputProperties(rus)
	_, err = db.CreateContainer(ctx, props, &azcosmos.CreateContainerOptions{ThroughputProperties: &throughput})
	require.NoError(t, err)
	co, err := db.NewContainer(props.ID)
	require.NoError(t, err)
	return co
}

// code is the HTTP status of an error, 0 without one.
func code(err error) int {
	var re *azcore.ResponseError
	if errors.As(err, &re) {
		return re.StatusCode
	}
	return 0
}

func key(parts ...string) azcosmos.PartitionKey {
	pk := azcosmos.NewPartitionKey()
	for _, p := range parts {
		pk = pk.AppendString(p)
	}
	return pk
}

type chunk struct {
	ID          string `json:"id"`
	TenantShard string `json:"tenantShard"`
	Device      string `json:"device"`
	From        int64  `json:"from"`
	To          int64  `json:"to"`
	Data        string `json:"data,omitempty"`
	TTL         int    `json:"ttl,omitempty"`
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return b
}

// query drains a query and gives its rows, the number of pages and the charge.
func query(
	t testing.TB, co *azcosmos.ContainerClient, pk azcosmos.PartitionKey, text string, page int32,
	params ...azcosmos.QueryParameter,
) (rows []string, pages int, charge float32) {
	t.Helper()
	pager := co.NewQueryItemsPager(text, pk, &azcosmos.QueryOptions{QueryParameters: params, PageSizeHint: page})
	for pager.More() {
		resp, err := pager.NextPage(context.Background())
		require.NoError(t, err)
		for _, item := range resp.Items {
			rows = append(rows, string(item))
		}
		pages++
		charge += resp.RequestCharge
	}
	return rows, pages, charge
}

func TestItemsThroughAzcosmos(t *testing.T) {
	s := open(t, emulator.Config{})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	ctx := context.Background()
	pk := key("acme~x", "m1")
	item := chunk{ID: "a", TenantShard: "acme~x", Device: "m1", From: 1, To: 2, Data: "é\n"}

	made, err := co.CreateItem(ctx, pk, encode(t, item), nil)
	require.NoError(t, err)
	require.Equal(t, 201, made.RawResponse.StatusCode)
	require.Empty(t, made.Value)
	require.NotEmpty(t, made.ETag)
	require.NotEmpty(t, *made.SessionToken)
	require.NotEmpty(t, made.ActivityID)
	require.InDelta(t, 7.05, made.RequestCharge, 1e-4)

	_, err = co.CreateItem(ctx, pk, encode(t, item), nil)
	require.Equal(t, 409, code(err))

	read, err := co.ReadItem(ctx, pk, "a", nil)
	require.NoError(t, err)
	require.Equal(t, made.ETag, read.ETag)
	require.InDelta(t, 1, read.RequestCharge, 1e-4)
	var got map[string]any
	require.NoError(t, json.Unmarshal(read.Value, &got))
	require.Equal(t, "é\n", got["data"])
	require.Equal(t, string(made.ETag), got["_etag"])
	for _, name := range []string{"_rid", "_self", "_ts", "_attachments"} {
		require.Contains(t, got, name)
	}

	_, err = co.ReadItem(ctx, key("acme~x", "m2"), "a", nil)
	require.Equal(t, 404, code(err))

	stale := made.ETag
	item.To = 9
	replaced, err := co.ReplaceItem(ctx, pk, "a", encode(t, item),
		&azcosmos.ItemOptions{IfMatchEtag: &stale, EnableContentResponseOnWrite: true})
	require.NoError(t, err)
	require.Contains(t, string(replaced.Value), `"to":9`)
	require.InDelta(t, 10.67, replaced.RequestCharge, 1e-4, "a value goes, a value comes, and _ts costs nothing")
	_, err = co.ReplaceItem(ctx, pk, "a", encode(t, item), &azcosmos.ItemOptions{IfMatchEtag: &stale})
	require.Equal(t, 412, code(err))
	_, err = co.DeleteItem(ctx, pk, "a", &azcosmos.ItemOptions{IfMatchEtag: &stale})
	require.Equal(t, 412, code(err))

	up, err := co.UpsertItem(ctx, pk, read.Value, nil)
	require.NoError(t, err)
	require.Equal(t, 200, up.RawResponse.StatusCode)
	again, err := co.ReadItem(ctx, pk, "a", nil)
	require.NoError(t, err)
	require.NotEqual(t, string(read.Value), string(again.Value), "the client's system properties are not believed")
	require.Contains(t, string(again.Value), `"to":2`)

	deleted, err := co.DeleteItem(ctx, pk, "a", nil)
	require.NoError(t, err)
	require.Equal(t, 204, deleted.RawResponse.StatusCode)
	for _, err := range []error{
		second(co.ReadItem(ctx, pk, "a", nil)), second(co.DeleteItem(ctx, pk, "a", nil)),
		second(co.ReplaceItem(ctx, pk, "a", encode(t, item), nil)),
	} {
		require.Equal(t, 404, code(err))
	}
	up, err = co.UpsertItem(ctx, pk, encode(t, item), nil)
	require.NoError(t, err)
	require.Equal(t, 201, up.RawResponse.StatusCode)
}

func second[T any](_ T, err error) error { return err }

func TestQueriesOfAStoreOfChunks(t *testing.T) {
	s := open(t, emulator.Config{PhysicalPartitions: 4, Unlimited: true})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	ctx := context.Background()
	for _, shard := range []string{"acme~1", "acme~2", "acme~3"} {
		for _, device := range []string{"m1", "m2"} {
			for i := range 10 {
				c := chunk{ID: string(rune('a' + i)), TenantShard: shard, Device: device, From: int64(100 - i*10),
					To: int64(109 - i*10)}
				_, err := co.CreateItem(ctx, key(shard, device), encode(t, c), nil)
				require.NoError(t, err)
			}
		}
	}
	param := func(name string, v any) azcosmos.QueryParameter { return azcosmos.QueryParameter{Name: name, Value: v} }
	const overlapping = `SELECT VALUE c["from"] FROM c WHERE c.tenantShard=@s AND c.device=@d AND c["from"] < @to AND c["to"] >= @from ORDER BY c["from"] ASC`
	keys := []azcosmos.QueryParameter{param("@s", "acme~1"), param("@d", "m1"), param("@from", 25), param("@to", 60)}

	rows, pages, charge := query(t, co, key("acme~1", "m1"), overlapping, 2, keys...)
	require.Equal(t, []string{"20", "30", "40", "50"}, rows)
	require.Equal(t, 2, pages)
	require.InDelta(t, 2*ru.Shown(ru.Stepped.Query(ru.QueryWork{Seeks: 6, Columns: 1, Docs: 2, Scattered: 1})), charge,
		1e-4)

	rows, _, charge = query(t, co, azcosmos.NewPartitionKey(),
		`SELECT * FROM c WHERE c.tenantShard=@s AND c["from"] < @to AND c["to"] >= @from`, 0, keys[0], keys[2], keys[3])
	require.Len(t, rows, 8)
	scattered := ru.QueryWork{Seeks: 3, Docs: 8, Scattered: 0}
	require.InDelta(t, ru.Shown(ru.Stepped.Query(scattered)), charge, 1e-4, "one physical partition is visited")

	rows, _, _ = query(t, co, key("acme~1",
		"m1"), `SELECT TOP 1 c.id, c["from"] FROM c WHERE c.tenantShard=@s AND c.device=@d AND c.id >= @lo AND c.id < @hi ORDER BY c.id DESC`, 0,
		keys[0], keys[1], param("@lo", "b"), param("@hi", "e"))
	require.Equal(t, []string{`{"id":"d","from":70}`}, rows)

	rows, pages, _ = query(t, co, azcosmos.NewPartitionKey(), `SELECT * FROM c`, 7)
	require.Len(t, rows, 60)
	require.GreaterOrEqual(t, pages, 9)

	rows, _, _ = query(t, co, key("acme~1", "m1"), `SELECT VALUE COUNT(1) FROM c`, 0)
	require.Equal(t, []string{"10"}, rows)

	pager := co.NewQueryItemsPager(`SELECT * FROM c ORDER BY c["from"]`, azcosmos.NewPartitionKey(), nil)
	_, err := pager.NextPage(ctx)
	require.Equal(t, 400, code(err))
	require.ErrorContains(t, err, "cross partition query can not be directly served by the gateway")
}
