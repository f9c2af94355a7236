package emulator_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

// withUnique is a container whose items have a unique mail address, and a unique pair of a name.
func withUnique(id string) azcosmos.ContainerProperties {
	props := hierarchical(id)
	props.UniqueKeyPolicy = &azcosmos.UniqueKeyPolicy{UniqueKeys: []azcosmos.UniqueKey{
		{Paths: []string{"/mail"}}, {Paths: []string{"/name/first", "/name/last"}},
	}}
	return props
}

// person is an item of the logical partition of a device; mail is JSON, absent when empty.
func person(id, device, mail, first string, ttl int) []byte {
	b := fmt.Sprintf(`{"id":"%s","tenantShard":"s","device":"%s","name":{"first":"%s","last":"x"}`, id, device, first)
	if mail != "" {
		b += `,"mail":` + mail
	}
	if ttl > 0 {
		b += fmt.Sprintf(`,"ttl":%d`, ttl)
	}
	return []byte(b + "}")
}

func TestUniqueKeys(t *testing.T) {
	now := newClock()
	s := open(t, emulator.Config{Now: now.now, Unlimited: true, PhysicalPartitions: 3})
	co := create(t, client(t, s), withUnique("people"), 400)
	ctx := context.Background()
	steps := []struct {
		op, id, device, mail, first string
		ttl                         int
		want                        int
	}{
		{"create", "1", "d", `"a@x"`, "A", 0, 0},
		{"create", "2", "d", `"a@x"`, "B", 0, 409},
		{"create", "2", "d", `"b@x"`, "A", 0, 409},
		{"create", "2", "other", `"a@x"`, "A", 0, 0},
		{"create", "2", "d", `"b@x"`, "B", 0, 0},
		{"upsert", "2", "d", `"a@x"`, "B", 0, 409},
		{"replace", "2", "d", `"a@x"`, "B", 0, 409},
		{"replace", "2", "d", `"c@x"`, "B", 0, 0},
		{"upsert", "3", "d", `"b@x"`, "C", 0, 0},
		{"replace", "3", "d", `"b@x"`, "C", 0, 0},
		{"create", "4", "d", ``, "D", 0, 0},
		{"create", "5", "d", `null`, "E", 0, 409},
		{"create", "5", "d", `"null"`, "E", 0, 0},
		{"create", "6", "d", `1`, "F", 0, 0},
		{"create", "7", "d", `1.0`, "G", 0, 409},
		{"create", "7", "d", `"1"`, "G", 0, 0},
		{"create", "8", "d", `[1]`, "H", 0, 0},
		{"delete", "1", "d", "", "", 0, 0},
		{"create", "9", "d", `"a@x"`, "A", 5, 0},
		{"create", "10", "d", `"a@x"`, "I", 0, 409},
		{"wait", "", "", "", "", 5, 0},
		{"create", "10", "d", `"a@x"`, "I", 0, 0},
		{"sweep", "", "", "", "", 0, 0},
		{"create", "11", "d", `"a@x"`, "J", 0, 409},
		{"create", "11", "d", `"j@x"`, "A", 0, 0},
	}
	for i, x := range steps {
		pk, body := key("s", x.device), person(x.id, x.device, x.mail, x.first, x.ttl)
		var err error
		switch x.op {
		case "create":
			_, err = co.CreateItem(ctx, pk, body, nil)
		case "upsert":
			_, err = co.UpsertItem(ctx, pk, body, nil)
		case "replace":
			_, err = co.ReplaceItem(ctx, pk, x.id, body, nil)
		case "delete":
			_, err = co.DeleteItem(ctx, pk, x.id, nil)
		case "wait":
			now.advance(time.Duration(x.ttl) * time.Second)
		case "sweep":
			_, err = s.Sweep(ctx)
		}
		if x.want == 0 {
			require.NoError(t, err, "step %d: %v", i, x)
		}
		require.Equal(t, x.want, code(err), "step %d: %v", i, x)
	}

	batch := co.NewTransactionalBatch(key("s", "batch"))
	batch.CreateItem(person("1", "batch", `"a@x"`, "A", 0), nil)
	batch.CreateItem(person("2", "batch", `"a@x"`, "B", 0), nil)
	resp, err := co.ExecuteTransactionalBatch(ctx, batch, nil)
	require.NoError(t, err)
	require.False(t, resp.Success)
	require.EqualValues(t, 409, resp.OperationResults[1].StatusCode)
	batch = co.NewTransactionalBatch(key("s", "batch"))
	batch.CreateItem(person("1", "batch", `"a@x"`, "A", 0), nil)
	batch.DeleteItem("1", nil)
	batch.CreateItem(person("2", "batch", `"a@x"`, "A", 0), nil)
	resp, err = co.ExecuteTransactionalBatch(ctx, batch, nil)
	require.NoError(t, err)
	require.True(t, resp.Success, "operations see those before them")
	_, err = co.CreateItem(ctx, key("s", "batch"), person("3", "batch", `"a@x"`, "C", 0), nil)
	require.Equal(t, 409, code(err))

	patch := azcosmos.PatchOperations{}
	patch.AppendSet("/mail", "b@x")
	_, err = co.PatchItem(ctx, key("s", "d"), "10", patch, nil)
	require.Equal(t, 409, code(err))
}

func TestUniqueKeyPolicies(t *testing.T) {
	s := open(t, emulator.Config{})
	c := client(t, s)
	co := create(t, c, withUnique("people"), 400)
	ctx := context.Background()
	read, err := co.Read(ctx, nil)
	require.NoError(t, err)
	require.Len(t, read.ContainerProperties.UniqueKeyPolicy.UniqueKeys, 2)
	_, err = co.Replace(ctx, withUnique("people"), nil)
	require.NoError(t, err)
	_, err = co.Replace(ctx, hierarchical("people"), nil)
	require.Equal(t, 403, code(err), "the policy stays")

	db, err := c.NewDatabase("db")
	require.NoError(t, err)
	for _, paths := range [][]string{{}, {"mail"}, {"/list/[]"},
		{"/a", "/b", "/c", "/d", "/e", "/f", "/g", "/h", "/i", "/j", "/k", "/l", "/m", "/n", "/o", "/p", "/q"}} {
		props := hierarchical("bad")
		props.UniqueKeyPolicy = &azcosmos.UniqueKeyPolicy{UniqueKeys: []azcosmos.UniqueKey{{Paths: paths}}}
		_, err := db.CreateContainer(ctx, props, nil)
		require.Equal(t, 400, code(err), "%v", paths)
	}
}

// A map of who has which address says what every write must be answered.
func TestUniqueKeysAgainstAMap(t *testing.T) {
	const seed = 7
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, seed))
	now := newClock()
	s := open(t, emulator.Config{Now: now.now, Unlimited: true})
	props := hierarchical("people")
	props.UniqueKeyPolicy = &azcosmos.UniqueKeyPolicy{UniqueKeys: []azcosmos.UniqueKey{{Paths: []string{"/mail"}}}}
	co := create(t, client(t, s), props, 400)
	ctx := context.Background()
	type entry struct {
		mail    int
		expires time.Time // zero: never
	}
	items := map[string]entry{}
	for i := range 3000 {
		id, mail, ttl := fmt.Sprint("i", r.IntN(12)), r.IntN(12), r.IntN(3)*r.IntN(4)
		now.advance(time.Duration(r.IntN(3)/2) * time.Second)
		for k, v := range items {
			if !v.expires.IsZero() && !now.at.Before(v.expires) {
				delete(items, k)
			}
		}
		if r.IntN(20) == 0 {
			_, err := s.Sweep(ctx)
			require.NoError(t, err)
		}
		if r.IntN(4) == 0 {
			_, err := co.DeleteItem(ctx, key("s", "d"), id, nil)
			if _, ok := items[id]; ok {
				require.NoError(t, err)
			} else {
				require.Equal(t, 404, code(err))
			}
			delete(items, id)
			continue
		}
		want := 0
		for other, v := range items {
			if other != id && v.mail == mail {
				want = 409
			}
		}
		_, err := co.UpsertItem(ctx, key("s", "d"), person(id, "d", fmt.Sprintf(`"%d@x"`, mail), "x", ttl), nil)
		require.Equal(t, want, code(err), "write %d: %v", i, err)
		if want == 0 {
			e := entry{mail: mail}
			if ttl > 0 {
				e.expires = now.at.Truncate(time.Second).Add(time.Duration(ttl) * time.Second)
			}
			items[id] = e
		}
	}
}
