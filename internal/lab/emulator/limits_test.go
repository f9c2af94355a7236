package emulator_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

// substatus is that of an error, "" without one.
func substatus(err error) string {
	var re *azcore.ResponseError
	if !errors.As(err, &re) {
		return ""
	}
	return re.RawResponse.Header.Get("x-ms-substatus")
}

func TestItemLimits(t *testing.T) {
	now := newClock()
	s := open(t, emulator.Config{Now: now.now, Unlimited: true})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	long := strings.Repeat("k", 2049)
	nested := func(depth int) string { return strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) }
	for _, c := range []struct {
		name, tenant, body string
		want               int
	}{
		{"2 MB", "s", item("s", `"x":"`+strings.Repeat("x", 2<<20-200)+`"`), 201},
		{"more than 2 MB", "s", item("s", `"x":"`+strings.Repeat("x", 2<<20)+`"`), 413},
		{"a request of more than 2 MB", "s", item("s", `"x":"`+strings.Repeat("x", 3<<20)+`"`), 413},
		{"key of 2,048 bytes", long[1:], item(long[1:], ""), 201},
		{"key of 2,049 bytes", long, item(long, ""), 400},
		{"id of 255 characters", "s", strings.Replace(item("s", ""), `"a"`, `"`+strings.Repeat("é", 255)+`"`, 1), 201},
		{"id of 256 characters", "s", strings.Replace(item("s", ""), `"a"`, `"`+strings.Repeat("i", 256)+`"`, 1), 400},
		{"empty id", "s", strings.Replace(item("s", ""), `"a"`, `""`, 1), 400},
		{"128 levels", "s", item("s", `"x":`+nested(128)), 201},
		{"129 levels", "s", item("s", `"x":`+nested(129)), 400},
		{"brackets in strings are no levels", "s", item("s", `"x":"\\\"`+strings.Repeat("[{", 200)+`"`), 201},
		{"many brackets side by side", "s", item("s", `"x":[`+strings.Repeat(`{"a":[]},`, 200)+`1]`), 201},
		{"ttl 0", "s", item("s", `"ttl":0`), 400},
		{"ttl null", "s", item("s", `"ttl":null`), 400},
		{"ttl -1", "s", item("s", `"ttl":-1`), 201},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, err := co.UpsertItem(context.Background(), key(c.tenant, "d"), []byte(c.body), nil)
			if c.want != 201 {
				require.Equal(t, c.want, code(err))
				return
			}
			require.NoError(t, err)
			require.Less(t, resp.RawResponse.StatusCode, 300)
		})
	}
}

// item is one with the id a and a further property.
func item(tenant, property string) string {
	if property != "" {
		property = "," + property
	}
	return fmt.Sprintf(`{"id":"a","tenantShard":"%s","device":"d"%s}`, tenant, property)
}

func TestPagesEndAtTheResponseLimit(t *testing.T) {
	s := open(t, emulator.Config{Unlimited: true, Limits: emulator.Limits{ResponseBytes: 5000}})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	for i := range 10 {
		store(t, co, chunk{ID: strconv.Itoa(i), TenantShard: "s", Device: "d", Data: strings.Repeat("x", 1800)})
	}
	rows, pages, _ := query(t, co, key("s", "d"), "SELECT * FROM c", 100)
	require.Len(t, rows, 10)
	require.Equal(t, 5, pages, "two of 2 KB fit in a page, a third does not")
}

// store upserts an item.
func store(t testing.TB, co *azcosmos.ContainerClient, c chunk) {
	t.Helper()
	_, err := co.UpsertItem(context.Background(), key(c.TenantShard, c.Device), encode(t, c), nil)
	require.NoError(t, err)
}

func TestALogicalPartitionFillsUp(t *testing.T) {
	now := newClock()
	dir := t.TempDir()
	cfg := emulator.Config{DataDir: dir, Now: now.now, Unlimited: true,
		Limits: emulator.Limits{LogicalPartitionBytes: 10_000}}
	s, err := emulator.Open(cfg)
	require.NoError(t, err)
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	ctx := context.Background()
	body := func(id string, size, ttl int) []byte {
		return encode(t, chunk{ID: id, TenantShard: "s", Device: "d", TTL: ttl, Data: strings.Repeat("x", size)})
	}
	upsert := func(id string, size int) error {
		_, err := co.UpsertItem(ctx, key("s", "d"), body(id, size, 0), nil)
		return err
	}
	full := func(err error) {
		t.Helper()
		require.Equal(t, 403, code(err), "%v", err)
		require.Equal(t, "1014", substatus(err))
	}
	require.NoError(t, upsert("a", 4000))
	require.NoError(t, upsert("b", 4000))
	full(upsert("c", 4000))
	_, err = co.ReadItem(ctx, key("s", "d"), "c", nil)
	require.Equal(t, 404, code(err), "nothing was written")
	store(t, co, chunk{ID: "c", TenantShard: "s", Device: "other", Data: strings.Repeat("x", 4000)})
	full(upsert("b", 7000))
	require.NoError(t, upsert("b", 3000), "what becomes smaller is always taken")

	batch := co.NewTransactionalBatch(key("s", "d"))
	batch.CreateItem(body("d", 1500, 0), nil)
	batch.CreateItem(body("e", 1500, 0), nil)
	resp, err := co.ExecuteTransactionalBatch(ctx, batch, nil)
	require.NoError(t, err)
	require.False(t, resp.Success, "each fits, both do not")
	require.EqualValues(t, 403, resp.OperationResults[1].StatusCode)
	require.NoError(t, upsert("d", 1500), "the failed batch has left nothing")

	// The size outlives a restart, and shrinks by deletes and by time to live.
	require.NoError(t, s.Close())
	s = open(t, cfg)
	co = container(t, client(t, s), "chunks")
	full(upsert("e", 1500))
	_, err = co.DeleteItem(ctx, key("s", "d"), "d", nil)
	require.NoError(t, err)
	_, err = co.CreateItem(ctx, key("s", "d"), body("e", 1500, 10), nil)
	require.NoError(t, err)
	full(upsert("f", 1500))
	now.advance(11 * time.Second)
	removed, err := s.Sweep(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, removed)
	require.NoError(t, upsert("f", 1500))
}

func container(t testing.TB, c *azcosmos.Client, id string) *azcosmos.ContainerClient {
	t.Helper()
	co, err := c.NewContainer("db", id)
	require.NoError(t, err)
	return co
}

func TestAccountAndDatabaseTakeSoMany(t *testing.T) {
	s := open(t, emulator.Config{Unlimited: true, Limits: emulator.Limits{Containers: 6, SharedContainers: 2}})
	c := client(t, s)
	ctx := context.Background()
	shared := azcosmos.NewManualThroughputProperties(400)
	_, err := c.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "shared"},
		&azcosmos.CreateDatabaseOptions{ThroughputProperties: &shared})
	require.NoError(t, err)
	db, err := c.NewDatabase("shared")
	require.NoError(t, err)
	add := func(id string, t *azcosmos.ThroughputProperties) error {
		_, err := db.CreateContainer(ctx, hierarchical(id), &azcosmos.CreateContainerOptions{ThroughputProperties: t})
		return err
	}
	require.NoError(t, add("a", nil))
	require.NoError(t, add("b", nil))
	err = add("c", nil)
	require.Equal(t, 403, code(err))
	require.Equal(t, "1019", substatus(err))
	require.NoError(t, add("c", &shared), "one with throughput of its own")
	_, err = c.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "x"}, nil)
	require.NoError(t, err)
	require.NoError(t, add("d", &shared))
	err = add("e", &shared)
	require.Equal(t, 403, code(err), "two databases and four containers")
	_, err = c.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "y"}, nil)
	require.Equal(t, 403, code(err))
	require.Equal(t, 409, code(add("d", &shared)), "one that exists is a conflict, not an overflow")
	co, err := db.NewContainer("d")
	require.NoError(t, err)
	_, err = co.Delete(ctx, nil)
	require.NoError(t, err)
	require.NoError(t, add("e", &shared))
}

func TestThroughputChangesHaveAPace(t *testing.T) {
	now := newClock()
	s := open(t, emulator.Config{Now: now.now})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	ctx := context.Background()
	set := func(i int) error {
		now.advance(time.Second)
		_, err := co.ReplaceThroughput(ctx, azcosmos.NewManualThroughputProperties(int32(400+100*(i%2))), nil)
		return err
	}
	for i := range 25 {
		require.NoError(t, set(i))
	}
	_, wait := refusal(t, set(25))
	require.Equal(t, 275*time.Second, wait, "until the first leaves the five minutes")
	now.advance(wait - 2*time.Second)
	require.Equal(t, 429, code(set(25)))
	require.NoError(t, set(25))
	now.advance(-time.Second)
	require.Equal(t, 429, code(set(25)), "the second leaves a second later")
}

func TestAutoscaleIsNotExchangedForManual(t *testing.T) {
	s := open(t, emulator.Config{})
	co := createAutoscale(t, client(t, s), hierarchical("chunks"), 4000)
	_, err := co.ReplaceThroughput(context.Background(), azcosmos.NewManualThroughputProperties(4000), nil)
	require.Equal(t, 403, code(err))
	require.Equal(t, "1015", substatus(err))
}
