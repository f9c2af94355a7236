package replay

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/kafka"
	"binnacle/internal/retry"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

// producer appends batches to a topic. It is called for different partitions at once, for one partition
// never before its last batch is acknowledged.
type producer interface {
	// Partitions returns how many partitions the topic has.
	Partitions(ctx context.Context) (int, error)

	// Produce returns nil when every replica in sync has the batch. After an error the batch may have
	// been appended or not; it may be produced again, which at worst stores it twice.
	Produce(ctx context.Context, partition int, messages []kafka.Message) error
}

// The bounds of a batch, before compression. Kafka's default is to refuse one of more than 1,048,588
// bytes after it, Event Hubs one of 1,046,528.
const (
	maxBatchBytes   = 1 << 19
	maxBatchRecords = 10_000
	maxMessage      = 1_000_000
)

// batch is what goes to one Kafka partition in one request.
type batch struct {
	messages []kafka.Message
	bytes    int
}

func (b *batch) fits(size int) bool {
	return len(b.messages) == 0 || len(b.messages) < maxBatchRecords && b.bytes+size <= maxBatchBytes
}

var headers = []kafka.Header{{Key: "content-type", Value: []byte("application/json")}}

// Within these times a failing broker must have come back: before anything is published, and later.
const (
	patienceAtStart = 3 * time.Second
	patience        = 30 * time.Second
)

// publisher sorts messages into partitions and keeps their order there: one batch of a partition is in
// flight, another may wait, a third is filled.
type publisher struct {
	to     producer
	ids    []int // partition ids
	open   []batch
	queues []chan batch // a queue per partition, from add and flush to its goroutine; closed by close
	group  *errgroup.Group
	failed <-chan struct{} // closed when a partition has given up, or the context is done
	acked  atomic.Int64    // records
}

func newPublisher(ctx context.Context, to producer) (*publisher, error) {
	var n int
	err := persist(ctx, patienceAtStart, func(ctx context.Context) (err error) {
		n, err = to.Partitions(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	p := &publisher{to: to}
	p.group, ctx = errgroup.WithContext(ctx)
	p.failed = ctx.Done()
	for id := range n {
		p.ids = append(p.ids, id)
		p.open = append(p.open, batch{})
		p.queues = append(p.queues, make(chan batch, 1))
	}
	for id, queue := range p.queues {
		p.group.Go(func() error { return p.drain(ctx, id, queue) })
	}
	return p, nil
}

// drain produces the batches of a partition one after the other.
func (p *publisher) drain(ctx context.Context, partition int, queue <-chan batch) error {
	for b := range queue {
		err := persist(ctx, patience, func(ctx context.Context) error { return p.to.Produce(ctx, partition, b.messages) })
		if err != nil {
			return err
		}
		p.acked.Add(int64(len(b.messages)))
	}
	return nil
}

// message is what becomes a record.
type message struct {
	key, value []byte
	grant      string // the backfill that it belongs to, empty for none
}

// add takes a message, and copies its bytes. It returns false when a partition has given up: close returns why.
func (p *publisher) add(m message) bool {
	i := kafka.PartitionOf(m.key, p.ids)
	size := len(m.key) + len(m.value)
	if !p.open[i].fits(size) && !p.send(i) {
		return false
	}
	own := slices.Concat(m.key, m.value)
	made := kafka.Message{Key: own[:len(m.key)], Value: own[len(m.key):], Headers: headers}
	if m.grant != "" {
		made.Headers = append(slices.Clip(headers), kafka.Header{Key: control.BackfillHeader, Value: []byte(m.grant)})
	}
	p.open[i].messages, p.open[i].bytes = append(p.open[i].messages, made), p.open[i].bytes+size
	return true
}

// flush hands over all that was added.
func (p *publisher) flush() bool {
	for i, b := range p.open {
		if len(b.messages) > 0 && !p.send(i) {
			return false
		}
	}
	return true
}

func (p *publisher) send(i int) bool {
	select {
	case p.queues[i] <- p.open[i]:
		p.open[i] = batch{}
		return true
	case <-p.failed:
		return false
	}
}

// close waits until all that was flushed is acknowledged, or a partition has given up.
func (p *publisher) close() error {
	for _, q := range p.queues {
		close(q)
	}
	return p.group.Wait()
}

// permanent reports whether another attempt does not mend an error: a topic that is not there, and Kafka's own, but for
// those it calls temporary. Everything else is the network, or a broker that is gone for a while.
func permanent(err error) bool {
	return errors.Is(err, errNoTopic) || kafka.IsPermanent(err)
}

// pauses between attempts to reach the broker.
var pauses = retry.Policy{First: 50 * time.Millisecond, Max: time.Second}

// persist tries until it works, or fails for good, or the time is over; then it returns the last error that has a
// reason.
func persist(ctx context.Context, budget time.Duration, attempt func(context.Context) error) error {
	within, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	err := pauses.Do(within, func(ctx context.Context) error {
		err := attempt(ctx)
		if permanent(err) {
			return retry.Permanent(err)
		}
		return err
	})
	if err != nil && ctx.Err() != nil && !permanent(err) {
		return context.Cause(ctx)
	}
	return err
}

// minWait is the shortest wait: at rates above one message per minWait, messages go in bursts.
const minWait = 5 * time.Millisecond

// pace returns what waits until the next message is due at a rate a second; 0 is none. It calls before if that takes a
// while.
func pace(perSecond float64, now func() time.Time) func(ctx context.Context, before func()) error {
	if perSecond == 0 {
		perSecond = float64(rate.Inf)
	}
	limit := rate.NewLimiter(rate.Limit(perSecond), 1)
	return func(ctx context.Context, before func()) error {
		at := now()
		left := limit.ReserveN(at, 1).DelayFrom(at)
		if left < minWait {
			return ctx.Err()
		}
		before()
		return retry.Pause(ctx, left)
	}
}
