package control

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// KindLease is the kind of documents that say which process does a piece of work.
const KindLease = "lease"

// Leases keep two processes from doing the same work at once. They save cost and promise nothing: a clock may be wrong,
// a holder slow. It holds no state and is safe for any number of callers.
type Leases struct {
	docs   Documents
	holder string
	now    func() time.Time
}

// NewLeases returns the Leases of a holder. No other holder may have its name.
func NewLeases(docs Documents, holder string, now func() time.Time) *Leases {
	return &Leases{docs, holder, now}
}

// leaseBody is a lease document: docs/format/control.md.
type leaseBody struct {
	Holder string `json:"holder"`
	Until  int64  `json:"until"`
}

// Take takes a lease, or makes it longer. held is false while another holder has it.
func (l *Leases) Take(ctx context.Context, name string, length time.Duration) (held bool, err error) {
	now := l.now()
	d := newDocument(KindLease, name, leaseBody{l.holder, now.Add(length).UnixMilli()})
	old, found, err := l.docs.Read(ctx, KindLease, name)
	if err != nil {
		return false, fmt.Errorf("take lease %s: %w", name, err)
	}
	if found {
		var body leaseBody
		if err := decode(old, &body); err != nil {
			return false, err
		}
		if body.Holder != l.holder && now.UnixMilli() < body.Until {
			return false, nil
		}
	}
	d.ETag = old.ETag
	switch _, err = put(ctx, l.docs, d); {
	case errors.Is(err, ErrExists), errors.Is(err, ErrChanged):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("take lease %s: %w", name, err)
	}
	return true, nil
}
