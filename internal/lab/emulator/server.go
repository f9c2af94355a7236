package emulator

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"binnacle/internal/lab/emulator/budget"
	"binnacle/internal/lab/emulator/engine"
	"binnacle/internal/lab/emulator/fault"
	"binnacle/internal/lab/emulator/sql"
)

// ErrClosed is the error of a Server that has been closed.
var ErrClosed = errors.New("emulator: server closed")

// Server is one emulated account. It is an http.Handler and safe for concurrent use.
type Server struct {
	cfg     Config
	account *engine.Account
	signer  *signer
	queries sql.Cache
	// master limits metadata requests.
	master      *budget.Budget
	masterMeter budget.Meter
	endpoint    string
	faults      fault.Set
	charges     *chargeCount

	// closing is read-locked by every request; Close waits for them.
	closing sync.RWMutex
	closed  bool
}

// Open opens the data and gives a Server that is ready to serve. It starts nothing but what the
// storage engine needs; Run does the work in the background. A data directory that is in use is an
// error that names it.
func Open(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	a, err := engine.Open(cfg.engine())
	if err != nil {
		return nil, fmt.Errorf("emulator: %w", err)
	}
	dir := cfg.DataDir
	if cfg.InMemory {
		dir = ""
	}
	counted, err := openCharges(dir)
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	var name [8]byte
	_, _ = rand.Read(name[:]) // never fails: crypto/rand
	return &Server{
		cfg: cfg, account: a, charges: counted, signer: newSigner(Key),
		master:   budget.New(cfg.Limits.MetadataRUs, budget.Rules{Unlimited: cfg.Unlimited}),
		endpoint: "http://emu-" + hex.EncodeToString(name[:]) + ".binnacle.invalid/",
	}, nil
}

// Endpoint returns an address that only Transport reaches. It is unique in the process, because SDKs keep
// process-wide caches by host.
func (s *Server) Endpoint() string { return s.endpoint }

// Close waits for the requests that are being served and closes the data. Later requests get
// ErrClosed, or 503 over HTTP.
func (s *Server) Close() error {
	s.faults.Clear() // requests may hang by one
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	err := s.charges.save()
	if ended := s.account.Close(); ended != nil {
		return errors.Join(err, fmt.Errorf("emulator: close: %w", ended))
	}
	return err
}

// enter keeps the Server from being closed until closing.RUnlock is called.
func (s *Server) enter() error {
	s.closing.RLock()
	if s.closed {
		s.closing.RUnlock()
		return ErrClosed
	}
	return nil
}

// Run does the background work, which is to remove expired items and to finish splits, until the context
// ends. It returns nil then. Without Run, expired items are invisible all the same, but stay stored.
func (s *Server) Run(ctx context.Context) error {
	tick := time.NewTicker(s.cfg.SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if _, err := s.Sweep(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, ErrClosed) {
				return err
			}
			if err := s.charges.save(); err != nil {
				return err
			}
		}
	}
}

// Partitions returns the physical partitions of a container, in the order of their ranges. What one has done is
// forgotten when it is split.
func (s *Server) Partitions(database, name string) ([]engine.Stats, error) {
	now := s.cfg.Now()
	s.account.Complete(now)
	co, err := s.account.Container(database, name)
	if err != nil {
		return nil, fmt.Errorf("emulator: %w", err)
	}
	return co.Stats(now), nil
}

// ResetStats sets what Partitions counts back to zero, but for items and bytes.
func (s *Server) ResetStats() { s.account.ResetMeters() }

// Sweep removes the items that have expired by the Server's clock, and returns their number. It charges
// nothing, as the service does with throughput that a container leaves unused. Run calls it; a test with its
// own clock may too.
func (s *Server) Sweep(ctx context.Context) (removed int, err error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.closing.RUnlock()
	now := s.cfg.Now()
	s.account.Complete(now)
	if removed, err = s.account.Sweep(ctx, now); err != nil {
		return removed, fmt.Errorf("emulator: remove expired items: %w", err)
	}
	return removed, nil
}

// Split splits one physical partition of a container in two, at once: at the median of its stored bytes, or in
// the middle of its range when it holds fewer than two partition keys. The two have new ids; the old one is
// answered 410/1002 from then on. Split divides the container's throughput over the new partitions.
func (s *Server) Split(database, container, rangeID string) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.closing.RUnlock()
	co, err := s.account.Container(database, container)
	if err != nil {
		return fmt.Errorf("emulator: %w", err)
	}
	if err := co.Split(rangeID); err != nil {
		return fmt.Errorf("emulator: split partition key range %s: %w", rangeID, err)
	}
	return nil
}

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
