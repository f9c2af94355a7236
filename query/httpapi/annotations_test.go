package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"binnacle/internal/erasure"
	"binnacle/internal/store/storetest"
	"binnacle/internal/tenant"
	"binnacle/internal/tenant/access"
	"binnacle/query"
	"binnacle/query/httpapi"

	"github.com/stretchr/testify/require"
)

// noAnnotations is a store of annotations that has none.
func noAnnotations(t *testing.T) *tenant.Annotations {
	docs := storetest.NewDocuments(t)
	return tenant.NewAnnotations(docs, docs, func(string) erasure.List { return nil })
}

// notes is an API with annotations, and credentials for each tenant and scope.
type notes struct {
	server
	t      *testing.T
	docs   *storetest.Documents
	tokens map[string]string // by tenant and scope
}

func newNotes(t *testing.T) notes {
	docs := storetest.NewDocuments(t)
	var tokens *tenant.Tokens
	s := newServer(t, func(_ *query.Config, c *httpapi.Config) {
		gate, err := access.New(access.Config{Tokens: func(ctx context.Context) ([]tenant.Token, error) {
			return tokens.List(ctx)
		}, Now: c.Now})
		require.NoError(t, err)
		c.Gate = gate
		c.Annotations = tenant.NewAnnotations(docs, docs, func(string) erasure.List { return nil })
	})
	n := notes{s, t, docs, map[string]string{}}
	s.world.Tenant("globex")
	tokens = tenant.NewTokens(s.world.Documents)
	for _, name := range []string{"acme", "globex", "nobody"} {
		for _, scope := range []tenant.Scope{tenant.ScopeRead, tenant.ScopeWrite, tenant.ScopeAdmin} {
			secret, _, err := tokens.Add(t.Context(), tenant.Token{Tenant: name, Scopes: []tenant.Scope{scope},
				Created: noon})
			require.NoError(t, err)
			n.tokens[name+" "+string(scope)] = "Bearer " + secret
		}
	}
	return n
}

// ask sends a request with the token of a tenant and scope.
func (n notes) ask(token, method, about, body string) answer {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), method, n.URL+"/api/v1/annotations"+about, strings.NewReader(body))
	require.NoError(n.t, err)
	r.Header.Set("Authorization", n.tokens[token])
	r.Header.Set("Content-Type", "application/json")
	resp, err := n.Client().Do(r)
	require.NoError(n.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(n.t, err)
	return answer{status: resp.StatusCode, header: resp.Header, body: string(text)}
}

func (n notes) texts(token, about string) (out []string) {
	n.t.Helper()
	a := n.ask(token, http.MethodGet, about, "")
	require.Equal(n.t, 200, a.status, a.body)
	var found struct{ Annotations []tenant.Annotation }
	require.NoError(n.t, json.Unmarshal([]byte(a.body), &found))
	for _, x := range found.Annotations {
		out = append(out, x.Text)
	}
	return out
}

// A tenant's annotations are added, listed by time and tag, and removed, by credentials of its own with the scope.
func TestAnnotationsAreOfTheirTenant(t *testing.T) {
	n := newNotes(t)
	a := n.ask("acme write", http.MethodPost, "", `{"text":" firmware 7.2 ","tags":["deploy","eu"]}`)
	require.Equal(t, 200, a.status, a.body)
	var added tenant.Annotation
	require.NoError(t, json.Unmarshal([]byte(a.body), &added))
	require.Equal(t, "firmware 7.2", added.Text)
	require.Equal(t, noon.UnixMilli(), added.Time, "now")
	require.Regexp(t, "^token [a-z0-9]{10}$", added.By)
	hour := time.Hour.Milliseconds()
	for text, at := range map[string]int64{"first": -10 * hour, "last": hour} {
		body := fmt.Sprintf(`{"text":%q,"time":%d,"timeEnd":%d}`, text, added.Time+at, added.Time+at+hour)
		require.Equal(t, 200, n.ask("acme admin", http.MethodPost, "", body).status)
	}
	require.Equal(t, []string{"first", "firmware 7.2", "last"}, n.texts("acme read", ""))
	require.Equal(t, []string{"firmware 7.2", "last"}, n.texts("acme read", "?from=-1h"))
	require.Equal(t, []string{"first"}, n.texts("acme read", "?from=-9h&to=now"), "one that ends in the range")
	require.Equal(t, []string{"firmware 7.2"}, n.texts("acme read", "?tag=deploy&tag=eu"))
	require.Empty(t, n.texts("acme read", "?tag=deploy&tag=us"))
	require.Contains(t, n.ask("acme read", http.MethodGet, "", "").body, `"may_write":false`)
	require.Empty(t, n.texts("globex read", ""))

	for token, status := range map[string]int{"acme read": 403, "globex read": 403, "": 401, "globex write": 200} {
		require.Equal(t, status, n.ask(token, http.MethodDelete, "?id="+added.ID, "").status, token)
		if status != 200 {
			require.Equal(t, status, n.ask(token, http.MethodPost, "", `{"text":"x"}`).status, token)
		}
	}
	for _, token := range []string{"acme write", "acme admin"} {
		require.Equal(t, 403, n.ask(token, http.MethodGet, "", "").status)
	}
	require.Len(t, n.texts("acme read", ""), 3, "another tenant removes none")
	require.JSONEq(t, `{"removed":1}`, n.ask("acme write", http.MethodDelete, "?id="+added.ID, "").body)
	require.JSONEq(t, `{"removed":0}`, n.ask("acme write", http.MethodDelete, "?id="+added.ID, "").body)
	require.JSONEq(t, `{"removed":2}`, n.ask("acme write", http.MethodDelete, "?from=0", "").body)
	require.Empty(t, n.texts("acme read", ""))
}

// A long list says in a header, too, what it has cost: a browser reads no trailers.
func TestCostOfManyAnnotations(t *testing.T) {
	n := newNotes(t)
	all := tenant.NewAnnotations(n.docs, n.docs, func(string) erasure.List { return nil })
	text := strings.Repeat("x", tenant.MaxAnnotationText)
	for range 130 {
		_, err := all.Add(t.Context(), "acme", tenant.Annotation{Time: noon.UnixMilli(), Text: text}, 0)
		require.NoError(t, err)
	}
	a := n.ask("acme read", http.MethodGet, "", "")
	require.Greater(t, len(a.body), 64<<10)
	require.Equal(t, "0", a.header.Get(query.SpentHeader))
}

// What can't be stored is a problem that says why.
func TestAnnotationsThatAreRefused(t *testing.T) {
	n := newNotes(t)
	for _, c := range []struct {
		method, about, body string
		parameter, detail   string
	}{
		{http.MethodPost, "", `{"text":""}`, "text", "1 to 500"},
		{http.MethodPost, "", `{"text":"x","time":1795168800}`, "time", "milliseconds"},
		{http.MethodPost, "", `{"text":"x","timeEnd":1}`, "timeEnd", "from time"},
		{http.MethodPost, "", `{"text":"x","tags":[""]}`, "tags", "1 to 50"},
		{http.MethodPost, "", `{"text":"x","end":1}`, "body", `unknown field "end"`},
		{http.MethodPost, "", `{"text":"x"} {}`, "body", "more than one"},
		{http.MethodPost, "", `{"text":"x"}}`, "body", "more than one"},
		{http.MethodPost, "", `text`, "body", "allowed is an object"},
		{http.MethodPost, "", strings.Repeat(" ", 20_000), "body", "16384 bytes"},
		{http.MethodPost, "?text=x", `{"text":"x"}`, "query", "in the body"},
		{http.MethodDelete, "", "", "id", "is missing"},
		{http.MethodDelete, "?from=now&to=-1h", "", "from", "is after to"},
		{http.MethodDelete, "?tags=x", "", "tags", "unknown"},
	} {
		a := n.ask("acme write", c.method, c.about, c.body)
		require.Equal(t, 400, a.status, a.body)
		p := parseProblem(t, a)
		require.Equal(t, c.parameter, p.Parameter, p.Detail)
		require.Contains(t, p.Detail, c.detail)
	}
	a := n.ask("nobody write", http.MethodPost, "", `{"text":"x"}`)
	require.Equal(t, 422, a.status)
	require.Contains(t, parseProblem(t, a).Detail, "is not registered")
	form, err := n.do(t, http.MethodPost, "/api/v1/annotations", http.Header{"Authorization": {n.tokens["acme write"]},
		"Content-Type": {"text/plain"}})
	require.NoError(t, err)
	require.Equal(t, 400, form.status, "a page of another origin can send it without being asked")

	n.docs.Fault = func(string, string, string) *storetest.Fault {
		return &storetest.Fault{Err: errors.New("secret: away")}
	}
	a = n.ask("acme write", http.MethodPost, "", `{"text":"x"}`)
	require.Equal(t, 503, a.status)
	require.NotContains(t, a.body, "secret")
}

// A tenant that changes annotations in a loop waits for itself, after a burst that a script may need.
func TestChangesOfAnnotationsAreLimited(t *testing.T) {
	n := newNotes(t)
	statuses := map[int]int{}
	var last answer
	for range 65 {
		if a := n.ask("acme write", http.MethodPost, "", `{"text":"x"}`); a.status != http.StatusOK {
			last = a
			statuses[a.status]++
		}
	}
	require.Equal(t, map[int]int{http.StatusTooManyRequests: 5}, statuses)
	require.Equal(t, "1", last.header.Get("Retry-After"))
	require.Contains(t, last.body, "its 60 changes of annotations a minute")
	require.Equal(t, http.StatusOK, n.ask("globex write", http.MethodPost, "", `{"text":"x"}`).status)
}
