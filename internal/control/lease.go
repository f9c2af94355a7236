package control

import (
	"binnacle/internal/store"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// KindLease is the kind of documents that say which process does a piece of work.
const KindLease = "lease"

// Leases keep two processes from doing the same work at once. They save cost and promise nothing: a holder may be slow.
// It is safe for any number of callers. Nil has no other holders.
type Leases struct {
	docs   store.Documents
	holder string
	now    func() time.Time
	check  func() error

	mu   sync.Mutex           // guards below
	seen map[string]seenLease // leases of other holders, by name
}

// seenLease is since when a lease of another holder is as it is.
type seenLease struct {
	etag  string
	since time.Time
}

// NewLeases returns the Leases of a holder. No other holder may have its name.
func NewLeases(docs store.Documents, holder string, now func() time.Time) *Leases {
	return &Leases{docs: docs, holder: holder, now: now, check: func() error { return nil },
		seen: make(map[string]seenLease)}
}

// OnlyWhile has Take fail with the error of check, which is called when the service has answered, and returns l. It is
// set before l is used.
func (l *Leases) OnlyWhile(check func() error) *Leases {
	l.check = check
	return l
}

// leaseBody is a lease document: docs/internals/format/control.md.
type leaseBody struct {
	Holder string `json:"holder"`
	Until  int64  `json:"until"`
}

// Take takes a lease, or makes it longer. held is false while another holder has it: until the time that it has stored,
// and no longer than length after this process has first seen that, since the holder's clock may have been wrong.
func (l *Leases) Take(ctx context.Context, name string, length time.Duration) (held bool, err error) {
	if l == nil {
		return true, nil
	}
	old, found, err := l.docs.Read(ctx, KindLease, name)
	if err == nil {
		err = l.check()
	}
	if err != nil {
		return false, fmt.Errorf("take lease %s: %w", name, err)
	}
	now := l.now()
	if found {
		var body leaseBody
		if err := old.Decode(&body); err != nil {
			return false, err
		}
		if body.Holder != l.holder && now.UnixMilli() < body.Until && !l.isStale(old, now, length) {
			return false, nil
		}
	}
	d := store.NewDocument(KindLease, name, leaseBody{l.holder, now.Add(length).UnixMilli()})
	d.ETag = old.ETag
	switch _, err = store.Put(ctx, l.docs, d); {
	case errors.Is(err, store.ErrExists), errors.Is(err, store.ErrChanged):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("take lease %s: %w", name, err)
	}
	return true, nil
}

// isStale reports whether a lease of another holder has been the same for so long.
func (l *Leases) isStale(lease store.Document, now time.Time, length time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seen := l.seen[lease.ID]; seen.etag == lease.ETag {
		return now.Sub(seen.since) >= length
	}
	l.seen[lease.ID] = seenLease{lease.ETag, now}
	return false
}
