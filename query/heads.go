package query

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// partition is a Kafka partition, whatever stream it carries now.
type partition struct {
	topic  string
	number int32
}

func (p partition) String() string { return fmt.Sprintf("%s/%d", p.topic, p.number) }

// reach is how far a head has read a partition. A higher stream is a newer incarnation of the topic: its positions say
// nothing about those of an older one.
type reach struct {
	stream   uint32
	position int64
}

func (r reach) compare(s reach) int {
	return cmp.Or(cmp.Compare(r.stream, s.stream), cmp.Compare(r.position, s.position))
}

// snapshot is what the heads answered, the furthest one of each partition and stream (rule R2).
type snapshot struct {
	taken    time.Time                         // before the heads were asked
	furthest map[partition]store.PartitionHead // the newest stream's
	rows     []store.HeadRows
	err      error // why some heads may be missing
}

// snapshot asks the heads. That they do not answer is no error of the query: it makes the answer incomplete.
func (q *Querier) snapshot(ctx context.Context, r store.HeadRequest) (snapshot, error) {
	s := snapshot{taken: q.cfg.Now(), furthest: make(map[partition]store.PartitionHead)}
	heads, err := q.cfg.Heads.Heads(ctx, r)
	if ctx.Err() != nil {
		return s, ctx.Err()
	}
	if err != nil {
		q.cfg.Logger.Warn("heads not read", "error", err)
		s.err = err
	}
	type incarnation struct {
		partition
		stream uint32
	}
	best := make(map[incarnation]store.PartitionHead)
	for _, h := range heads {
		p := partition{h.Topic, h.Partition}
		i := incarnation{p, h.Stream}
		if old, ok := best[i]; !ok || old.Position < h.Position {
			best[i] = h
		}
		if old, ok := s.furthest[p]; !ok || reachOf(old).compare(reachOf(h)) < 0 {
			s.furthest[p] = h
		}
	}
	named := make(map[string]bool, len(r.Devices))
	for _, d := range r.Devices {
		named[d] = true
	}
	for _, h := range best {
		for rows, err := range h.Rows {
			if ctx.Err() != nil {
				return s, ctx.Err()
			}
			if err != nil {
				s.err = err
				break
			}
			if r.Devices == nil || named[rows.Device] {
				s.rows = append(s.rows, rows)
			}
		}
	}
	return s, nil
}

func reachOf(h store.PartitionHead) reach { return reach{h.Stream, h.Position} }

// countRows is the number of rows in the snapshot.
func (s snapshot) countRows() int {
	n := 0
	for i := range s.rows {
		n += s.rows[i].Frame.Rows()
	}
	return n
}

// heads takes the snapshot that a request is answered with, after waiting for the log's end if it is strict, and says
// what is missing for the answer to be complete.
func (q *Querier) heads(ctx context.Context, r Request) (snapshot, []string, error) {
	var ends []store.LogEnd
	var missing []string
	if r.Strict {
		var err error
		if ends, err = q.awaitLogEnd(ctx, r); err != nil {
			missing = append(missing, fmt.Sprintf("the log's end is not known: %v", err))
		}
	} else {
		q.learnPartitions(ctx)
	}
	s, err := q.snapshot(ctx, store.HeadRequest{Tenant: r.Tenant, Devices: r.Devices, Range: r.Range, Metrics: r.Metrics})
	if err != nil {
		return s, nil, err
	}
	return s, append(missing, q.progress.missing(s, ends, q.cfg.Log != nil)...), nil
}

// The waits between two looks at the heads of a strict query.
const (
	firstPoll = 2 * time.Millisecond
	maxPoll   = 250 * time.Millisecond
)

// awaitLogEnd asks how far the log reaches and waits until the heads have come that far or the request's time is over.
// The error says that the log did not answer.
func (q *Querier) awaitLogEnd(ctx context.Context, r Request) ([]store.LogEnd, error) {
	if q.cfg.Log == nil {
		return nil, fmt.Errorf("there is no log to ask")
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.Timeout, DefaultTimeout))
	defer cancel()
	ends, err := q.cfg.Log.LogEnds(ctx)
	if err != nil {
		return nil, err
	}
	q.progress.learn(ends, q.cfg.Now())
	// A range without instants asks for positions alone.
	positions := store.HeadRequest{Tenant: r.Tenant, Devices: r.Devices, Range: telemetry.Range{}, Metrics: r.Metrics}
	for wait := firstPoll; ; wait = min(2*wait, maxPoll) {
		s, err := q.snapshot(ctx, positions)
		if err != nil || s.behind(ends) == nil {
			return ends, nil // whether the answer is complete its own snapshot tells
		}
		select {
		case <-ctx.Done():
			return ends, nil
		case <-time.After(wait):
		}
	}
}

// behind says which heads have not reached these ends.
func (s snapshot) behind(ends []store.LogEnd) []string {
	var out []string
	for _, e := range ends {
		p := partition{e.Topic, e.Partition}
		if h, ok := s.furthest[p]; !ok {
			out = append(out, fmt.Sprintf("no ingester answers for partition %s", p))
		} else if h.Position < e.End {
			out = append(out, fmt.Sprintf("partition %s is read to offset %d of %d", p, h.Position, e.End))
		}
	}
	return out
}
