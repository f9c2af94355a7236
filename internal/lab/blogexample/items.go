package blogexample

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// The items of all containers carry their type; V1's and V2's users do not need one.
const (
	typeUser    = "user"
	typePost    = "post"
	typeComment = "comment"
	typeLike    = "like"
)

// User is a person who writes. Type and UserID are stored from V3 on, where users share a container with copies
// of posts.
type User struct {
	ID       string `json:"id"`
	Type     string `json:"type,omitempty"`
	UserID   string `json:"userId,omitempty"`
	Username string `json:"username"`
}

// Post is a post and, as an answer, what a page shows of it. Username and counts are stored from V2 on;
// V1 looks them up.
type Post struct {
	ID           string `json:"id"`
	Type         string `json:"type"`
	PostID       string `json:"postId"`
	UserID       string `json:"userId"`
	Username     string `json:"userUsername,omitempty"`
	Title        string `json:"title"`
	Content      string `json:"content"`
	CommentCount *int   `json:"commentCount,omitempty"`
	LikeCount    *int   `json:"likeCount,omitempty"`
	CreationDate string `json:"creationDate"` // RFC 3339, UTC, in seconds: sorts as text
}

// Comment is a comment on a post. Username is stored from V2 on.
type Comment struct {
	ID           string `json:"id"`
	Type         string `json:"type"`
	PostID       string `json:"postId"`
	UserID       string `json:"userId"`
	Username     string `json:"userUsername,omitempty"`
	Content      string `json:"content"`
	CreationDate string `json:"creationDate"`
}

// Like is a like of a post. Username is stored from V2 on.
type Like struct {
	ID           string `json:"id"`
	Type         string `json:"type"`
	PostID       string `json:"postId"`
	UserID       string `json:"userId"`
	Username     string `json:"userUsername,omitempty"`
	CreationDate string `json:"creationDate"`
}

// summaryRunes is how much of a post's text a list shows.
const summaryRunes = 100

func (p Post) short() Post {
	if utf8.RuneCountInString(p.Content) > summaryRunes {
		p.Content = string([]rune(p.Content)[:summaryRunes]) + "…"
	}
	return p
}

// newer returns which of two posts a feed shows first.
func newer(a, b Post) int {
	return cmp.Or(cmp.Compare(b.CreationDate, a.CreationDate), cmp.Compare(b.ID, a.ID))
}

// user, post, comment and like give the item as the version stores it.

func (v Version) user(u User) User {
	u.Type, u.UserID = "", ""
	if v >= V3 {
		u.Type, u.UserID = typeUser, u.ID
	}
	return u
}

func (v Version) post(p Post) Post {
	p.Type, p.PostID = typePost, p.ID
	switch {
	case v < V2:
		p.Username, p.CommentCount, p.LikeCount = "", nil, nil
	case p.CommentCount == nil:
		p.CommentCount, p.LikeCount = new(int), new(int)
	}
	return p
}

func (v Version) comment(c Comment) Comment {
	c.Type = typeComment
	if v < V2 {
		c.Username = ""
	}
	return c
}

func (v Version) like(l Like) Like {
	l.Type = typeLike
	if v < V2 {
		l.Username = ""
	}
	return l
}

// encode returns an item as JSON. These structs always have one.
func encode(item any) []byte {
	b, err := json.Marshal(item)
	if err != nil {
		panic(err)
	}
	return b
}

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
