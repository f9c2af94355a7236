package storetest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
)

// runFeed checks an implementation of store.Feed; open returns an empty one and the documents that it follows.
func runFeed(t *testing.T, open func(t *testing.T) (store.Documents, store.Feed)) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, ctx context.Context, docs store.Documents, feed store.Feed)
	}{
		{"what is there already", feedBeginning},
		{"what is created and replaced", feedChanges},
		{"all kinds, more than a page", feedMany},
		{"a context that has ended", feedContext},
	} {
		t.Run(c.name, func(t *testing.T) {
			docs, feed := open(t)
			c.run(t, t.Context(), docs, feed)
		})
	}
}

// changesSince returns the bodies of what has changed, by kind and id, and the next mark.
func changesSince(t *testing.T, ctx context.Context, feed store.Feed, mark string) (map[string]store.Document,
	string) {
	t.Helper()
	changed, next, err := feed.Changes(ctx, mark, time.Now().Add(-time.Hour))
	require.NoError(t, err)
	require.NotEmpty(t, next)
	out := make(map[string]store.Document, len(changed))
	for _, d := range changed {
		out[d.Kind+"/"+d.ID] = d
	}
	return out, next
}

func feedBeginning(t *testing.T, ctx context.Context, docs store.Documents, feed store.Feed) {
	none, mark := changesSince(t, ctx, feed, "")
	require.Empty(t, none)
	etag, err := docs.Create(ctx, controlDocument("acme", `{"a":1}`))
	require.NoError(t, err)
	all, _ := changesSince(t, ctx, feed, "")
	require.Equal(t, etag, all["tenant/acme"].ETag, "as it is read and replaced by")
	require.JSONEq(t, `{"a":1}`, string(all["tenant/acme"].Body))
	all, _ = changesSince(t, ctx, feed, mark)
	require.Contains(t, all, "tenant/acme")
}

func feedChanges(t *testing.T, ctx context.Context, docs store.Documents, feed store.Feed) {
	doc := controlDocument("acme", `{"a":1}`)
	var err error
	doc.ETag, err = docs.Create(ctx, doc)
	require.NoError(t, err)
	_, mark := changesSince(t, ctx, feed, "")
	none, mark := changesSince(t, ctx, feed, mark)
	require.Empty(t, none, "nothing has changed")
	for i := range 3 {
		doc.Body = json.RawMessage(fmt.Sprintf(`{"a":%d}`, i+2))
		doc.ETag, err = docs.Replace(ctx, doc)
		require.NoError(t, err)
	}
	changed, next := changesSince(t, ctx, feed, mark)
	require.JSONEq(t, `{"a":4}`, string(changed["tenant/acme"].Body), "as it is now")
	again, _ := changesSince(t, ctx, feed, mark)
	require.Equal(t, changed, again, "a mark may be used again")
	none, _ = changesSince(t, ctx, feed, next)
	require.Empty(t, none)
}

func feedMany(t *testing.T, ctx context.Context, docs store.Documents, feed store.Feed) {
	_, mark := changesSince(t, ctx, feed, "")
	const each = 150
	for _, kind := range storetest.Kinds {
		for i := range each {
			_, err := docs.Create(ctx, store.Document{Kind: kind, ID: fmt.Sprintf("d%03d", i), Body: json.RawMessage(`{}`)})
			require.NoError(t, err)
		}
	}
	changed, _ := changesSince(t, ctx, feed, mark)
	require.Len(t, changed, each*len(storetest.Kinds))
}

func feedContext(t *testing.T, ctx context.Context, _ store.Documents, feed store.Feed) {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, _, err := feed.Changes(ended, "", time.Now())
	require.ErrorIs(t, err, context.Canceled)
}
