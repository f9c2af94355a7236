package blogexample

import (
	"context"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// PutUser creates a user (C1).
func (b *Blog) PutUser(ctx context.Context, u User) (cost Cost, err error) {
	r, err := b.users.UpsertItem(ctx, key(u.ID), encode(b.version.user(u)), nil)
	if err != nil {
		return cost, fmt.Errorf("put user %s: %w", u.ID, err)
	}
	cost.count(r.Response)
	return cost, nil
}

// CreatePost creates a post (C2), without comments and likes.
func (b *Blog) CreatePost(ctx context.Context, p Post) (cost Cost, err error) {
	p.CommentCount, p.LikeCount = nil, nil
	r, err := b.posts.CreateItem(ctx, key(p.ID), encode(b.version.post(p)), nil)
	if err != nil {
		return cost, fmt.Errorf("create post %s: %w", p.ID, err)
	}
	cost.count(r.Response)
	return cost, nil
}

// CreateComment creates a comment (C3). From V2 on the post's count goes up with it, or neither happens.
func (b *Blog) CreateComment(ctx context.Context, c Comment) (Cost, error) {
	return b.respond(ctx, c.PostID, c.ID, encode(b.version.comment(c)), "/commentCount")
}

// CreateLike likes a post (C4). From V2 on the post's count goes up with it, or neither happens.
func (b *Blog) CreateLike(ctx context.Context, l Like) (Cost, error) {
	return b.respond(ctx, l.PostID, l.ID, encode(b.version.like(l)), "/likeCount")
}

func (b *Blog) respond(ctx context.Context, post, id string, item []byte, count string) (cost Cost, err error) {
	if b.version < V2 {
		r, err := b.posts.CreateItem(ctx, key(post), item, nil)
		if err != nil {
			return cost, fmt.Errorf("create %s: %w", id, err)
		}
		cost.count(r.Response)
		return cost, nil
	}
	var change azcosmos.PatchOperations
	change.AppendIncrement(count, 1)
	batch := b.posts.NewTransactionalBatch(key(post))
	batch.PatchItem(post, change, nil)
	batch.CreateItem(item, nil)
	if err := transact(ctx, b.posts, batch, &cost); err != nil {
		return cost, fmt.Errorf("create %s: %w", id, err)
	}
	return cost, nil
}
