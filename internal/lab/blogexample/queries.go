package blogexample

import (
	"context"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// FrontPage is how many posts the front page shows, and the most that V3's feed holds.
const FrontPage = 100

// User reads a user (Q1).
func (b *Blog) User(ctx context.Context, id string) (u User, cost Cost, err error) {
	u, err = read[User](ctx, b.users, id, id, &cost)
	return u, cost, err
}

// Post reads a post with its author's name and its counts (Q2).
func (b *Blog) Post(ctx context.Context, id string) (p Post, cost Cost, err error) {
	if p, err = read[Post](ctx, b.posts, id, id, &cost); err != nil || b.version >= V2 {
		return p, cost, err
	}
	// The article asks for the author by a query here.
	names, err := ask[User](ctx, query{b.users, "SELECT c.username FROM c WHERE c.id = @user",
		params(with("@user", p.UserID)), key(p.UserID)}, &cost)
	if err != nil {
		return p, cost, err
	}
	if len(names) == 1 {
		p.Username = names[0].Username
	}
	err = b.counts(ctx, &p, &cost)
	return p, cost, err
}

// PostsOf lists a user's posts in short form (Q3), in no order before V3.
func (b *Blog) PostsOf(ctx context.Context, user string) (posts []Post, cost Cost, err error) {
	q := query{b.posts, "SELECT * FROM c WHERE c.type = 'post' AND c.userId = @user", params(with("@user", user)),
		azcosmos.NewPartitionKey()}
	if b.version >= V3 {
		q.from, q.key = b.users, key(user)
	}
	if posts, err = ask[Post](ctx, q, &cost); err != nil {
		return nil, cost, err
	}
	if b.version < V2 {
		var author User
		if author, err = read[User](ctx, b.users, user, user, &cost); err != nil {
			return nil, cost, err
		}
		for i := range posts {
			posts[i].Username = author.Username
			if err := b.counts(ctx, &posts[i], &cost); err != nil {
				return nil, cost, err
			}
		}
	}
	return shorten(posts), cost, nil
}

// CommentsOf lists a post's comments with their authors' names (Q4).
func (b *Blog) CommentsOf(ctx context.Context, post string) ([]Comment, Cost, error) {
	var cost Cost
	comments, err := ask[Comment](ctx, b.under(post, typeComment), &cost)
	if b.version < V2 {
		for i := range comments {
			if err == nil {
				comments[i].Username, err = b.name(ctx, comments[i].UserID, &cost)
			}
		}
	}
	return comments, cost, err
}

// LikesOf lists a post's likes with the names of those who liked it (Q5).
func (b *Blog) LikesOf(ctx context.Context, post string) ([]Like, Cost, error) {
	var cost Cost
	likes, err := ask[Like](ctx, b.under(post, typeLike), &cost)
	if b.version < V2 {
		for i := range likes {
			if err == nil {
				likes[i].Username, err = b.name(ctx, likes[i].UserID, &cost)
			}
		}
	}
	return likes, cost, err
}

// Newest lists the FrontPage newest posts in short form (Q6).
func (b *Blog) Newest(ctx context.Context) (posts []Post, cost Cost, err error) {
	const sql = "SELECT TOP 100 * FROM c WHERE c.type = 'post' ORDER BY c.creationDate DESC"
	if b.version >= V3 {
		posts, err = ask[Post](ctx, query{b.feed, sql, nil, key(typePost)}, &cost)
		return posts, cost, err
	}
	if posts, err = b.mergeNewest(ctx, sql, &cost); err != nil || b.version >= V2 {
		return shorten(posts), cost, err
	}
	for i := range posts {
		if posts[i].Username, err = b.name(ctx, posts[i].UserID, &cost); err != nil {
			return nil, cost, err
		}
		if err := b.counts(ctx, &posts[i], &cost); err != nil {
			return nil, cost, err
		}
	}
	return shorten(posts), cost, nil
}

func (b *Blog) under(post, typ string) query {
	return query{b.posts, "SELECT * FROM c WHERE c.postId = @post AND c.type = @type",
		params(with("@post", post), with("@type", typ)), key(post)}
}

// name reads the name of a user, as V1 must for everything that it shows.
func (b *Blog) name(ctx context.Context, user string, cost *Cost) (string, error) {
	u, err := read[User](ctx, b.users, user, user, cost)
	return u.Username, err
}

// counts counts the comments and likes of a post, as V1 must.
func (b *Blog) counts(ctx context.Context, p *Post, cost *Cost) error {
	for typ, into := range map[string]**int{typeComment: &p.CommentCount, typeLike: &p.LikeCount} {
		q := b.under(p.ID, typ)
		q.sql = "SELECT VALUE COUNT(1) FROM c WHERE c.postId = @post AND c.type = @type"
		n, err := ask[int](ctx, q, cost)
		if err != nil {
			return err
		}
		*into = new(int)
		for _, n := range n {
			**into += n
		}
	}
	return nil
}

func params(p ...azcosmos.QueryParameter) []azcosmos.QueryParameter { return p }

func shorten(posts []Post) []Post {
	for i, p := range posts {
		posts[i] = p.short()
	}
	return posts
}
