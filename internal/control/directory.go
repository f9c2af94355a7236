package control

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"binnacle/internal/retry"
	"binnacle/internal/settings"
	"binnacle/internal/store"
	"binnacle/sharding"

	"golang.org/x/sync/semaphore"
)

// DirectoryConfig is what a Directory needs. Only Documents has no default. Its tags are package settings's.
type DirectoryConfig struct {
	Documents store.Documents  `kong:"-"`
	Now       func() time.Time `kong:"-"` // time.Now
	// Check fails while this process must decide nothing that cannot be undone: its clock is wrong. Nil: it never fails.
	Check func() error `kong:"-"`

	Every time.Duration `kong:"-" default:"30s"` // between refreshes
	// Feed lists what has changed, every FeedEvery. Without one everything is read every time.
	Feed      store.Feed    `kong:"-"`
	FeedEvery time.Duration `kong:"-" default:"2s"`
	// Lead is how long before its first day an epoch must be stored: longer than the future that
	// readings are accepted from, and Every, and Margin together.
	Lead time.Duration `kong:"-" default:"2h"`
	// Margin is what a copy may be older than Lead allows for, 15 min: clocks that differ, a create that
	// takes its time, a replica that lags.
	Margin time.Duration `kong:"-"`
	// Slots is the number of slots of new tenants, sharding.DefaultSlots by default.
	Slots int `kong:"-"`

	Retention time.Duration `help:"Retention of new tenants, such as 30d. Default: unlimited."`
	MaxMonths int           `help:"Most months of containers that readings of a tenant may request in 30 days." default:"12"`

	Logger *slog.Logger `kong:"-"` // none
}

// Directory holds a copy of tenants, epochs and months and keeps it fresh. It is safe for any number
// of callers.
type Directory struct {
	cfg     DirectoryConfig
	current atomic.Pointer[Snapshot]

	asking  *semaphore.Weighted // one AskMonth at a time
	reading *semaphore.Weighted // one read at a time

	// docs holds the documents of the snapshot, none before the first read; reading guards it.
	docs      *documentsOf
	following atomic.Bool // the feed works, or was not tried yet

	// feedAt is when a feed that failed is tried again; reading guards both.
	feedAt      time.Time
	feedTrouble retry.Trouble

	damageTrouble retry.Trouble // with documents that can't be understood; reading guards it

	mu sync.Mutex
	// next is the read that has not begun yet and that callers wait for; nil if there is none; guarded by mu.
	next *pendingRead
}

// pendingRead is one read that callers share.
type pendingRead struct {
	done      chan struct{} // closed at the end; what follows is set before
	snapshot  *Snapshot
	err       error
	abandoned bool // the context of the caller that read has ended
}

// NewDirectory makes a Directory that has read nothing yet.
func NewDirectory(cfg DirectoryConfig) *Directory {
	if cfg.Check == nil {
		cfg.Check = func() error { return nil }
	}
	settings.Defaults(&cfg)
	if cfg.Margin <= 0 {
		cfg.Margin = min(15*time.Minute, cfg.Lead/2)
	}
	cfg.Slots = cmp.Or(cfg.Slots, sharding.DefaultSlots)
	d := &Directory{cfg: cfg, asking: semaphore.NewWeighted(1), reading: semaphore.NewWeighted(1), docs: &documentsOf{}}
	d.feedTrouble = retry.Trouble{Log: cfg.Logger, Remind: wholeEvery, Over: "changes of control documents are read again",
		Failing: "cannot read changes of control documents: reading all of them instead"}
	d.damageTrouble = retry.Trouble{Log: cfg.Logger, Remind: remindDamage, Over: "control documents are understood again",
		Failing: "control documents can't be understood: tenants that they are about are left out"}
	d.current.Store(&Snapshot{})
	return d
}

// Run refreshes the snapshot at once and then regularly, until ctx ends; then it returns nil. Where a feed lists the
// changes, which costs little, it refreshes often, and more seldom where everything has to be read. A refresh that
// fails is logged, and the snapshot stays as it is: Snapshot.CanPlace bounds the use of an old one.
func (d *Directory) Run(ctx context.Context) error {
	loop := retry.Loop{Log: d.cfg.Logger, Failing: "control documents not read, the old snapshot stays",
		Over: "control documents are read again", Next: func() time.Duration {
			if d.following.Load() {
				return min(d.cfg.Every, retry.Paced(ctx, d.cfg.FeedEvery))
			}
			return d.cfg.Every
		}}
	return loop.Run(ctx, func(ctx context.Context) error {
		_, err := d.Refresh(ctx)
		return err
	})
}

// Age returns how long ago the read of a snapshot began.
func (d *Directory) Age(v *Snapshot) time.Duration { return d.cfg.Now().Sub(v.ReadAt) }

// CheckClock fails while this process must decide nothing that cannot be undone.
func (d *Directory) CheckClock() error { return d.cfg.Check() }

// Snapshot returns the newest snapshot, never nil; it is empty before the first refresh. It takes no lock.
func (d *Directory) Snapshot() *Snapshot { return d.current.Load() }

// Refresh reads everything again and returns the new copy. Callers that come while a read is under way share the next
// one, which begins when that one has ended: the answer has the documents that were stored before the call, as far as
// the store's replicas are up to date.
func (d *Directory) Refresh(ctx context.Context) (*Snapshot, error) {
	for {
		f, mine := d.join()
		if mine {
			d.lead(ctx, f)
			return f.snapshot, f.err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-f.done:
		}
		if !f.abandoned {
			return f.snapshot, f.err
		}
	}
}

// join returns the next read to begin, and reports whether it is mine: then the caller has to do it.
func (d *Directory) join() (f *pendingRead, mine bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.next == nil {
		d.next = &pendingRead{done: make(chan struct{})}
		return d.next, true
	}
	return d.next, false
}

func (d *Directory) lead(ctx context.Context, f *pendingRead) {
	defer close(f.done)
	err := d.reading.Acquire(ctx, 1)
	d.mu.Lock()
	d.next = nil
	d.mu.Unlock()
	if err == nil {
		f.snapshot, err = d.readSnapshot(ctx)
		d.reading.Release(1)
	}
	if err != nil {
		f.err, f.abandoned = err, ctx.Err() != nil
	}
}

// Damaged returns why a tenant is left out of the snapshot, nil where it is not: one of its documents can't be
// understood. Its queries fail, its rows wait, and new readings of it are refused; without the document they would be
// answered in part, or stored where no query looks.
func (v *Snapshot) Damaged(tenant string) error {
	for _, d := range v.damage {
		if d.Tenant == tenant {
			return d
		}
	}
	return nil
}

// Damage returns all documents that can't be understood, in the order of their kinds and ids.
func (v *Snapshot) Damage() []*store.DamagedError { return v.damage }

// remindDamage is how often the log says that documents are damaged.
const remindDamage = 10 * time.Minute

// takeDamage takes what can't be understood of a snapshot that is being made, and the tenants of it out.
func (v *Snapshot) takeDamage(all store.Damage) {
	slices.SortStableFunc(all, func(a, b *store.DamagedError) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.ID, b.ID))
	})
	v.damage = all
	for _, d := range all {
		delete(v.tenants, d.Tenant)
		delete(v.erasures, d.Tenant)
	}
}

// reportDamage logs damaged documents: when there are others, and now and then.
func (d *Directory) reportDamage(v *Snapshot) {
	all := make([]error, len(v.damage))
	for i, x := range v.damage {
		all[i] = x.Cause
	}
	d.damageTrouble.Report(errors.Join(all...), "documents", len(all))
}
