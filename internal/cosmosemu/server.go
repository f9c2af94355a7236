package cosmosemu

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"binnacle/internal/cosmosemu/budget"
	"binnacle/internal/cosmosemu/sql"
)

// ErrClosed is the error of a Server that has been closed.
var ErrClosed = errors.New("cosmosemu: server closed")

// Server is one emulated account. It is an http.Handler and safe for concurrent use.
type Server struct {
	cfg         Config
	store       *store
	catalog     *catalog
	signer      *signer
	queries     sql.Cache
	master      *budget.Budget // of metadata requests
	masterMeter budget.Meter
	offerPace   *budget.Pace
	endpoint    string

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
	st, err := openStore(cfg)
	if err != nil {
		return nil, fmt.Errorf("cosmosemu: %w", err)
	}
	c, err := loadCatalog(cfg, st)
	if err != nil {
		_ = st.close() // the error that matters is the other one
		return nil, fmt.Errorf("cosmosemu: %w", err)
	}
	var name [8]byte
	_, _ = rand.Read(name[:]) // never fails: crypto/rand
	return &Server{
		cfg: cfg, store: st, catalog: c, signer: newSigner(Key),
		offerPace: budget.NewPace(cfg.Limits.OfferChanges),
		master:    budget.New(cfg.Limits.MetadataRUs, budget.Rules{Unlimited: cfg.Unlimited}),
		endpoint:  "http://emu-" + hex.EncodeToString(name[:]) + ".binnacle.invalid/",
	}, nil
}

// Endpoint is an address that only Transport reaches. It is unique in the process, because SDKs keep
// process-wide caches by host.
func (s *Server) Endpoint() string { return s.endpoint }

// Close waits for the requests that are being served and closes the data. Later requests get
// ErrClosed, or 503 over HTTP.
func (s *Server) Close() error {
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if err := s.store.close(); err != nil {
		return fmt.Errorf("cosmosemu: close: %w", err)
	}
	return nil
}

// Run does the background work, which is to remove expired items and to finish splits, until the context ends. It returns
// nil then. Without Run, expired items are invisible all the same, but stay stored.
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
		}
	}
}

// Partitions gives the physical partitions of a container, in the order of their ranges.
func (s *Server) Partitions(database, container string) ([]PartitionStats, error) {
	co, err := s.catalog.find(database, container)
	if err != nil {
		return nil, fmt.Errorf("cosmosemu: %w", err)
	}
	now := s.cfg.Now()
	s.catalog.complete(now)
	parts := co.parts()
	out := make([]PartitionStats, len(parts))
	for i, p := range parts {
		out[i] = p.stats(now)
	}
	return out, nil
}

// Retired gives the physical partitions of a container that have been split since the Server was
// opened, with what they did until then. They hold nothing.
func (s *Server) Retired(database, container string) ([]PartitionStats, error) {
	co, err := s.catalog.find(database, container)
	if err != nil {
		return nil, fmt.Errorf("cosmosemu: %w", err)
	}
	now := s.cfg.Now()
	s.catalog.complete(now)
	s.catalog.mu.RLock()
	defer s.catalog.mu.RUnlock()
	out := make([]PartitionStats, len(co.retired))
	for i, p := range co.retired {
		out[i] = p.stats(now)
		out[i].Items, out[i].Bytes, out[i].Budget = 0, 0, 0
	}
	return out, nil
}

// ResetStats sets what Partitions counts back to zero, but for items and bytes.
func (s *Server) ResetStats() {
	s.catalog.mu.RLock()
	defer s.catalog.mu.RUnlock()
	for _, db := range s.catalog.databases {
		for _, co := range db.containers {
			for _, p := range slices.Concat(co.retired, co.parts()) {
				p.meter.Reset()
			}
		}
	}
}
