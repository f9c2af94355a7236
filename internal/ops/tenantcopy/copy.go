// Package tenantcopy copies the chunks of a tenant to another account, and compares both (rules T1 to T7 of
// docs/internals/protocol.md).
package tenantcopy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/retry"
	"binnacle/internal/settings"
	"binnacle/internal/store"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
)

// Side is one of the two accounts.
type Side struct {
	Documents store.Documents
	OfTenants store.Documents // documents that tenants write
	Directory *control.Directory
	Orders    *erasure.Orders
	Catalog   store.Catalog
	Chunks    store.Chunks
	Now       func() time.Time // clock of the side's account; Config.Now
}

// Config is what a copy needs. From, To, Tenant and Days have no default.
type Config struct {
	From, To Side
	Tenant   string
	Device   string // empty: all
	// Days bound event times, from midnight to midnight.
	Days telemetry.Range

	// Settle is longer than replicas of the source lag, and its service's clocks differ.
	Settle   time.Duration    `default:"5m"`
	DryRun   bool             // nothing is changed
	RUs      float64          // budget a second on each side; 0: none
	Attempts int              `default:"10"` // at one thing before the copy fails
	Now      func() time.Time // time.Now
	Progress func(Result)     // gets what was done after each part
	Logger   *slog.Logger     // none
}

// Result is what a copy has done, and what both sides have in common then.
type Result struct {
	Copied int `json:"copied"` // chunks that were created, or would be
	// Replaced counts fences, and chunks with rows that were erased since.
	Replaced int `json:"replaced"`
	// Bytes counts the bytes of both.
	Bytes    int64 `json:"bytes"`
	Expiring int   `json:"expiring"` // chunks left out because a retention hides them

	Chains int `json:"chains"` // compared
	Chunks int `json:"chunks"`
	// Erased counts the chunks without rows.
	Erased  int   `json:"erased"`
	Rows    int64 `json:"rows"`
	Through int64 `json:"through"` // the sum of the last offsets of the chains
	// Digest is that of all compared chunks, at the source.
	Digest   string `json:"digest"`
	ToDigest string `json:"toDigest"` // and at the target
	OnlyTo   int    `json:"onlyTo"`   // chunks that the source keeps no longer
	// Devices counts the devices in the catalog, by the account that the source has them from.
	Devices int `json:"devices"`

	RUs       float64  `json:"rus"` // at both sides
	Different []string `json:"different,omitempty"`
	Missing   []string `json:"missing,omitempty"` // containers that the target lacks; of a dry run
	// Streams maps streams of the source to their numbers at the target.
	Streams map[uint32]uint32 `json:"streams"`
}

// IsEqual reports whether the target has what the source has.
func (r *Result) IsEqual() bool { return len(r.Different) == 0 && r.Digest == r.ToDigest }

// Copier copies once. It may die anywhere, and two may run.
type Copier struct {
	cfg      Config
	fromPace *retry.RUPacer
	toPace   *retry.RUPacer
	account  string // the name of the source
	// times are the first and last instants that chunks of the source have of each device: its catalog may be behind.
	times map[deviceOf]telemetry.Range
	since int64              // s since 1970 UTC by the source's clock: older chunks have been looked at
	seen  map[chunkOf]string // the ETags of the chunks that were stored since then, and have been looked at

	mu     sync.Mutex // guards below
	result Result
	// streams is keyed by the number at the source.
	streams map[uint32]uint32
	isNamed bool // all streams are
	facts   facts
}

// deviceOf names a device, and the account that the source has copied it from, empty for none.
type deviceOf struct{ device, account string }

// facts are what both sides' control documents say.
type facts struct {
	at       time.Time
	from, to *control.Snapshot
	source   tenant.Tenant
	target   tenant.Tenant
	isThere  bool // the target knows the tenant
}

// New makes a Copier.
func New(cfg Config) *Copier {
	settings.Defaults(&cfg)
	for _, side := range []*Side{&cfg.From, &cfg.To} {
		if side.Now == nil {
			side.Now = cfg.Now
		}
	}
	if cfg.Progress == nil {
		cfg.Progress = func(Result) {}
	}
	pacer := func() *retry.RUPacer { return &retry.RUPacer{Rate: cfg.RUs, Now: cfg.Now, Sleep: retry.Pause} }
	return &Copier{cfg: cfg, fromPace: pacer(), toPace: pacer(), times: make(map[deviceOf]telemetry.Range),
		seen: make(map[chunkOf]string)}
}

// persist tries something again that may be tried again.
func (c *Copier) persist(ctx context.Context, attempt func(context.Context) error) error {
	for pauses := (retry.Policy{First: 500 * time.Millisecond, Max: 30 * time.Second}).Begin(); ; {
		err := attempt(ctx)
		if err == nil || ctx.Err() != nil || isFinal(err) || pauses.Count()+1 >= c.cfg.Attempts {
			return err
		}
		c.cfg.Logger.Warn("the copy is tried again", "tenant", c.cfg.Tenant, "error", err)
		if waited := pauses.Wait(ctx); waited != nil {
			return err
		}
	}
}

func isFinal(err error) bool {
	for _, final := range []error{store.ErrRejected, store.ErrDenied, store.ErrTooLarge, store.ErrKeyFull, errFinal} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}

// errFinal is of what another attempt would not change.
var errFinal = errors.New("the copy can't go on")

// begin names the source, and makes the tenant known at the target.
func (c *Copier) begin(ctx context.Context) (err error) {
	from, to := c.cfg.From, c.cfg.To
	name := control.AccountName
	if c.cfg.DryRun {
		name = func(ctx context.Context, docs store.Documents) (string, error) {
			name, _, err := control.KnownAccountName(ctx, docs)
			return name, err
		}
	}
	if c.account, err = name(ctx, from.Documents); err != nil {
		return err
	}
	v, err := from.Directory.Refresh(ctx)
	if err != nil {
		return err
	}
	if err := v.Damaged(c.cfg.Tenant); err != nil {
		return fmt.Errorf("%w: %w", errFinal, err)
	}
	t, known := v.Tenant(c.cfg.Tenant)
	if !known {
		return fmt.Errorf("%w: tenant %s: %w", errFinal, c.cfg.Tenant, tenant.ErrNoTenant)
	}
	doc, found, err := from.Documents.Read(ctx, tenant.Kind, c.cfg.Tenant)
	if err != nil || !found || c.cfg.DryRun {
		return err
	}
	epochs := t.Placement.Epochs()
	_, err = to.Directory.Adopt(ctx, doc, epochs[len(epochs)-1])
	return err
}

// mapStreams gives each stream of the source a number at the target, in the order of their numbers.
func (c *Copier) mapStreams(ctx context.Context) error {
	to := stream.NewStreams(c.cfg.To.Documents)
	if c.cfg.DryRun {
		all, err := to.All(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.streams = stream.Copied(all, c.account)
		c.result.Streams = c.streams
		return err
	}
	all, err := stream.NewStreams(c.cfg.From.Documents).All(ctx)
	if err != nil {
		return err
	}
	streams, isNamed := make(map[uint32]uint32, len(all)), true
	for _, s := range all {
		copied, err := to.CopiedStream(ctx, c.account, s.Number)
		if err != nil {
			return err
		}
		streams[s.Number], isNamed = copied.Number, isNamed && copied.Named
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams, c.isNamed, c.result.Streams = streams, isNamed, maps.Clone(streams)
	return nil
}

func (c *Copier) streamAt(number uint32) (uint32, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, known := c.streams[number]
	return at, known
}

// streamOf returns the number at the source of a stream of the target, and whether it was copied from there.
func (c *Copier) streamOf(number uint32) (uint32, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for of, at := range c.streams {
		if at == number {
			return of, true
		}
	}
	return 0, false
}

// pay waits until a charge fits the budget of a side.
func (c *Copier) pay(ctx context.Context, pace *retry.RUPacer, rus float64) error {
	c.mu.Lock()
	c.result.RUs += rus
	c.mu.Unlock()
	return pace.Wait(ctx, rus)
}

// orders returns the orders of both sides as a text.
func (c *Copier) orders(v facts) string {
	var ids []string
	for _, o := range slices.Concat(v.from.Erasures(c.cfg.Tenant), v.to.Erasures(c.cfg.Tenant)) {
		if o.IsAcknowledged() {
			ids = append(ids, o.ID)
		}
	}
	return fmt.Sprint(ids)
}
