package blogexample

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// Spreader carries changes to where they are copied, from the change feeds: in V2 and V3 a user's new name
// to everything that user wrote, in V3 posts to their author's partition and to the front page. V1 has no
// copies. One at a time may run for a blog: it alone writes the front page.
//
// Copies follow only once they are caught up. A comment that is being written while its author is
// renamed may keep the old name.
type Spreader struct {
	blog  *Blog
	users changes
	posts changes
	front frontPage
}

// NewSpreader begins at the beginning of the change feeds: what was done before is done again, to the
// same effect.
func (b *Blog) NewSpreader() *Spreader {
	return &Spreader{blog: b, users: changes{of: b.users}, posts: changes{of: b.posts}, front: frontPage{feed: b.feed}}
}

// Work is what a Spreader has done.
type Work struct {
	Read    Cost // of the change feeds
	Renames Cost // finding and patching what carries a user's name
	Copies  Cost // of posts, to their author's partition
	Front   Cost // of posts, to the front page

	Renamed int // items that got a new name
	Copied  int // posts that were copied
	Fronted int // posts that were put on the front page, or brought up to date there
}

// CatchUp reads both change feeds to their ends.
func (s *Spreader) CatchUp(ctx context.Context) (Work, error) {
	var w Work
	if s.blog.version < V2 {
		return w, nil
	}
	if err := s.follow(ctx, &s.users, &w, s.user); err != nil {
		return w, err
	}
	if s.blog.version < V3 {
		return w, nil
	}
	return w, s.follow(ctx, &s.posts, &w, s.post)
}

func (s *Spreader) follow(ctx context.Context, c *changes, w *Work,
	do func(context.Context, json.RawMessage, *Work) error) error {
	for {
		items, err := c.next(ctx, &w.Read)
		if err != nil || len(items) == 0 {
			return err
		}
		for _, item := range items {
			if err := do(ctx, item, w); err != nil {
				return err
			}
		}
	}
}

// user gives a user's name to what carries another one. V3's users container also holds posts.
func (s *Spreader) user(ctx context.Context, item json.RawMessage, w *Work) error {
	var u User
	if err := json.Unmarshal(item, &u); err != nil {
		return fmt.Errorf("a user: %w", err)
	}
	if u.Type != "" && u.Type != typeUser {
		return nil
	}
	q := query{
		s.blog.posts, "SELECT c.id, c.postId FROM c WHERE c.userId = @user AND c.userUsername != @name",
		params(with("@user", u.ID), with("@name", u.Username)), azcosmos.NewPartitionKey(),
	}
	stale, err := ask[Post](ctx, q, &w.Renames)
	if err != nil {
		return err
	}
	for _, p := range stale {
		var change azcosmos.PatchOperations
		change.AppendSet("/userUsername", u.Username)
		r, err := s.blog.posts.PatchItem(ctx, key(p.PostID), p.ID, change, nil)
		if err != nil {
			return fmt.Errorf("rename %s to %s: %w", p.ID, u.Username, err)
		}
		w.Renames.count(r.Response)
		w.Renamed++
	}
	return nil
}

// post copies a post in short form. Comments and likes are in the same feed and have no copies.
func (s *Spreader) post(ctx context.Context, item json.RawMessage, w *Work) error {
	var p Post
	if err := json.Unmarshal(item, &p); err != nil {
		return fmt.Errorf("a post: %w", err)
	}
	if p.Type != typePost {
		return nil
	}
	p = p.short()
	r, err := s.blog.users.UpsertItem(ctx, key(p.UserID), encode(p), nil)
	if err != nil {
		return fmt.Errorf("copy %s to its author: %w", p.ID, err)
	}
	w.Copies.count(r.Response)
	w.Copied++
	shown, err := s.front.offer(ctx, p, &w.Front)
	if shown {
		w.Fronted++
	}
	return err
}
