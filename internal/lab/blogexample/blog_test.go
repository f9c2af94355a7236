package blogexample_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"binnacle/internal/lab/blogexample"
)

func open(t *testing.T, v blogexample.Version, i blogexample.Indexing) *blogexample.Blog {
	t.Helper()
	b, err := blogexample.Open(t.Context(), blogexample.Setup{Version: v, Indexing: i, PhysicalPartitions: 3})
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

// answers is everything that the six queries say about a blog.
type answers struct {
	users    []blogexample.User
	posts    []blogexample.Post
	lists    [][]blogexample.Post
	comments [][]blogexample.Comment
	likes    [][]blogexample.Like
	newest   []blogexample.Post
}

func everything(t *testing.T, b *blogexample.Blog, users, posts int) (a answers) {
	ctx := t.Context()
	for i := range users {
		u, _, err := b.User(ctx, user(i).ID)
		require.NoError(t, err)
		a.users = append(a.users, blogexample.User{ID: u.ID, Username: u.Username})
		list, _, err := b.PostsOf(ctx, u.ID)
		require.NoError(t, err)
		slices.SortFunc(list, func(p, q blogexample.Post) int { return strings.Compare(p.ID, q.ID) })
		a.lists = append(a.lists, list)
	}
	for i := range posts {
		p, _, err := b.Post(ctx, fmt.Sprintf("p%03d", i))
		require.NoError(t, err)
		a.posts = append(a.posts, p)
		comments, _, err := b.CommentsOf(ctx, p.ID)
		require.NoError(t, err)
		slices.SortFunc(comments, func(c, d blogexample.Comment) int { return strings.Compare(c.ID, d.ID) })
		likes, _, err := b.LikesOf(ctx, p.ID)
		require.NoError(t, err)
		slices.SortFunc(likes, func(c, d blogexample.Like) int { return strings.Compare(c.ID, d.ID) })
		a.comments, a.likes = append(a.comments, comments), append(a.likes, likes)
		require.Len(t, comments, *p.CommentCount)
		require.Len(t, likes, *p.LikeCount)
	}
	var err error
	a.newest, _, err = b.Newest(ctx)
	require.NoError(t, err)
	return a
}

// The same commands, with renames and edits between them, lead to the same answers in every version.
func TestVersionsReturnTheSameAnswers(t *testing.T) {
	const users, posts = 4, 12
	var want answers
	for _, indexing := range []blogexample.Indexing{blogexample.IndexAll, blogexample.IndexSelected} {
		for v := blogexample.V1; v <= blogexample.V3; v++ {
			b, ctx := open(t, v, indexing), t.Context()
			s := b.NewSpreader()
			catchUp := func() {
				_, err := s.CatchUp(ctx)
				require.NoError(t, err)
			}
			names := map[string]string{}
			put := func(u blogexample.User) {
				_, err := b.PutUser(ctx, u)
				require.NoError(t, err)
				names[u.ID] = u.Username
			}
			for i := range users {
				put(user(i))
			}
			rng := rand.New(rand.NewPCG(1, 1))
			for i := range posts {
				_, err := b.CreatePost(ctx, post(i, user(i%users)))
				require.NoError(t, err)
				for n := range rng.IntN(5) {
					by := user(rng.IntN(users))
					_, err := b.CreateComment(ctx, blogexample.Comment{ID: fmt.Sprintf("c%d.%d", i, n), PostID: post(i, by).ID,
						UserID: by.ID, Username: by.Username, Content: "well said", CreationDate: at(n)})
					require.NoError(t, err)
					_, err = b.CreateLike(ctx, blogexample.Like{ID: fmt.Sprintf("l%d.%d", i, n), PostID: post(i, by).ID, UserID: by.ID,
						Username: by.Username, CreationDate: at(n)})
					require.NoError(t, err)
				}
			}
			catchUp()
			put(blogexample.User{ID: "u1", Username: "somebody else"})
			put(blogexample.User{ID: "u2", Username: "overwritten"})
			put(blogexample.User{ID: "u2", Username: "the last one"})
			catchUp()

			got := everything(t, b, users, posts)
			for _, p := range got.newest {
				require.Equal(t, names[p.UserID], p.Username)
				require.LessOrEqual(t, len([]rune(p.Content)), 101)
			}
			if want.users == nil {
				want = got
				continue
			}
			require.Equal(t, want, got, "%s, %s", v, indexing)
		}
	}
}

// Counts are those of the items, and the copies say the same, whatever runs at the same time.
func TestCountsUnderConcurrentWriters(t *testing.T) {
	const users, posts, writers, each = 3, 4, 8, 25
	for _, v := range []blogexample.Version{blogexample.V2, blogexample.V3} {
		t.Run(v.String(), func(t *testing.T) {
			b := open(t, v, blogexample.IndexSelected)
			for i := range users {
				_, err := b.PutUser(t.Context(), user(i))
				require.NoError(t, err)
			}
			for i := range posts {
				_, err := b.CreatePost(t.Context(), post(i, user(i%users)))
				require.NoError(t, err)
			}
			s := b.NewSpreader()
			g, ctx := errgroup.WithContext(t.Context())
			for w := range writers {
				g.Go(func() error { return respond(ctx, b, w, each, users, posts) })
			}
			spread(t, s, g)
			_, err := b.PutUser(t.Context(), blogexample.User{ID: "u0", Username: "renamed at the end"})
			require.NoError(t, err)
			_, err = s.CatchUp(t.Context())
			require.NoError(t, err)

			a := everything(t, b, users, posts) // compares counts with items
			total := 0
			for i, p := range a.posts {
				total += *p.CommentCount + *p.LikeCount
				for _, c := range a.comments[i] {
					require.Equal(t, a.users[c.UserID[1]-'0'].Username, c.Username)
				}
			}
			require.Equal(t, writers*each, total)
			require.Len(t, a.newest, posts)
			for _, list := range append(a.lists, a.newest) {
				for _, p := range list {
					var n int
					_, err := fmt.Sscanf(p.ID, "p%d", &n)
					require.NoError(t, err)
					require.Equal(t, a.posts[n].CommentCount, p.CommentCount)
					require.Equal(t, a.posts[n].LikeCount, p.LikeCount)
					require.Equal(t, a.posts[n].Username, p.Username)
				}
			}
		})
	}
}

// respond comments on and likes posts.
func respond(ctx context.Context, b *blogexample.Blog, writer, n, users, posts int) error {
	rng := rand.New(rand.NewPCG(7, uint64(writer)))
	for i := range n {
		by, on := user(rng.IntN(users)), post(rng.IntN(posts), user(0)).ID
		var err error
		if id := fmt.Sprintf("%d.%d", writer, i); rng.IntN(2) == 0 {
			_, err = b.CreateComment(ctx, blogexample.Comment{ID: "c" + id, PostID: on, UserID: by.ID, Username: by.Username,
				Content: "yes", CreationDate: at(i)})
		} else {
			_, err = b.CreateLike(ctx, blogexample.Like{ID: "l" + id, PostID: on, UserID: by.ID, Username: by.Username,
				CreationDate: at(i)})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// spread keeps the copies up while the writers of a group write, and once more after that.
func spread(t *testing.T, s *blogexample.Spreader, g *errgroup.Group) {
	var done atomic.Bool
	var writing errgroup.Group
	writing.Go(func() error {
		defer done.Store(true)
		return g.Wait()
	})
	for last := false; !last; {
		last = done.Load()
		_, err := s.CatchUp(t.Context())
		require.NoError(t, err)
	}
	require.NoError(t, writing.Wait())
}

// The feed never holds more than 100 posts, and in the end the newest. Reading the change feed again from its
// beginning, as after a crash, changes nothing.
func TestFrontPageIsBounded(t *testing.T) {
	const posts, writers = 260, 4
	b := open(t, blogexample.V3, blogexample.IndexSelected)
	_, err := b.PutUser(t.Context(), user(0))
	require.NoError(t, err)
	order := rand.New(rand.NewPCG(3, 3)).Perm(posts)
	g, ctx := errgroup.WithContext(t.Context())
	for w := range writers {
		g.Go(func() error {
			for i := w; i < posts; i += writers {
				if _, err := b.CreatePost(ctx, post(order[i], user(0))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	stop := make(chan struct{})
	var watch errgroup.Group
	looks := 0
	watch.Go(func() error {
		for ; ; looks++ {
			n, err := b.Fronted(t.Context())
			if err != nil {
				return err
			}
			if n > blogexample.FrontPage {
				return fmt.Errorf("%d posts in the feed", n)
			}
			select {
			case <-stop:
				return nil
			default:
			}
		}
	})
	spread(t, b.NewSpreader(), g)
	close(stop)
	require.NoError(t, watch.Wait())
	require.Positive(t, looks)

	holdsTheNewest := func() {
		n, err := b.Fronted(t.Context())
		require.NoError(t, err)
		require.Equal(t, blogexample.FrontPage, n)
		newest, _, err := b.Newest(t.Context())
		require.NoError(t, err)
		for i, p := range newest {
			require.Equal(t, post(posts-1-i, user(0)).ID, p.ID)
		}
	}
	holdsTheNewest()
	w, err := b.NewSpreader().CatchUp(t.Context())
	require.NoError(t, err)
	require.Equal(t, posts, w.Copied)
	holdsTheNewest()
}

// A comment and its count are one transaction: without the post there is neither.
func TestCommentNeedsItsPost(t *testing.T) {
	for _, v := range []blogexample.Version{blogexample.V2, blogexample.V3} {
		b := open(t, v, blogexample.IndexAll)
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
