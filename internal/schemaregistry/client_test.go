package schemaregistry_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/schemaregistry"

	"github.com/stretchr/testify/require"
)

// registry is a server that answers by path, and counts what it was asked.
type registry struct {
	*httptest.Server
	answers map[string]string // by path; "down" and numbers are states
	asked   atomic.Int64
	now     time.Time
}

const missing = `{"error_code":40403,"message":"Schema not found"}`

func serve(t *testing.T, answers map[string]string) (*registry, *schemaregistry.Client) {
	r := &registry{answers: answers, now: time.Unix(1_763_640_000, 0)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.asked.Add(1)
		user, password, _ := q.BasicAuth()
		text, ok := r.answers[q.URL.EscapedPath()]
		switch {
		case user != "key" || password != "secret":
			http.Error(w, `{"error_code":401}`, http.StatusUnauthorized)
		case r.answers["down"] != "":
			http.Error(w, "no backend", http.StatusNotFound)
		case strings.HasPrefix(text, "status "):
			status, err := strconv.Atoi(strings.TrimPrefix(text, "status "))
			require.NoError(t, err)
			http.Error(w, `{"error_code":`+strconv.Itoa(status)+`,"message":"refused"}`, status)
		case !ok:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, missing)
		default:
			fmt.Fprint(w, text)
		}
	}))
	t.Cleanup(r.Close)
	c, err := schemaregistry.New(schemaregistry.Config{
		URL: r.URL + "/", User: "key", Password: "secret", Client: r.Client(), Now: func() time.Time { return r.now },
	})
	require.NoError(t, err)
	return r, c
}

func TestSchemaIsFetchedOnce(t *testing.T) {
	r, c := serve(t, map[string]string{
		"/schemas/ids/7": `{"schema":"\"string\""}`,
		"/schemas/ids/8": `{"schema":"{}","schemaType":"JSON","maxId":9}`,
	})
	_, known := c.Schema(7)
	require.False(t, known, "nothing is asked unasked")
	require.Zero(t, r.asked.Load())
	for range 3 {
		require.NoError(t, c.Fetch(context.Background(), 7))
		require.NoError(t, c.Fetch(context.Background(), 8))
	}
	require.EqualValues(t, 2, r.asked.Load())
	r.Close()
	s, known := c.Schema(7)
	require.True(t, known, "what is known needs no registry")
	require.Equal(t, decode.Schema{Type: "AVRO", Text: `"string"`}, s)
	s, _ = c.Schema(8)
	require.Equal(t, "JSON", s.Type)
}

// A registry that is down says nothing; one that has no such schema says so, and may have it later.
func TestUnavailableIsNotMissing(t *testing.T) {
	r, c := serve(t, map[string]string{"down": "yes", "/schemas/ids/7": `{"schema":"\"string\""}`})
	require.Error(t, c.Fetch(context.Background(), 7))
	_, known := c.Schema(7)
	require.False(t, known)

	delete(r.answers, "down")
	require.NoError(t, c.Fetch(context.Background(), 7))
	_, known = c.Schema(7)
	require.True(t, known)

	require.NoError(t, c.Fetch(context.Background(), 9))
	s, known := c.Schema(9)
	require.True(t, known)
	require.NotEmpty(t, s.Fault)
	r.answers["/schemas/ids/9"] = `{"schema":"\"long\""}`
	asked := r.asked.Load()
	require.NoError(t, c.Fetch(context.Background(), 9))
	require.Equal(t, asked, r.asked.Load(), "for a while it is believed")
	r.now = r.now.Add(2 * time.Minute)
	_, known = c.Schema(9)
	require.False(t, known)
	require.NoError(t, c.Fetch(context.Background(), 9))
	s, _ = c.Schema(9)
	require.Equal(t, `"long"`, s.Text)
}

// An id that the registry refuses with 404 or 422 has no schema once that lasts five minutes, if the registry answers
// otherwise. No other status means that, nor does a registry that refuses everything.
func TestRefusedIDIsMissingAfterFiveMinutes(t *testing.T) {
	const good, types = "/schemas/ids/1", "/schemas/types"
	served := map[string]string{good: `{"schema":"\"string\""}`}
	listed := map[string]string{types: `["AVRO"]`}
	for _, c := range []struct {
		status  string
		others  map[string]string
		missing bool
	}{
		{"404", served, true}, {"422", served, true}, {"404", listed, true}, {"422", listed, true},
		{"404", map[string]string{types: "status 404"}, false}, {"404", map[string]string{types: "status 503"}, false},
		{"401", served, false}, {"403", served, false}, {"408", served, false}, {"429", served, false},
		{"500", served, false}, {"502", served, false}, {"503", served, false}, {"504", served, false},
		{"400", served, false},
	} {
		t.Run(fmt.Sprint(c.status, " ", c.others), func(t *testing.T) {
			answers := map[string]string{"/schemas/ids/7": "status " + c.status}
			maps.Copy(answers, c.others)
			r, client := serve(t, answers)
			if c.others[good] != "" {
				require.NoError(t, client.Fetch(t.Context(), 1))
			}
			for range 5 {
				require.Error(t, client.Fetch(t.Context(), 7))
				_, known := client.Schema(7)
				require.False(t, known)
				r.now = r.now.Add(time.Minute)
			}
			for range 3 {
				err := client.Fetch(t.Context(), 7)
				s, known := client.Schema(7)
				require.Equal(t, c.missing, known)
				if c.missing {
					require.NoError(t, err)
					require.Contains(t, s.Fault, c.status)
				} else {
					require.Error(t, err)
				}
				r.now = r.now.Add(2 * time.Minute)
			}
			r.answers["/schemas/ids/7"] = `{"schema":"\"long\""}`
			require.NoError(t, client.Fetch(t.Context(), 7), "it may be registered later")
			s, _ := client.Schema(7)
			require.Equal(t, `"long"`, s.Text)
		})
	}
}

// The registry refused everything at first: what counts is whether it serves when five minutes are over.
func TestRegistryThatRefusesEverythingIsDown(t *testing.T) {
	r, client := serve(t, map[string]string{"/schemas/ids/1": `{"schema":"\"string\""}`})
	require.NoError(t, client.Fetch(t.Context(), 1))
	r.answers["down"] = "yes"
	for range 20 {
		require.Error(t, client.Fetch(t.Context(), 7))
		r.now = r.now.Add(time.Minute)
	}
	delete(r.answers, "down")
	r.answers["/schemas/ids/7"] = "status 404"
	require.NoError(t, client.Fetch(t.Context(), 7))
}

// Ids that somebody makes up are looked up sixty times, and then once a second; what is known stays known, and a schema
// that was never seen is found again when the flood is over. A registry that does not answer lacks nothing.
func TestMadeUpIDsHaveABudget(t *testing.T) {
	r, c := serve(t, map[string]string{
		"/schemas/ids/7": `{"schema":"\"string\""}`, "/schemas/ids/8": `{"schema":"\"long\""}`,
	})
	require.NoError(t, c.Fetch(t.Context(), 7))
	next := uint32(1000)
	flood := func() (asked int64) {
		before := r.asked.Load()
		for range 1000 {
			next++
			if _, known := c.Schema(next); !known {
				require.NoError(t, c.Fetch(t.Context(), next))
			}
			s, known := c.Schema(next)
			require.True(t, known)
			require.NotEmpty(t, s.Fault)
		}
		return r.asked.Load() - before
	}
	require.EqualValues(t, 60, flood())
	r.now = r.now.Add(time.Second)
	require.EqualValues(t, 1, flood())
	require.NoError(t, c.Fetch(t.Context(), 8))
	s, known := c.Schema(8)
	require.True(t, known)
	require.Contains(t, s.Fault, "60 schemas a minute (--schema-registry-misses)")
	s, _ = c.Schema(7)
	require.Equal(t, `"string"`, s.Text)

	r.now = r.now.Add(time.Minute)
	require.NoError(t, c.Fetch(t.Context(), 8))
	s, _ = c.Schema(8)
	require.Equal(t, `"long"`, s.Text)
	r.answers["down"] = "yes"
	for range 200 {
		next++
		require.Error(t, c.Fetch(t.Context(), next))
		_, known := c.Schema(next)
		require.False(t, known, "its record waits")
	}
}

// A registry without codes of its own has refused one id for five minutes: that it refuses others means the same, for
// an hour, if it serves.
func TestRefusedIDsAreJudgedAlike(t *testing.T) {
	r, c := serve(t, map[string]string{"/schemas/types": `["AVRO"]`, "/schemas/ids/7": "status 404",
		"/schemas/ids/8": "status 404", "/schemas/ids/9": "status 404", "/schemas/ids/10": "status 404",
		"/schemas/ids/11": "status 404"})
	require.Error(t, c.Fetch(t.Context(), 7))
	r.now = r.now.Add(5 * time.Minute)
	require.Error(t, c.Fetch(t.Context(), 8))
	require.NoError(t, c.Fetch(t.Context(), 7))
	require.NoError(t, c.Fetch(t.Context(), 9))
	r.answers["/schemas/types"] = "status 503"
	require.Error(t, c.Fetch(t.Context(), 10))
	r.answers["/schemas/types"] = `["AVRO"]`
	r.now = r.now.Add(time.Hour)
	require.Error(t, c.Fetch(t.Context(), 11))
}

func TestFailedFetchIsRetried(t *testing.T) {
	r, c := serve(t, map[string]string{"/schemas/ids/1": `{"schema":`, "/schemas/ids/2": strings.Repeat(" ", 9<<20)})
	require.Error(t, c.Fetch(context.Background(), 1))
	require.Error(t, c.Fetch(context.Background(), 2), "an answer without end is not read to its end")
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, c.Fetch(ended, 3), context.Canceled)
	stranger, err := schemaregistry.New(schemaregistry.Config{URL: r.URL, Client: r.Client()})
	require.NoError(t, err)
	require.ErrorContains(t, stranger.Fetch(context.Background(), 1), "401")
	for _, bad := range []string{"", "registry:8081", "ftp://x", "http://"} {
		_, err := schemaregistry.New(schemaregistry.Config{URL: bad})
		require.Error(t, err, bad)
	}
}

func TestReferences(t *testing.T) {
	refer := func(to ...string) string {
		var all []string
		for _, subject := range to {
			all = append(all, fmt.Sprintf(`{"name":"n","subject":%q,"version":1}`, subject))
		}
		return `{"schema":"%s","references":[` + strings.Join(all, ",") + `]}`
	}
	_, c := serve(t, map[string]string{
		"/schemas/ids/1":             fmt.Sprintf(refer("a/b", "c"), "top"),
		"/subjects/a%2Fb/versions/1": fmt.Sprintf(refer("c", "d"), "ab"),
		"/subjects/c/versions/1":     fmt.Sprintf(refer("d"), "c"),
		"/subjects/d/versions/1":     `{"schema":"d"}`,
		"/schemas/ids/2":             fmt.Sprintf(refer("loop"), "top"),
		"/subjects/loop/versions/1":  fmt.Sprintf(refer("loop"), "loop"),
		"/schemas/ids/3":             fmt.Sprintf(refer("nowhere"), "top"),
	})
	for id := range uint32(3) {
		require.NoError(t, c.Fetch(context.Background(), id+1))
	}
	s, _ := c.Schema(1)
	require.Equal(t, decode.Schema{Type: "AVRO", Text: "top", References: []string{"d", "c", "ab"}}, s)
	for id := uint32(2); id <= 3; id++ {
		s, known := c.Schema(id)
		require.True(t, known)
		require.NotEmpty(t, s.Fault)
	}
}
