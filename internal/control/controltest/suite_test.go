package controltest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"binnacle/internal/control"
	"binnacle/internal/control/controltest"

	"github.com/stretchr/testify/require"
)

// runDocuments checks an implementation of control.Documents; open returns an empty one.
func runDocuments(t *testing.T, open func(t *testing.T) control.Documents) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, ctx context.Context, docs control.Documents)
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

func document(id, body string) control.Document {
	return control.Document{Kind: control.KindTenant, ID: id, Body: json.RawMessage(body)}
}

func listed(t *testing.T, ctx context.Context, docs control.Documents, kind string) []control.Document {
	t.Helper()
	out, err := docs.List(ctx, kind)
	require.NoError(t, err)
	return out
}

func documentsCreate(t *testing.T, ctx context.Context, docs control.Documents) {
	require.Empty(t, listed(t, ctx, docs, control.KindTenant))
	const body = `{"a":1795183200123,"b":{"c":["x","é\"\\"]},"d":false,"e":null,"f":9007199254740991}`
	etag, err := docs.Create(ctx, document("acme", body))
	require.NoError(t, err)
	require.NotEmpty(t, etag)
	all := listed(t, ctx, docs, control.KindTenant)
	require.Len(t, all, 1)
	require.Equal(t, control.Document{Kind: control.KindTenant, ID: "acme", ETag: etag},
		control.Document{Kind: all[0].Kind, ID: all[0].ID, ETag: all[0].ETag})
	require.JSONEq(t, body, string(all[0].Body), "neither id nor kind nor the store's own properties")
}

func documentsCreateOnce(t *testing.T, ctx context.Context, docs control.Documents) {
	_, err := docs.Create(ctx, document("acme", `{"n":1}`))
	require.NoError(t, err)
	_, err = docs.Create(ctx, document("acme", `{"n":2}`))
	require.ErrorIs(t, err, control.ErrExists)
	require.JSONEq(t, `{"n":1}`, string(listed(t, ctx, docs, control.KindTenant)[0].Body))
}

func documentsReplace(t *testing.T, ctx context.Context, docs control.Documents) {
	first, err := docs.Create(ctx, document("acme", `{"n":1,"gone":true}`))
	require.NoError(t, err)
	d := document("acme", `{"n":2}`)
	d.ETag = first
	second, err := docs.Replace(ctx, d)
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	_, err = docs.Replace(ctx, d)
	require.ErrorIs(t, err, control.ErrChanged, "the ETag is an old one")
	all := listed(t, ctx, docs, control.KindTenant)
	require.JSONEq(t, `{"n":2}`, string(all[0].Body))
	require.Equal(t, second, all[0].ETag)
	read, found, err := docs.Read(ctx, control.KindTenant, "acme")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, all[0], read)
	d.ID = "globex"
	_, found, err = docs.Read(ctx, control.KindTenant, d.ID)
	require.NoError(t, err)
	require.False(t, found)
	_, err = docs.Replace(ctx, d)
	require.ErrorIs(t, err, control.ErrChanged, "there is no such document")
	require.Len(t, listed(t, ctx, docs, control.KindTenant), 1)
}

func documentsOrder(t *testing.T, ctx context.Context, docs control.Documents) {
	const n = 130 // more than a page
	var ids []string
	for i := range n {
		id := fmt.Sprintf("%04d", i*7919%n)
		ids = append(ids, id)
		_, err := docs.Create(ctx, document(id, `{}`))
		require.NoError(t, err)
	}
	slices.Sort(ids)
	var got []string
	for _, d := range listed(t, ctx, docs, control.KindTenant) {
		got = append(got, d.ID)
	}
	require.Equal(t, ids, got)
}

func documentsKinds(t *testing.T, ctx context.Context, docs control.Documents) {
	for i, kind := range controltest.Kinds {
		d := document("same", fmt.Sprintf(`{"n":%d}`, i))
		d.Kind = kind
		_, err := docs.Create(ctx, d)
		require.NoError(t, err)
	}
	for i, kind := range controltest.Kinds {
		all := listed(t, ctx, docs, kind)
		require.Len(t, all, 1)
		require.JSONEq(t, fmt.Sprintf(`{"n":%d}`, i), string(all[0].Body))
	}
}

func documentsRaceCreate(t *testing.T, ctx context.Context, docs control.Documents) {
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, err := docs.Create(ctx, document("acme", `{}`))
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, control.ErrExists) {
				t.Errorf("create: %v", err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, won.Load())
}

func documentsRaceReplace(t *testing.T, ctx context.Context, docs control.Documents) {
	_, err := docs.Create(ctx, document("acme", `{"n":0}`))
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for done := 0; done < 5; {
				all, err := docs.List(ctx, control.KindTenant)
				if err != nil {
					t.Errorf("list: %v", err)
					return
				}
				var body struct{ N int }
				if err := json.Unmarshal(all[0].Body, &body); err != nil {
					t.Errorf("body: %v", err)
					return
				}
				d := document("acme", fmt.Sprintf(`{"n":%d}`, body.N+1))
				d.ETag = all[0].ETag
				_, err = docs.Replace(ctx, d)
				switch {
				case err == nil:
					done++
				case !errors.Is(err, control.ErrChanged):
					t.Errorf("replace: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	require.JSONEq(t, `{"n":20}`, string(listed(t, ctx, docs, control.KindTenant)[0].Body))
}

func documentsContext(t *testing.T, ctx context.Context, docs control.Documents) {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err := docs.Create(ended, document("acme", `{}`))
	require.ErrorIs(t, err, context.Canceled)
	_, err = docs.List(ended, control.KindTenant)
	require.ErrorIs(t, err, context.Canceled)
	_, _, err = docs.Read(ended, control.KindTenant, "acme")
	require.ErrorIs(t, err, context.Canceled)
}
