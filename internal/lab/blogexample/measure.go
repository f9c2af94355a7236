package blogexample

import (
	"context"
	"fmt"

	"binnacle/internal/charges/ru"
)

// measuring takes the patterns one by one against a loaded blog.
type measuring struct {
	blog *Blog
	data *dataset
	made int // items that commands have created
}

// pattern returns the charge of one pattern. Queries ask for the subject; commands are about new users and posts, and
// the second post, so that they change no query's rows.
func (m *measuring) pattern(ctx context.Context, name string) (float64, error) {
	rows, cost, err := m.operation(name)(ctx)
	if err != nil {
		return 0, err
	}
	if want := m.rows(name); rows != want {
		return 0, fmt.Errorf("%d rows, not %d", rows, want)
	}
	return cost.RUs, nil
}

func (m *measuring) rows(name string) int {
	switch name {
	case "Q3":
		return subjectPosts
	case "Q4":
		return subjectComments
	case "Q5":
		return subjectLikes
	case "Q6":
		return FrontPage
	}
	return 1
}

// operation returns the next run of a pattern, with what it needs made before.
func (m *measuring) operation(name string) func(context.Context) (rows int, cost Cost, err error) {
	b, user, post := m.blog, m.data.users[0], m.data.posts[0].ID
	switch name {
	case "Q1":
		return func(ctx context.Context) (int, Cost, error) {
			_, cost, err := b.User(ctx, user.ID)
			return 1, cost, err
		}
	case "Q2":
		return func(ctx context.Context) (int, Cost, error) { _, cost, err := b.Post(ctx, post); return 1, cost, err }
	case "Q3":
		return counted(b.PostsOf, user.ID)
	case "Q4":
		return counted(b.CommentsOf, post)
	case "Q5":
		return counted(b.LikesOf, post)
	case "Q6":
		return counted(func(ctx context.Context, _ string) ([]Post, Cost, error) { return b.Newest(ctx) }, "")
	}
	command := m.command(name)
	return func(ctx context.Context) (int, Cost, error) { cost, err := command(ctx); return 1, cost, err }
}

func counted[T any](ask func(context.Context, string) ([]T, Cost, error), of string) func(context.Context) (int,
	Cost, error) {
	return func(ctx context.Context) (int, Cost, error) {
		rows, cost, err := ask(ctx, of)
		return len(rows), cost, err
	}
}

// command returns the next C1, C2, C3 or C4. What it creates is as large as the data set's.
func (m *measuring) command(name string) func(context.Context) (Cost, error) {
	m.made++
	user := m.data.users[1]
	second := m.data.posts[subjectPosts] // the second user's first
	on := date(2*len(m.data.posts) + m.made)
	switch name {
	case "C1":
		u := User{ID: fmt.Sprintf("user-new-%04d", m.made), Username: fmt.Sprintf("%s %d", user.Username, m.made)}
		return func(ctx context.Context) (Cost, error) { return m.blog.PutUser(ctx, u) }
	case "C2":
		p := second.Post
		p.ID, p.CreationDate = fmt.Sprintf("post-new-%04d", m.made), on
		return func(ctx context.Context) (Cost, error) { return m.blog.CreatePost(ctx, p) }
	case "C3":
		c := Comment{ID: fmt.Sprintf("comment-new-%04d", m.made), PostID: second.ID, UserID: user.ID, Username: user.Username,
			Content: second.Content, CreationDate: on}
		return func(ctx context.Context) (Cost, error) { return m.blog.CreateComment(ctx, c) }
	default:
		l := Like{ID: fmt.Sprintf("like-new-%04d", m.made), PostID: second.ID, UserID: user.ID, Username: user.Username,
			CreationDate: on}
		return func(ctx context.Context) (Cost, error) { return m.blog.CreateLike(ctx, l) }
	}
}

// rules returns C3 and C4 by both rules for a replace. They replace the same post, and the digits of a count change its
// size: by the other rule, a write of that size is not charged.
func (m *measuring) rules(patterns []Pattern, v Version) []ReplaceRule {
	saved := m.blog.setup.Model.Write(len(encode(v.post(m.data.posts[subjectPosts].Post))), ru.NoIndex)
	var out []ReplaceRule
	for _, p := range patterns {
		if p.Name == "C3" || p.Name == "C4" {
			two := p.Measured[v-V1]
			out = append(out, ReplaceRule{Pattern: p.Name, Version: v.String(), Published: p.Published[v-V1], Two: two,
				One: two - saved})
		}
	}
	return out
}
