package blogexample

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// The article's data set: 5 to 50 posts per user, up to 25 comments and 100 likes per post.
const (
	minPosts    = 5
	maxPosts    = 50
	maxComments = 25
	maxLikes    = 100
)

// The user and the post that the patterns ask for have what the article's figures tell: its V1 reads the
// authors of comments and likes one by one, 1 RU each, and 27.72 - 7.72 are 20, 58.92 - 8.92 are 50. For
// a user's posts nothing follows; 27 is the middle of 5 to 50.
const (
	subjectPosts    = 27
	subjectComments = 20
	subjectLikes    = 50
)

// contentBytes makes posts and comments 1.9 KB. The article gives no sizes; its charges for creating them, 8.76
// and 8.57 RU with 8 and 7 terms, match 1.9 KB.
const contentBytes = 1_700

// dataset is the content of a blog: what follows from a seed, and nothing of how it is stored.
type dataset struct {
	seed  uint64
	users []User
	posts []thread
	text  string
}

// thread is a post with how much it has been commented on and liked.
type thread struct {
	Post
	number   int
	comments int
	likes    int
}

func newDataset(users int, seed uint64) *dataset {
	d := &dataset{seed: seed, text: prose(rand.New(rand.NewPCG(seed, 1)))}
	rng := rand.New(rand.NewPCG(seed, 2))
	for i := range users {
		u := User{ID: fmt.Sprintf("user-%06d", i), Username: fmt.Sprintf("%s %s %d", pick(rng), pick(rng), i)}
		d.users = append(d.users, u)
		posts := minPosts + rng.IntN(maxPosts-minPosts+1)
		if i == 0 {
			posts = subjectPosts
		}
		for range posts {
			n := len(d.posts)
			t := thread{number: n, comments: rng.IntN(maxComments + 1), likes: rng.IntN(maxLikes + 1)}
			if n == 0 {
				t.comments, t.likes = subjectComments, subjectLikes
			}
			t.Post = Post{
				ID: fmt.Sprintf("post-%07d", n), UserID: u.ID, Username: u.Username,
				Title: pick(rng) + " " + pick(rng) + " and " + pick(rng), Content: d.words(rng),
			}
			d.posts = append(d.posts, t)
		}
	}
	order := rng.Perm(len(d.posts))
	for i := range d.posts {
		t := &d.posts[i]
		t.CreationDate = date(order[i])
		t.CommentCount, t.LikeCount = &t.comments, &t.likes
	}
	return d
}

// commentsOf and likesOf are made when they are asked for: most of the data set is theirs.

func (d *dataset) commentsOf(t thread) []Comment {
	rng := rand.New(rand.NewPCG(d.seed, 1_000_000+uint64(t.number)))
	out := make([]Comment, t.comments)
	for i := range out {
		by := d.users[rng.IntN(len(d.users))]
		out[i] = Comment{
			ID: fmt.Sprintf("comment-%07d-%03d", t.number, i), PostID: t.ID, UserID: by.ID, Username: by.Username,
			Content: d.words(rng), CreationDate: date(len(d.posts) + rng.IntN(len(d.posts))),
		}
	}
	return out
}

func (d *dataset) likesOf(t thread) []Like {
	rng := rand.New(rand.NewPCG(d.seed, 2_000_000+uint64(t.number)))
	out := make([]Like, t.likes)
	for i := range out {
		by := d.users[rng.IntN(len(d.users))]
		out[i] = Like{
			ID: fmt.Sprintf("like-%07d-%03d", t.number, i), PostID: t.ID, UserID: by.ID, Username: by.Username,
			CreationDate: date(len(d.posts) + rng.IntN(len(d.posts))),
		}
	}
	return out
}

func (d *dataset) words(rng *rand.Rand) string {
	at := rng.IntN(len(d.text) - contentBytes)
	return d.text[at : at+contentBytes]
}

// date returns the time of the n-th event, distinct for each.
func date(n int) string {
	return time.Date(2026, time.January, 1, 0, 0, 0, 0,
		time.UTC).Add(time.Duration(n) * 7 * time.Minute).Format(time.RFC3339)
}

// prose returns a long text that the texts of items are cut from.
func prose(rng *rand.Rand) string {
	var b strings.Builder
	for b.Len() < 256<<10 {
		b.WriteString(pick(rng))
		b.WriteByte(' ')
	}
	return b.String()
}

var vocabulary = strings.Fields("amber anchor beacon birch bosun canvas chart cliff compass coral current drift ebb " +
	"estuary " +
	"fathom gale galley harbour helm horizon island keel lagoon lantern ledger mast meridian mooring needle oar pilot " +
	"reef " +
	"rigging rudder sail sextant shoal signal spar squall starboard stern swell tide timber trim voyage wake watch wharf")

func pick(rng *rand.Rand) string { return vocabulary[rng.IntN(len(vocabulary))] }

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
