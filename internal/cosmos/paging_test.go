package cosmos_test

import (
	"fmt"
	"testing"
	"time"

	"binnacle/internal/cosmos"

	"github.com/stretchr/testify/require"
)

// endless answers requests as long as somebody asks.
func endless(body string, headers map[string]string) *script {
	s := &script{}
	for range 20_000 {
		s.answers = append(s.answers, answer{status: 200, body: body, headers: headers})
	}
	return s
}

// Pages that lead to themselves, or to pages without anything new, come to an end: an error.
func TestPagesThatDoNotEnd(t *testing.T) {
	const documents, none = `{"Documents":[{"id":"a"}]}`, `{"Documents":[]}`
	scan := func(t *testing.T, c *cosmos.Client) error {
		_, _, err := scanned(t.Context(), c)
		return err
	}
	for name, c := range map[string]struct {
		body     string
		next     string
		read     func(*testing.T, *cosmos.Client) error
		requests int
	}{
		"same page":   {documents, "again", scan, 2},
		"empty pages": {none, "again", scan, 1000},
		"page of another container": {documents, "again", func(t *testing.T, c *cosmos.Client) error {
			return c.Foreign("other", "things").Query(t.Context(), "0", cosmos.ForeignQuery{SQL: "SELECT * FROM c", MaxRUs: 1e9},
				func([]byte) error { return nil })
		}, 2},
		"containers": {`{"DocumentCollections":[{"id":"a"}]}`, "again", func(t *testing.T, c *cosmos.Client) error {
			_, err := c.Containers().List(t.Context())
			return err
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := endless(c.body, map[string]string{"x-ms-continuation": c.next})
			client, _ := client(t, s, nil)
			require.ErrorContains(t, c.read(t, client), "the store does not come to an end")
			require.Len(t, s.asked, c.requests)
		})
	}
}

// A change feed that never says that there is nothing new, as some implementations have it, is an error after few
// requests, whether its mark moves or not.
func TestFeedThatDoesNotEnd(t *testing.T) {
	for name, etag := range map[string]func(i int) string{
		"without a mark": func(int) string { return "" }, "with a mark": func(i int) string { return fmt.Sprintf(`"%d"`, i) },
	} {
		t.Run(name, func(t *testing.T) {
			s := endless(`{"_rid":"AAA=","Documents":[{"id":"a","kind":"tenant","_etag":"\"1\"","_ts":1}]}`, nil)
			for i := range s.answers {
				if e := etag(i); e != "" {
					s.answers[i].headers = map[string]string{"etag": e}
				}
			}
			s.container = true
			client, _ := client(t, s, nil)
			_, _, err := client.Feed().Changes(t.Context(), "", time.Unix(0, 0))
			require.ErrorContains(t, err, "the store does not come to an end")
			require.LessOrEqual(t, len(s.asked), 101)
		})
	}
}
