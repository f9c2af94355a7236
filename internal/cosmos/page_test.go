package cosmos_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"binnacle/internal/cosmos"
	"binnacle/internal/store"

	"github.com/stretchr/testify/require"
)

func pageOf(body string, headers ...string) answer {
	a := answer{status: 200, headers: map[string]string{"x-ms-request-charge": "2.5"}, body: body}
	for i := 0; i < len(headers); i += 2 {
		a.headers[headers[i]] = headers[i+1]
	}
	return a
}

// Documents come as the service has spelt them, whatever they hold and whatever stands beside them.
func TestPageFormats(t *testing.T) {
	docs := []string{
		`{"id":"a","data":"}],\"{[\\"}`, `{ "z" : [ { "]" : "[" } , 1e5 ] , "id" : "<b>&\u2028é" }`, `{}`, `"a value\\"`, `-1.50`,
		`[["]"]]`, `null`,
	}
	s := &script{answers: []answer{
		pageOf(`{"_rid":"x","Documents":[`+strings.Join(docs[:2], " , ")+`],"_count":2}`, "x-ms-continuation", "{\"more\":\"1\"}"),
		throttled("5"),
		pageOf(`{"Documents":[],"Documents2":[{"id":"none"}]}`, "x-ms-continuation", "2"),
		pageOf("\n{ \"_count\" : 5 , \"x\" : {\"Documents\":[1]} , \"Documents\" : [\n" +
			strings.Join(docs[2:], ",\t") + "\n] }\n"),
	}}
	c, waits := client(t, s, nil)
	var got []string
	var tokens []string
	s.seen = func(r *http.Request) { tokens = append(tokens, r.Header.Get("x-ms-continuation")) }
	usage, err := c.Chunks().Scan(t.Context(), store.Scan{Key: key, Range: anytime}, func(doc []byte) error {
		got = append(got, string(doc))
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, docs, got)
	require.Equal(t, []string{"", `{"more":"1"}`, `{"more":"1"}`, "2"}, tokens)
	require.Len(t, *waits, 1)
	require.Equal(t, store.Usage{Receipt: store.Receipt{RUs: 8, Throttled: 1}, Documents: len(docs)}, usage)
}

// A page that breaks off, or is none, is an error of unknown outcome, and what it has cost is counted.
func TestInvalidPages(t *testing.T) {
	broken := errors.New("connection reset")
	for _, body := range []string{
		``, `{"Documents":[{"id":"a"}`, `{"Documents":[{"id":"a"},{"id":"b`, `[]`, `{"_count":0}`, `{"Documents":{}}`, `<html>`,
		`{"Documents":[]}}`, `{"Documents":[{"a":1}x]}`,
	} {
		for _, err := range []error{nil, broken, io.ErrUnexpectedEOF} {
			a := pageOf(body)
			a.broken = err
			c, _ := client(t, &script{answers: []answer{a}}, nil)
			usage, got := c.Chunks().Scan(t.Context(), store.Scan{Key: key, Range: anytime}, func([]byte) error { return nil })
			require.Error(t, got, body)
			if err != nil {
				require.ErrorIs(t, got, err)
				require.Zero(t, usage.Documents)
			}
			require.InDelta(t, 2.5, usage.RUs, 1e-9, body)
			for _, sentinel := range []error{store.ErrBusy, store.ErrNoContainer, store.ErrRejected, store.ErrDenied} {
				require.NotErrorIs(t, got, sentinel)
			}
		}
	}
}

// accounts is a script that keeps its answers to reads of the account.
type accounts struct {
	*script
	mu   sync.Mutex
	sent []*account
}

// account is such an answer, being read.
type account struct {
	rest   *strings.Reader
	closed bool
}

func (a *account) Read(p []byte) (int, error) { return a.rest.Read(p) }

func (a *account) Close() error {
	a.closed = true
	return nil
}

func (a *accounts) Do(r *http.Request) (*http.Response, error) {
	resp, err := a.script.Do(r)
	if err == nil && strings.Trim(r.URL.Path, "/") == "" {
		sent := &account{rest: strings.NewReader(`{"writableLocations":[],"readableLocations":[]}`)}
		resp.Body = sent
		a.mu.Lock()
		a.sent = append(a.sent, sent)
		a.mu.Unlock()
	}
	return resp, err
}

// The SDK looks at the account before the first request and every five minutes, with the context of what is asked just
// then. That answer is no page of a query, and is read by the SDK.
func TestAccountAnswerIsNotTakenForPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const queries = 4
		s := &script{}
		for i := range queries {
			s.answers = append(s.answers, pageOf(fmt.Sprintf(`{"Documents":[{"id":"%d"}]}`, i)))
		}
		a := &accounts{script: s}
		c, _ := client(t, s, func(c *cosmos.Config) { c.Transport = a })
		var got []string
		for range queries {
			_, err := c.Chunks().Scan(t.Context(), store.Scan{Key: key, Range: anytime}, func(doc []byte) error {
				got = append(got, string(doc))
				return nil
			})
			require.NoError(t, err)
			time.Sleep(6 * time.Minute)
		}
		synctest.Wait()
		require.Equal(t, []string{`{"id":"0"}`, `{"id":"1"}`, `{"id":"2"}`, `{"id":"3"}`}, got)
		require.GreaterOrEqual(t, len(a.sent), queries-1)
		for _, sent := range a.sent {
			require.Zero(t, sent.rest.Len())
			require.True(t, sent.closed)
		}
	})
}

// The memory of a page is another one's as soon as it is not needed, however a scan has ended.
func TestPagesDoNotMix(t *testing.T) {
	doc := func(i int) string {
		return fmt.Sprintf(`{"id":"%d","data":%q}`, i, strings.Repeat(fmt.Sprint(i%10), 100+i*37%1000))
	}
	enough := errors.New("enough")
	for i := range 50 {
		s := &script{answers: []answer{
			pageOf(`{"Documents":[`+doc(i)+`,`+doc(i+1)+`]}`, "x-ms-continuation", "1"), pageOf(`{"Documents":[` + doc(i+2) + `]}`),
		}}
		c, _ := client(t, s, nil)
		n := 0
		_, err := c.Chunks().Scan(t.Context(), store.Scan{Key: key, Range: anytime}, func(got []byte) error {
			require.True(t, json.Valid(got))
			require.Equal(t, doc(i+n), string(got))
			if n++; n == i%4 {
				return enough
			}
			return nil
		})
		require.Equal(t, i%4 != 0, errors.Is(err, enough))
	}
}

// failing is a body that breaks off.
func failing(body string, err error) io.ReadCloser {
	return io.NopCloser(io.MultiReader(strings.NewReader(body), iotest.ErrReader(err)))
}
