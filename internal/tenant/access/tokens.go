package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/singleflight"

	"binnacle/internal/tenant"
)

// tokenCache is a copy of the tokens in the control documents.
type tokenCache struct {
	list  func(ctx context.Context) ([]tenant.Token, error)
	now   func() time.Time
	every time.Duration
	stale time.Duration
	log   *slog.Logger
	reads singleflight.Group

	damaged prometheus.Gauge

	mu   sync.Mutex // guards below
	byID map[string]tenant.Token
	// at is when the read of byID began.
	at time.Time
}

func newTokens(cfg Config) *tokenCache {
	return &tokenCache{
		list: cfg.Tokens, now: cfg.Now, every: cfg.Every, stale: cfg.Stale, log: cfg.Logger,
		damaged: promauto.With(cfg.Registerer).NewGauge(prometheus.GaugeOpts{
			Name: "binnacle_access_damaged_tokens",
			Help: "Token documents that can't be read. Nobody can use such a token.",
		}),
	}
}

// again is how long after a read an unknown token is denied without another read: a new token works within a second,
// and guesses cost the store at most one read a second.
const again = time.Second

var errUnread = errors.New("the tokens have not been read for too long")

// find returns the token with a secret. Any error is a *Denied.
func (s *tokenCache) find(ctx context.Context, secret string) (tenant.Token, error) {
	id, _ := tenant.TokenID(secret)
	t, known, age := s.get(id)
	var err error
	if age >= s.every || !known && age >= again {
		err = s.read(ctx)
		t, known, age = s.get(id)
	}
	if age >= s.stale {
		return tenant.Token{}, &Denied{
			Status: http.StatusServiceUnavailable, Detail: "tokens can't be checked now", Cause: errors.Join(errUnread, err),
		}
	}
	good := t.Matches(secret) // for an unknown id too: it takes as long
	if !known || !good {
		return tenant.Token{}, unauthorized("the token is not valid", nil)
	}
	if why, ended := t.Ended(s.now()); ended {
		return tenant.Token{}, unauthorized("the token is "+why, nil)
	}
	return t, nil
}

func (s *tokenCache) get(id string) (t tenant.Token, known bool, age time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, known = s.byID[id]
	if s.at.IsZero() {
		return t, known, s.stale
	}
	return t, known, s.now().Sub(s.at)
}

// readTimeout bounds how long a request waits for tokens to be read.
const readTimeout = 5 * time.Second

// read reads all tokens again; callers that come during a read share it.
func (s *tokenCache) read(ctx context.Context) error {
	done := s.reads.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		began := s.now()
		all, err := s.list(ctx)
		if err != nil {
			return nil, fmt.Errorf("read tokens: %w", err)
		}
		s.replace(all, began)
		return nil, nil
	})
	select {
	case r := <-done:
		return r.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// replace makes the tokens of a read that began at an instant the copy. It logs a damaged one when it finds it first.
func (s *tokenCache) replace(all []tenant.Token, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	byID, damaged := make(map[string]tenant.Token, len(all)), 0
	for _, t := range all {
		byID[t.ID] = t
		if t.Damage == nil {
			continue
		}
		damaged++
		if s.byID[t.ID].Damage == nil {
			s.log.Warn("a token document can't be read: nobody can use this token", "token", t.ID, "error", t.Damage)
		}
	}
	s.damaged.Set(float64(damaged))
	s.byID, s.at = byID, began
}
