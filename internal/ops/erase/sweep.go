// Package erase sweeps what orders of erasure erase out of the store (rules E-R7 and E-R8 of
// docs/internals/protocol.md).
package erase

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/retry"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/sharding"
)

// passes is how often a part of a container is read before the sweep of its order fails and begins again.
const passes = 20

// progressEvery is the time after which progress within a container is stored.
const progressEvery = 10 * time.Second

// sweep is the sweep of one order. All that it knows is in the chunks: it may die anywhere, and two may run.
type sweep struct {
	*Sweeper
	order  *erasure.Order
	survey bool // nothing is changed, and what would be erased is counted
	facts  *control.Snapshot
	tenant tenant.Tenant
	places places

	progress erasure.Progress
	// stored is when progress was stored.
	stored time.Time
}

// place is what is found under a first-level key, when nothing is left to be done there.
type place struct {
	erasure.Swept
	digests []string
}

func (p *place) digest() string {
	slices.Sort(p.digests)
	sum := sha256.Sum256([]byte(strings.Join(p.digests, "\n")))
	return hex.EncodeToString(sum[:])
}

// note counts what a chunk says that an order has erased.
func (p *place) note(f *found, order *erasure.Order) {
	if f.IsFence() {
		p.Fences++
	}
	for _, e := range f.Erased {
		if e.Order == order.ID {
			p.Chunks++
			p.Rows += e.Rows
			p.digests = append(p.digests, fmt.Sprintf("%s %s %s", f.Device, f.ID, e.Digest))
		}
	}
}

// found is a chunk of a chain that the order touches.
type found struct {
	store.StoredChunk
	digest string
}

// chainOf is a chain that the order touches.
type chainOf struct {
	device    string
	day       telemetry.Day
	partition erasure.Partition
}

// run sweeps all places of the order, and returns what they have then.
func (s *sweep) run(ctx context.Context) ([]erasure.Swept, error) {
	days := telemetry.Range{From: s.order.From.Start(), To: s.order.To.Start()}
	containers := slices.Sorted(slices.Values(s.facts.ContainersOf(s.order.Tenant, days)))
	s.progress.Of = len(containers)
	for i, container := range containers {
		_, span, _ := sharding.ParseContainer(container)
		part := telemetry.Range{From: max(days.From, span.Range().From), To: min(days.To, span.Range().To)}
		if err := s.container(ctx, container, part); err != nil {
			return nil, fmt.Errorf("sweep %s: %w", container, err)
		}
		if !s.survey {
			s.cfg.Logger.Info("container swept", "erasure", s.order.ID, "tenant", s.order.Tenant, "container", container)
		}
		s.progress.Containers = i + 1
		s.storeProgress(ctx)
	}
	var out []erasure.Swept
	for _, key := range s.places.keys() {
		p := s.places[key]
		p.Digest = p.digest()
		out = append(out, p.Swept)
	}
	return out, nil
}

// storeProgress stores how far the first sweep of the order is. The sweep does not need it.
func (s *sweep) storeProgress(ctx context.Context) {
	if s.survey || s.begun[s.order.ID] {
		return
	}
	s.stored = s.cfg.Now()
	s.progress.Chunks, s.progress.Rows = 0, 0
	for _, p := range s.places {
		s.progress.Chunks, s.progress.Rows = s.progress.Chunks+p.Chunks, s.progress.Rows+p.Rows
	}
	if err := s.cfg.Orders.StoreProgress(ctx, s.order.ID, s.progress); err != nil && ctx.Err() == nil {
		s.cfg.Logger.Warn("progress of a sweep not stored", "erasure", s.order.ID, "error", err)
	}
}

// pay waits as Sweeper.pay does. A survey makes nothing void.
func (s *sweep) pay(ctx context.Context, rus float64) error {
	if s.survey {
		return s.pacer.Wait(ctx, rus)
	}
	return s.Sweeper.pay(ctx, rus)
}

// container sweeps a part of a container: day by day for a whole tenant, which may have many devices.
func (s *sweep) container(ctx context.Context, container string, part telemetry.Range) error {
	step := part
	for from := part.From; from < part.To; from = step.To {
		step = telemetry.Range{From: from, To: part.To}
		if s.order.Device == "" {
			step.To = min(part.To, telemetry.DayOf(from).End())
		}
		visits := s.tenant.Placement.VisitsOf(s.order.Device, step)
		isElsewhere := func(v sharding.Visit) bool { return v.Container != container }
		if err := s.part(ctx, slices.DeleteFunc(visits, isElsewhere)); err != nil {
			return err
		}
		if s.cfg.Now().Sub(s.stored) > progressEvery {
			s.storeProgress(ctx)
		}
	}
	return nil
}

// part sweeps some places until nothing is left to be done when they are read.
func (s *sweep) part(ctx context.Context, visits []sharding.Visit) error {
	for range passes {
		chunks, err := s.read(ctx, visits)
		if err != nil {
			return err
		}
		if s.survey {
			s.count(chunks)
			return nil
		}
		isClean, err := s.act(ctx, chunks)
		if err != nil {
			return err
		}
		if isClean {
			s.note(chunks)
			return nil
		}
	}
	return fmt.Errorf("chunks change, or some are not answered, each time that they are read: %d times", passes)
}

// read returns the chunks of touched chains, in the order of chains and numbers.
func (s *sweep) read(ctx context.Context, visits []sharding.Visit) ([]*found, error) {
	var out []*found
	for _, visit := range visits {
		pay := func(rus float64) error { return s.pay(ctx, rus) }
		scan := store.Scan{Key: visit.Key, Range: visit.Range, Charge: pay}
		_, err := s.cfg.Chunks.Scan(ctx, scan, func(doc []byte) error {
			f, err := parse(doc)
			if err != nil {
				return err
			}
			if f.Key.Container = visit.Container; s.through(f) >= 0 {
				out = append(out, f)
			}
			return nil
		})
		if err != nil && !errors.Is(err, store.ErrNoContainer) {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b *found) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.ID.Day, b.ID.Day),
			cmp.Compare(a.ID.Stream, b.ID.Stream), cmp.Compare(a.ID.Partition, b.ID.Partition),
			cmp.Compare(a.ID.Number, b.ID.Number))
	})
	return out, nil
}

func parse(doc []byte) (*found, error) {
	c, err := store.ParseStoredChunk(doc)
	sum := sha256.Sum256(doc)
	return &found{StoredChunk: c, digest: hex.EncodeToString(sum[:])}, err
}

func (f *found) chain() chainOf {
	return chainOf{f.Device, f.ID.Day, erasure.Partition{Stream: f.ID.Stream, Partition: f.ID.Partition}}
}

// through returns the last offset that the order covers in the chain of a chunk, -1 for none.
func (s *sweep) through(f *found) int64 {
	return erasure.List{s.order}.Through(f.Device, f.ID.Day, f.chain().partition)
}

// act replaces the chunks that the order erases, and closes their chains. It reports whether there was nothing to do.
func (s *sweep) act(ctx context.Context, chunks []*found) (isClean bool, err error) {
	isClean = true
	for i, f := range chunks {
		through := s.through(f)
		if f.Rows > 0 && f.Through <= through {
			isClean = false
			if err := s.replace(ctx, f); err != nil {
				return false, err
			}
		}
		isLast := i+1 == len(chunks) || chunks[i+1].chain() != f.chain()
		if !isLast && chunks[i+1].ID.Number != f.ID.Number+1 {
			isClean = false // a replica lags
			if err := retry.Pause(ctx, s.cfg.Pause); err != nil {
				return false, err
			}
		}
		if isLast && f.Through < through && !(f.IsFence() && s.facts.Streams[f.ID.Stream].IsCopied()) {
			isClean = false
			if err := s.fence(ctx, f, through); err != nil {
				return false, err
			}
		}
	}
	return isClean, nil
}

// replace puts a chunk without rows in place of one (rule E-R7), unless that has changed since it was read.
func (s *sweep) replace(ctx context.Context, f *found) error {
	h := f.Header
	if h.TTL > 0 { // the service counts it from the replacement on
		h.TTL = max(1, h.TTL-int(s.cfg.Now().Unix()-f.Stored))
	}
	doc, err := chunk.EncodeErased(h, append(f.Erased, chunk.Erased{Order: s.order.ID, Rows: f.Rows, Digest: f.digest}))
	if err != nil {
		return err
	}
	receipt, err := s.cfg.Chunks.ReplaceChunk(ctx, store.Version{Key: f.Key, ID: f.ID.String(), ETag: f.ETag}, doc)
	if err != nil && !errors.Is(err, store.ErrChanged) {
		return err
	}
	return s.pay(ctx, receipt.RUs)
}

// fence closes a chain behind its last chunk (rule E-R8): what a writer sends late meets its number. Where another
// chunk has it, nothing happens. A copied stream gets none behind a fence, to which a longer chunk may come (rule T3).
func (s *sweep) fence(ctx context.Context, tail *found, through int64) error {
	id := tail.ID
	id.Number++
	key := s.tenant.Placement.Key(tail.Device, id.Day, id.Number)
	now := s.cfg.Now()
	doc, err := chunk.EncodeErased(chunk.Header{
		ID: id, TenantShard: key.TenantShard, Device: key.Device, First: through, Through: through, After: tail.Through,
		Cut: now.UnixMilli(), TTL: s.tenant.TTLOf(tail.Device, id.Day, now.UnixMilli()),
	}, nil)
	if err != nil {
		return err
	}
	receipt, err := s.cfg.Chunks.Create(ctx, key, id.String(), doc)
	if err != nil && !errors.Is(err, store.ErrExists) {
		return err
	}
	return s.pay(ctx, receipt.RUs)
}

func (s *sweep) count(chunks []*found) {
	for _, f := range chunks {
		if f.Rows > 0 && f.Through <= s.through(f) {
			p := s.places.of(f)
			p.Chunks++
			p.Rows += f.Rows
		}
	}
}

// places are what is found, by first-level key.
type places map[sharding.Key]*place

// of returns the place of a chunk.
func (p places) of(f *found) *place {
	key := sharding.Key{Container: f.Key.Container, TenantShard: f.TenantShard}
	if p[key] == nil {
		p[key] = &place{Swept: erasure.Swept{Container: key.Container, TenantShard: key.TenantShard}}
	}
	return p[key]
}

func (p places) keys() []sharding.Key {
	return slices.SortedFunc(maps.Keys(p), func(a, b sharding.Key) int {
		return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(a.TenantShard, b.TenantShard))
	})
}

// note counts what chunks say that the order has erased, of chains that need nothing any more.
func (s *sweep) note(chunks []*found) {
	for _, f := range chunks {
		s.places.of(f).note(f, s.order)
	}
}
