package blogexample_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/blogexample"
)

func open(t *testing.T, v blogexample.Version) *blogexample.Blog {
	t.Helper()
	b, err := blogexample.Open(t.Context(), blogexample.Setup{Version: v, PhysicalPartitions: 3})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	return b
}

func user(i int) blogexample.User {
	return blogexample.User{ID: fmt.Sprintf("u%d", i), Username: fmt.Sprintf("name %d", i)}
}

func post(i int, by blogexample.User) blogexample.Post {
	return blogexample.Post{
		ID: fmt.Sprintf("p%03d", i), UserID: by.ID, Username: by.Username, Title: fmt.Sprintf("title %d", i),
		Content: strings.Repeat("long text ", 30), CreationDate: at(i),
	}
}

func at(i int) string {
	return time.Date(2026, 1, 1, 0, i, 0, 0, time.UTC).Format(time.RFC3339)
}

// All versions answer the same from the same data, copies and counts included.
func TestVersionsReturnTheSameAnswers(t *testing.T) {
	type answers struct {
		user             blogexample.User
		post             blogexample.Post
		list, newest     []blogexample.Post
		comments, likes  int
		commenter, liker string
	}
	var want answers
	for v := blogexample.V1; v <= blogexample.V3; v++ {
		ctx := t.Context()
		b, err := blogexample.Loaded(ctx, v, 8, 1)
		require.NoError(t, err)
		defer b.Close()
		var got answers
		got.user, _, err = b.User(ctx, "user-000000")
		require.NoError(t, err)
		got.user.Type, got.user.UserID = "", ""
		got.post, _, err = b.Post(ctx, "post-0000000")
		require.NoError(t, err)
		got.list, _, err = b.PostsOf(ctx, got.user.ID)
		require.NoError(t, err)
		slices.SortFunc(got.list, func(p, q blogexample.Post) int { return strings.Compare(p.ID, q.ID) })
		got.newest, _, err = b.Newest(ctx)
		require.NoError(t, err)
		comments, _, err := b.CommentsOf(ctx, got.post.ID)
		require.NoError(t, err)
		likes, _, err := b.LikesOf(ctx, got.post.ID)
		require.NoError(t, err)
		got.comments, got.likes = len(comments), len(likes)
		got.commenter, got.liker = comments[0].Username, likes[0].Username
		require.Equal(t, got.comments, *got.post.CommentCount)
		require.Equal(t, got.likes, *got.post.LikeCount)
		require.Len(t, got.newest, blogexample.FrontPage)
		if v == blogexample.V1 {
			want = got
		}
		require.Equal(t, want, got, "%s", v)
	}
}

// A comment and its count are one transaction: without the post there is neither.
func TestCommentNeedsItsPost(t *testing.T) {
	for _, v := range []blogexample.Version{blogexample.V2, blogexample.V3} {
		b := open(t, v)
		_, err := b.CreateComment(t.Context(), blogexample.Comment{ID: "c", PostID: "missing", UserID: "u0"})
		require.ErrorIs(t, err, blogexample.ErrNotFound)
		_, err = b.CreateLike(t.Context(), blogexample.Like{ID: "l", PostID: "missing", UserID: "u0"})
		require.ErrorIs(t, err, blogexample.ErrNotFound)
		comments, _, err := b.CommentsOf(t.Context(), "missing")
		require.NoError(t, err)
		require.Empty(t, comments)

		_, err = b.CreatePost(t.Context(), post(0, user(0)))
		require.NoError(t, err)
		c := blogexample.Comment{ID: "c", PostID: "p000", UserID: "u0"}
		_, err = b.CreateComment(t.Context(), c)
		require.NoError(t, err)
		_, err = b.CreateComment(t.Context(), c)
		require.ErrorContains(t, err, "status 409")
		p, _, err := b.Post(t.Context(), "p000")
		require.NoError(t, err)
		require.Equal(t, 1, *p.CommentCount)
	}
}
