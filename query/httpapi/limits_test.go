package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/httpapi"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// post sends a form.
func (s server) post(t *testing.T, path, kind, body string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set(httpapi.TenantHeader, "acme")
	r.Header.Set("Content-Type", kind)
	resp, err := s.Client().Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return answer{resp.StatusCode, resp.Header, resp.Trailer, string(got)}
}

// names is so many values of a parameter.
func names(parameter, format string, n int) string {
	v := url.Values{}
	for i := range n {
		v.Add(parameter, fmt.Sprintf(format, i))
	}
	return v.Encode()
}

const form = "application/x-www-form-urlencoded"

func TestNumberOfNamesIsBounded(t *testing.T) {
	s := newServer(t, nil)
	s.fill()
	for _, p := range []string{"device", "metric"} {
		require.Equal(t, 200, s.get(t, "/api/v1/readings?"+names(p, "m%d", 100)).status)
		a := s.get(t, "/api/v1/readings?"+names(p, "m%d", 101))
		require.Equal(t, 400, a.status)
		require.Equal(t, p, parseProblem(t, a).Parameter)
		require.Contains(t, a.body, "at most 100 are allowed in a URL, 10000 in the form of a POST")

		require.Equal(t, 200, s.post(t, "/api/v1/readings", form, names(p, "m%d", 10_000)).status)
		a = s.post(t, "/api/v1/readings?"+p+"=one", form, names(p, "m%d", 10_000))
		require.Equal(t, 400, a.status, "URL and form count together")
		require.Contains(t, parseProblem(t, a).Detail, "is given 10001 times; at most 10000 are allowed")
	}
}

func TestPostForm(t *testing.T) {
	s := newServer(t, nil)
	s.fill()
	want := s.get(t, "/api/v1/readings?device=m1&metric=temp&metric=n&order=desc").body
	require.Equal(t, want, s.post(t, "/api/v1/readings", form, "device=m1&metric=temp&metric=n&order=desc").body)
	require.Equal(t, want, s.post(t, "/api/v1/readings?device=m1&order=desc", form+"; charset=utf-8",
		"metric=temp&metric=n").body)
	for body, about := range map[string]string{
		"order=desc&order=asc": "order", "unknown=1": "unknown", "a=%zz": "body",
		strings.Repeat("device=m1&", 500_000): "body",
	} {
		a := s.post(t, "/api/v1/readings", form, body)
		require.Equal(t, 400, a.status)
		require.Equal(t, about, parseProblem(t, a).Parameter)
	}
	require.Equal(t, 400, s.post(t, "/api/v1/readings?order=asc", form, "order=desc").status, "once means once")
	require.Equal(t, "Content-Type", parseProblem(t, s.post(t, "/api/v1/readings", "application/json", "{}")).Parameter)
}

// Over HTTP/1.0 nothing is answered that looks whole when it broke off.
func TestHTTP10(t *testing.T) {
	s := newServer(t, nil)
	s.fill()
	for format, status := range map[string]int{"json": 200, "ndjson": 505, "csv": 505, "csv&layout=long": 505} {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		require.NoError(t, err)
		_, err = fmt.Fprintf(c, "GET /api/v1/readings?format=%s HTTP/1.0\r\n%s: acme\r\n\r\n", format, httpapi.TenantHeader)
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.Equal(t, status, resp.StatusCode, format)
		if status != 200 {
			require.Contains(t, string(body), "format=json")
		}
	}
}

func TestLimitAndBusyAnswers(t *testing.T) {
	s := newServer(t, func(c *query.Config, _ *httpapi.Config) { c.MaxRUs = 5 })
	s.flood(10)
	a := s.get(t, "/api/v1/readings")
	require.Equal(t, 422, a.status)
	require.Contains(t, parseProblem(t, a).Detail, "5 request units")

	s = newServer(t, func(c *query.Config, _ *httpapi.Config) { c.MemoryBytes, c.TotalMemoryBytes = 2<<20, 2<<20 })
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 100 {
		var records []querytest.Record
		for k := range 10 {
			text := make([]byte, 4000)
			for j := range text {
				text[j] = ' ' + byte(rnd.IntN(90))
			}
			n := int64(10*i + k)
			records = append(records, record(n, fmt.Sprintf("m%d", i%10), noon.Add(time.Duration(n-1000)*time.Second), nil,
				field("log", telemetry.TextValue(string(text)))))
		}
		s.world.Chunk(records...)
	}
	path := "/api/v1/readings?from=-1d&format=csv&" + names("device", "m%d", 10)
	require.Equal(t, 200, s.get(t, path+"&layout=long").status)
	a = s.get(t, path)
	require.Equal(t, 503, a.status, "what is held back counts as well")
	require.Equal(t, "1", a.header.Get("Retry-After"))
}

// pipes is a listener with connections that hold nothing: what is written waits for its reader.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A client that takes nothing of its answer loses it, and gives its turn to others.
func TestClientThatDoesNotRead(t *testing.T) {
	for _, encoding := range []string{"identity", "gzip"} {
		synctest.Test(t, func(t *testing.T) {
			world := newServer(t, nil)
			world.Close()
			var records []querytest.Record // in a head: zstd's channels are not of this bubble
			for i := range 20_000 {
				records = append(records, record(int64(i), "m1", noon.Add(time.Duration(i-20_000)*time.Second), nil,
					float("temp", math.Sqrt(float64(i)))))
			}
			world.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 20_000}, records...)
			q, err := query.New(query.Config{
				Reader: world.world.Store, Heads: world.world.Heads, Directory: world.world.Directory, Catalog: world.world.Catalog,
				Now: func() time.Time { return noon }, MaxQueries: 1, QueueTimeout: time.Hour,
			})
			require.NoError(t, err)
			h, err := httpapi.New(httpapi.Config{
				Querier: q, Now: func() time.Time { return noon }, WriteTimeout: 30 * time.Second,
				Logger: slog.New(slog.DiscardHandler),
			})
			require.NoError(t, err)
			listener := &pipes{make(chan net.Conn), make(chan struct{})}
			served := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
			over := make(chan error, 1)
			go func() { over <- served.Serve(listener) }()
			ask := func() net.Conn {
				client, server := net.Pipe()
				listener.conns <- local{server}
				_, err := fmt.Fprintf(client, "GET /api/v1/readings?format=ndjson&from=-1d HTTP/1.1\r\nHost: x\r\n"+
					"Accept-Encoding: %s\r\n%s: acme\r\n\r\n", encoding, httpapi.TenantHeader)
				require.NoError(t, err)
				return client
			}
			began := time.Now()
			stalled := ask()
			synctest.Wait()
			resp, err := http.ReadResponse(bufio.NewReader(ask()), nil)
			require.NoError(t, err)
			require.Equal(t, 200, resp.StatusCode)
			require.Equal(t, 30*time.Second, time.Since(began), "as long as the first one could take it")
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(t, err)
			require.Equal(t, "true", resp.Trailer.Get("Binnacle-Complete"))
			_, err = io.Copy(io.Discard, stalled)
			require.NoError(t, err)

			close(listener.ended)
			require.True(t, errors.Is(<-over, net.ErrClosed))
			require.NoError(t, served.Shutdown(context.Background()))
		})
	}
}

// local is a pipe with its other end on this machine.
type local struct{ net.Conn }

// RemoteAddr is net.Conn.
func (local) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
