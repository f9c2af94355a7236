package storetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/tenant"
)

// runDocuments checks an implementation of store.Documents; open returns an empty one.
func runDocuments(t *testing.T, open func(t *testing.T) store.Documents) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, ctx context.Context, docs store.Documents)
	}{
		{"create and list", documentsCreate},
		{"create is a compare-and-set", documentsCreateOnce},
		{"replace needs the ETag", documentsReplace},
		{"a list is in the order of ids", documentsOrder},
		{"kinds are apart", documentsKinds},
		{"racing creates have one winner", documentsRaceCreate},
		{"racing replaces lose nothing", documentsRaceReplace},
		{"a context that has ended", documentsContext},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, t.Context(), open(t)) })
	}
}

func controlDocument(id, body string) store.Document {
	return store.Document{Kind: tenant.Kind, ID: id, Body: json.RawMessage(body)}
}

func listed(t *testing.T, ctx context.Context, docs store.Documents, kind string) []store.Document {
	t.Helper()
	out, err := docs.List(ctx, kind)
	require.NoError(t, err)
	return out
}

func documentsCreate(t *testing.T, ctx context.Context, docs store.Documents) {
	require.Empty(t, listed(t, ctx, docs, tenant.Kind))
	const body = `{"a":1795183200123,"b":{"c":["x","é\"\\"]},"d":false,"e":null,"f":9007199254740991}`
	etag, err := docs.Create(ctx, controlDocument("acme", body))
	require.NoError(t, err)
	require.NotEmpty(t, etag)
	all := listed(t, ctx, docs, tenant.Kind)
	require.Len(t, all, 1)
	require.Equal(t, store.Document{Kind: tenant.Kind, ID: "acme", ETag: etag},
		store.Document{Kind: all[0].Kind, ID: all[0].ID, ETag: all[0].ETag})
	require.JSONEq(t, body, string(all[0].Body), "neither id nor kind nor the store's own properties")
}

func documentsCreateOnce(t *testing.T, ctx context.Context, docs store.Documents) {
	_, err := docs.Create(ctx, controlDocument("acme", `{"n":1}`))
	require.NoError(t, err)
	_, err = docs.Create(ctx, controlDocument("acme", `{"n":2}`))
	require.ErrorIs(t, err, store.ErrExists)
	require.JSONEq(t, `{"n":1}`, string(listed(t, ctx, docs, tenant.Kind)[0].Body))
}

func documentsReplace(t *testing.T, ctx context.Context, docs store.Documents) {
	first, err := docs.Create(ctx, controlDocument("acme", `{"n":1,"gone":true}`))
	require.NoError(t, err)
	d := controlDocument("acme", `{"n":2}`)
	d.ETag = first
	second, err := docs.Replace(ctx, d)
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	_, err = docs.Replace(ctx, d)
	require.ErrorIs(t, err, store.ErrChanged, "the ETag is an old one")
	all := listed(t, ctx, docs, tenant.Kind)
	require.JSONEq(t, `{"n":2}`, string(all[0].Body))
	require.Equal(t, second, all[0].ETag)
	read, found, err := docs.Read(ctx, tenant.Kind, "acme")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, all[0], read)
	d.ID = "globex"
	_, found, err = docs.Read(ctx, tenant.Kind, d.ID)
	require.NoError(t, err)
	require.False(t, found)
	_, err = docs.Replace(ctx, d)
	require.ErrorIs(t, err, store.ErrChanged, "there is no such document")
	require.Len(t, listed(t, ctx, docs, tenant.Kind), 1)
}

func documentsOrder(t *testing.T, ctx context.Context, docs store.Documents) {
	const n = 130 // more than a page
	var ids []string
	for i := range n {
		id := fmt.Sprintf("%04d", i*7919%n)
		ids = append(ids, id)
		_, err := docs.Create(ctx, controlDocument(id, `{}`))
		require.NoError(t, err)
	}
	slices.Sort(ids)
	var got []string
	for _, d := range listed(t, ctx, docs, tenant.Kind) {
		got = append(got, d.ID)
	}
	require.Equal(t, ids, got)
}

func documentsKinds(t *testing.T, ctx context.Context, docs store.Documents) {
	for i, kind := range storetest.Kinds {
		d := controlDocument("same", fmt.Sprintf(`{"n":%d}`, i))
		d.Kind = kind
		_, err := docs.Create(ctx, d)
		require.NoError(t, err)
	}
	for i, kind := range storetest.Kinds {
		all := listed(t, ctx, docs, kind)
		require.Len(t, all, 1)
		require.JSONEq(t, fmt.Sprintf(`{"n":%d}`, i), string(all[0].Body))
	}
}

func documentsRaceCreate(t *testing.T, ctx context.Context, docs store.Documents) {
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, err := docs.Create(ctx, controlDocument("acme", `{}`))
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, store.ErrExists) {
				t.Errorf("create: %v", err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, won.Load())
}

func documentsRaceReplace(t *testing.T, ctx context.Context, docs store.Documents) {
	_, err := docs.Create(ctx, controlDocument("acme", `{"n":0}`))
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for done := 0; done < 5; {
				all, err := docs.List(ctx, tenant.Kind)
				if err != nil {
					t.Errorf("list: %v", err)
					return
				}
				var body struct{ N int }
				if err := json.Unmarshal(all[0].Body, &body); err != nil {
					t.Errorf("body: %v", err)
					return
				}
				d := controlDocument("acme", fmt.Sprintf(`{"n":%d}`, body.N+1))
				d.ETag = all[0].ETag
				_, err = docs.Replace(ctx, d)
				switch {
				case err == nil:
					done++
				case !errors.Is(err, store.ErrChanged):
					t.Errorf("replace: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	require.JSONEq(t, `{"n":20}`, string(listed(t, ctx, docs, tenant.Kind)[0].Body))
}

func documentsContext(t *testing.T, ctx context.Context, docs store.Documents) {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err := docs.Create(ended, controlDocument("acme", `{}`))
	require.ErrorIs(t, err, context.Canceled)
	_, err = docs.List(ended, tenant.Kind)
	require.ErrorIs(t, err, context.Canceled)
	_, _, err = docs.Read(ended, tenant.Kind, "acme")
	require.ErrorIs(t, err, context.Canceled)
}
