package blogexample

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// maxOperations is the most that one transactional batch takes.
const maxOperations = 100

// loadThread stores a post with its comments and likes, which share a logical partition, in batches.
func (b *Blog) loadThread(ctx context.Context, t thread, comments []Comment, likes []Like) error {
	items := [][]byte{encode(b.version.post(t.Post))}
	for i := range max(len(comments), len(likes)) { // the order of arrival: neither kind after the other
		if i < len(likes) {
			items = append(items, encode(b.version.like(likes[i])))
		}
		if i < len(comments) {
			items = append(items, encode(b.version.comment(comments[i])))
		}
	}
	var cost Cost
	for len(items) > 0 {
		n := min(len(items), maxOperations)
		batch := b.posts.NewTransactionalBatch(azcosmos.NewPartitionKeyString(t.ID))
		for _, item := range items[:n] {
			batch.CreateItem(item, nil)
		}
		if err := transact(ctx, b.posts, batch, &cost); err != nil {
			return err
		}
		items = items[n:]
	}
	return nil
}

// load stores a whole data set, with the copies that the version keeps.
func (b *Blog) load(ctx context.Context, d *dataset) error {
	for _, u := range d.users {
		if _, err := b.PutUser(ctx, u); err != nil {
			return err
		}
	}
	byDate := slices.SortedFunc(slices.Values(d.posts), func(x, y thread) int {
		return strings.Compare(x.CreationDate, y.CreationDate)
	})
	for _, t := range byDate { // a user's posts are not made one after the other
		if err := b.loadThread(ctx, t, d.commentsOf(t), d.likesOf(t)); err != nil {
			return err
		}
	}
	if b.version < V3 {
		return nil
	}
	for i, t := range byDate {
		if err := b.copyPost(ctx, t.Post, len(byDate)-i <= FrontPage); err != nil {
			return err
		}
	}
	return nil
}

// copyPost stores the short copy of a post under its author, and in the feed if it is among the newest. The article
// does so by the change feed and a trigger.
func (b *Blog) copyPost(ctx context.Context, p Post, newest bool) error {
	p = b.version.post(p).short()
	if _, err := b.users.UpsertItem(ctx, key(p.UserID), encode(p), nil); err != nil {
		return fmt.Errorf("copy %s to its author: %w", p.ID, err)
	}
	if !newest {
		return nil
	}
	if _, err := b.feed.UpsertItem(ctx, key(typePost), encode(p), nil); err != nil {
		return fmt.Errorf("copy %s to the feed: %w", p.ID, err)
	}
	return nil
}
