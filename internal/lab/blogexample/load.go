package blogexample

import (
	"context"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// loadUsers stores the users of a data set from the given one on.
func (b *Blog) loadUsers(ctx context.Context, users []User) error {
	for _, u := range users {
		if _, err := b.PutUser(ctx, u); err != nil {
			return err
		}
	}
	return nil
}

// maxOperations is the most that one transactional batch takes.
const maxOperations = 100

// loadThread stores a post with its comments and likes, which share a logical partition, in batches.
func (b *Blog) loadThread(ctx context.Context, t thread, comments []Comment, likes []Like) error {
	items := [][]byte{encode(b.version.post(t.Post))}
	for i := range max(len(comments), len(likes)) { // as they come: neither kind after the other
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
func (b *Blog) load(ctx context.Context, d *dataset, s *Spreader) error {
	if err := b.loadUsers(ctx, d.users); err != nil {
		return err
	}
	if _, err := s.CatchUp(ctx); err != nil { // no post has a name yet that could be old
		return err
	}
	byDate := slices.SortedFunc(slices.Values(d.posts), func(x, y thread) int {
		return strings.Compare(x.CreationDate, y.CreationDate)
	})
	for _, t := range byDate { // a user's posts are not made one after the other
		if err := b.loadThread(ctx, t, d.commentsOf(t), d.likesOf(t)); err != nil {
			return err
		}
	}
	_, err := s.CatchUp(ctx)
	return err
}
