package blogexample

import (
	"cmp"
	"encoding/json"
	"unicode/utf8"
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
