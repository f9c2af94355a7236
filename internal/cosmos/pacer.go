package cosmos

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"binnacle/sharding/epk"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// pacer keeps requests away from physical partitions that have no budget left, and from those alone. It reads which
// ones a container has when one of them refuses a request for the first time, and again when an answer shows that one
// has been split.
type pacer struct {
	read   func(ctx context.Context, container string) ([]epk.Range, error)
	now    func() time.Time
	log    *slog.Logger
	series *rangeSeries

	mu         sync.Mutex // guards below
	containers map[string]*gates
}

// gates holds the gates of one container; the pacer's mu guards them.
type gates struct {
	all   []*gate // sorted by span; none while they are unknown
	asked time.Time
	stale bool // partitions have been split since they were read
}

// rereadRanges bounds how often the physical partitions of a container are read.
const rereadRanges = 5 * time.Second

// rangesTimeout bounds one such reading: the SDK tries again without end while metadata requests are throttled.
const rangesTimeout = 2 * time.Second

// gate returns the gate of a request; nil while nothing is known of its partition, and for requests that have none.
func (p *pacer) gate(to call) *gate {
	if !to.paced() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.containers[to.container]
	if known == nil || known.stale || len(known.all) == 0 {
		return nil
	}
	levels := make([]epk.Component, len(to.key))
	for i, k := range to.key {
		levels[i] = epk.String(k)
	}
	hash := epk.MultiHash(levels...)
	i, exact := slices.BinarySearchFunc(known.all, hash, func(g *gate, hash string) int {
		return epk.Compare(g.span.Min, hash)
	})
	if !exact {
		i--
	}
	if i < 0 || !known.all[i].span.Contains(hash) {
		return nil
	}
	return known.all[i]
}

// paced reports whether a request waits for its physical partition: it has one, and its 429 isn't its caller's affair.
func (to call) paced() bool { return len(to.key) > 0 && !to.once }

// answered learns from an answer to a request that went through a gate, or through none because there was none.
func (p *pacer) answered(ctx context.Context, to call, g *gate, a outcome) {
	if g != nil {
		g.leave()
	}
	if !to.paced() {
		return
	}
	if g != nil && a.rangeID != "" && g.setID(a.rangeID) || a.gone() {
		p.markStale(to.container)
	}
	switch {
	case g != nil && a.served():
		g.recordLatency(a.took)
	case a.throttled():
		if p.gate(to) == nil {
			p.readRanges(ctx, to.container)
		}
		if g = p.gate(to); g != nil {
			if a.rangeID != "" {
				g.setID(a.rangeID)
			}
			g.close(p.now(), to.low, a.wait)
		}
	}
}

// markStale notes that a container has other partitions than are known.
func (p *pacer) markStale(container string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.containers[container]; known != nil {
		known.stale = true
	}
}

// readRanges reads the partitions of a container, unless another caller is about to, or did a moment ago. What is known
// of partitions that did not change is kept. While they can't be read no request is held back.
func (p *pacer) readRanges(ctx context.Context, container string) {
	p.mu.Lock()
	known := p.containers[container]
	if known == nil {
		known = &gates{}
		p.containers[container] = known
	}
	now := p.now()
	if !known.asked.IsZero() && now.Sub(known.asked) < rereadRanges {
		p.mu.Unlock()
		return
	}
	known.asked = now
	p.mu.Unlock()

	bounded, cancel := context.WithTimeout(ctx, rangesTimeout)
	defer cancel()
	spans, err := p.read(bounded, container)
	if err != nil {
		p.log.Warn("physical partitions not read: writes to them are not paced", "container", container, "error", err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*gate, len(spans))
	for i, span := range spans {
		all[i] = &gate{span: span}
		if k := slices.IndexFunc(known.all, func(g *gate) bool { return g.span == span }); k >= 0 {
			all[i] = known.all[k]
		}
	}
	slices.SortFunc(all, func(a, b *gate) int { return epk.Compare(a.span.Min, b.span.Min) })
	known.all, known.stale = all, false
}

// outcome is what the pacer learns from.
type outcome struct {
	status, substatus int // 0 without an answer
	charge            float64
	rangeID           string
	wait              time.Duration // how long the service wants to be left alone after a 429
	took              time.Duration
}

func (a outcome) served() bool {
	return a.status != 0 && a.status < 500 && a.status != http.StatusTooManyRequests
}

// throttled reports whether the physical partition's budget is spent. Other budgets, such as a hot key's, that of
// metadata, or of a throughput bucket, say nothing about other requests to the same partition.
func (a outcome) throttled() bool {
	return a.status == http.StatusTooManyRequests && (a.substatus == subRangeBudget || a.substatus == 0)
}

// gone reports whether the physical partition is not there any more.
func (a outcome) gone() bool {
	return a.status == http.StatusGone &&
		(a.substatus == subRangeGone || a.substatus == subSplitting || a.substatus == subMigrating)
}

// nowhere lies behind all keys. Asked for a change feed there, the SDK reads the partitions of the container again
// before it finds none, instead of remembering them as they were before a split.
var nowhere = azcosmos.FeedRange{MinInclusive: epk.Max, MaxExclusive: epk.Max + "F"}

func (c *Client) readRanges(ctx context.Context, container string) ([]epk.Range, error) {
	began := c.cfg.Now()
	found, err := c.feedRanges(ctx, container)
	c.metrics.request(call{operation: "ranges_read", container: container}, result(err, asError(err)), 0,
		c.cfg.Now().Sub(began))
	if err != nil {
		return nil, err
	}
	spans := make([]epk.Range, len(found))
	for i, f := range found {
		spans[i] = epk.Range{Min: f.MinInclusive, Max: f.MaxExclusive}
	}
	return spans, nil
}

func (c *Client) feedRanges(ctx context.Context, id string) ([]azcosmos.FeedRange, error) {
	container, err := c.container(c.az.Load().Client, id)
	if err != nil {
		return nil, err
	}
	_, err = container.ReadChangeFeed(ctx, &azcosmos.ChangeFeedOptions{FeedRange: &nowhere})
	if err != nil && !errors.Is(err, azcosmos.ErrFeedRangeUnresolved) {
		return nil, err
	}
	return container.ReadFeedRanges(ctx, nil)
}
