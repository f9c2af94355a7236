package emulator

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// Transport carries requests to a Server in the same process, without a socket. It is a transporter
// for azcore's ClientOptions.Transport, and an http.RoundTripper.
type Transport struct{ server *Server }

// Transport returns a way to the Server inside the process.
func (s *Server) Transport() *Transport { return &Transport{server: s} }

// Do serves a request in the caller's goroutine. When the request's context ends before the answer, Do returns
// its error, and a write may have been done all the same: as over a network.
func (t *Transport) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if err := t.server.enter(); err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, err)
	}
	t.server.closing.RUnlock()
	w := &memoryWriter{header: make(http.Header, 12)}
	t.server.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if w.dropped {
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, io.ErrUnexpectedEOF)
	}
	resp := &http.Response{
		Status: strconv.Itoa(w.status) + " " + http.StatusText(w.status), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, ContentLength: int64(len(w.body)), Request: r, Body: http.NoBody,
	}
	if len(w.body) > 0 {
		resp.Body = io.NopCloser(bytes.NewReader(w.body))
	}
	return resp, nil
}

// RoundTrip does what Do does.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) { return t.Do(r) }

// memoryWriter keeps an answer; its body is the handler's own slice.
type memoryWriter struct {
	header http.Header
	status int
	body   []byte

	dropped bool // there is no answer
}

// Header implements http.ResponseWriter.
func (w *memoryWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *memoryWriter) WriteHeader(status int) { w.status = status }

// Write implements http.ResponseWriter.
func (w *memoryWriter) Write(b []byte) (int, error) {
	w.body = append(w.body, b...)
	return len(b), nil
}
