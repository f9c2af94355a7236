package blogexample

import (
	"context"
	"fmt"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// frontPage keeps the newest posts in the feed container, all under one key. It never holds more than
// FrontPage of them: a post comes in by the same batch by which the oldest goes out. The article trims
// with a trigger instead. There is one writer, so what it remembers is what is stored.
type frontPage struct {
	feed   *azcosmos.ContainerClient
	loaded bool
	posts  []Post // newest first; only id and date are used
}

// offer puts a post where it belongs on the page, if anywhere.
func (f *frontPage) offer(ctx context.Context, p Post, cost *Cost) (shown bool, err error) {
	if err := f.load(ctx, cost); err != nil {
		return false, err
	}
	known := slices.ContainsFunc(f.posts, func(q Post) bool { return q.ID == p.ID })
	switch {
	case known || len(f.posts) < FrontPage:
		r, err := f.feed.UpsertItem(ctx, key(typePost), encode(p), nil)
		if err != nil {
			return false, f.failed(p, err)
		}
		cost.count(r.Response)
	default:
		oldest := f.posts[len(f.posts)-1]
		if newer(p, oldest) > 0 {
			return false, nil
		}
		batch := f.feed.NewTransactionalBatch(key(typePost))
		batch.DeleteItem(oldest.ID, nil)
		batch.CreateItem(encode(p), nil)
		if err := transact(ctx, f.feed, batch, cost); err != nil {
			return false, f.failed(p, err)
		}
		f.posts = f.posts[:len(f.posts)-1]
	}
	if !known {
		at, _ := slices.BinarySearchFunc(f.posts, p, newer)
		f.posts = slices.Insert(f.posts, at, p)
	}
	return true, nil
}

// load learns what the page holds, once, and again after a failure that leaves it unknown.
func (f *frontPage) load(ctx context.Context, cost *Cost) (err error) {
	if f.loaded {
		return nil
	}
	q := query{f.feed, "SELECT c.id, c.creationDate FROM c WHERE c.type = 'post'", nil, key(typePost)}
	if f.posts, err = ask[Post](ctx, q, cost); err != nil {
		return fmt.Errorf("the front page: %w", err)
	}
	slices.SortFunc(f.posts, newer)
	f.loaded = true
	return nil
}

func (f *frontPage) failed(p Post, err error) error {
	f.loaded = false
	return fmt.Errorf("put %s on the front page: %w", p.ID, err)
}
