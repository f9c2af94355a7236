package read

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/retry"
	"binnacle/internal/store"
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
	taken      time.Time                         // before the heads were asked
	furthest   map[partition]store.PartitionHead // the newest stream's
	best       []store.PartitionHead             // those whose rows count
	all        []store.PartitionHead
	containers map[string]bool // where chunks may lie, as the heads have it
	err        error           // why some heads may be missing
}

// snapshot asks the heads. That they do not answer is no error of the query: it makes the answer incomplete.
func (r *Reader) snapshot(ctx context.Context, ask store.HeadRequest) (snapshot, error) {
	s := snapshot{
		taken: r.cfg.Now(), furthest: make(map[partition]store.PartitionHead), containers: make(map[string]bool),
	}
	heads, err := r.cfg.Heads.Heads(ctx, ask)
	if ctx.Err() != nil {
		return s, ctx.Err()
	}
	if err != nil {
		r.silent.Do(func() { r.cfg.Logger.Warn("heads not read", "error", err) })
		s.err = err
	}
	s.all = heads
	type incarnation struct {
		partition
		stream uint32
	}
	best := make(map[incarnation]int, len(heads))
	for i, h := range heads {
		p := partition{h.Topic, h.Partition}
		in := incarnation{p, h.Stream}
		if old, ok := best[in]; !ok || heads[old].Position < h.Position {
			best[in] = i
		}
		if old, ok := s.furthest[p]; !ok || reachOf(old).compare(reachOf(h)) < 0 {
			s.furthest[p] = h
		}
		for _, c := range h.Containers {
			s.containers[c] = true
		}
	}
	for _, i := range slices.Sorted(maps.Values(best)) {
		s.best = append(s.best, heads[i])
	}
	return s, nil
}

func reachOf(h store.PartitionHead) reach { return reach{h.Stream, h.Position} }

// heads takes the snapshot that the query is answered with, after waiting for the log's end if it is strict, hands its
// rows on, and notes what is missing for the answer to be complete.
func (q *Query) heads(ctx context.Context) (snapshot, error) {
	var ends []store.LogEnd
	if q.req.Strict {
		var err error
		if ends, err = q.r.awaitLogEnd(ctx, q.req); err != nil {
			q.miss("the log's end is not known: %v", err)
		}
	} else {
		q.r.learnPartitions(ctx)
	}
	s, err := q.r.snapshot(ctx, store.HeadRequest{
		Tenant: q.req.Tenant, Devices: q.req.Devices, Range: q.req.Range, Metrics: q.req.Metrics,
	})
	if err != nil {
		return s, err
	}
	q.missing = append(q.missing, q.r.progress.missing(s, ends, q.r.cfg.Log != nil)...)
	if err := q.remember(s); err != nil {
		return s, err
	}
	for _, h := range s.best {
		if err := q.takeRows(ctx, h); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (q *Query) miss(format string, args ...any) {
	q.missing = append(q.missing, fmt.Sprintf(format, args...))
}

// remember notes what the heads say is stored. It holds for any head, whichever is the furthest.
func (q *Query) remember(s snapshot) error {
	q.tails = make(tails)
	for _, h := range s.all {
		if err := q.Memory.Take(tailBytes * int64(len(h.Chains))); err != nil {
			return err
		}
		for _, c := range h.Chains {
			if !q.asked(c.Device) {
				continue
			}
			q.tails.add(chainOf{c.Device, h.Stream, h.Partition}, c.Day, c.Tail)
		}
	}
	return nil
}

// takeRows hands on the rows of a head.
func (q *Query) takeRows(ctx context.Context, h store.PartitionHead) error {
	for rows, err := range h.Rows {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			q.r.cfg.Logger.Warn("rows of a head not read", "partition", h.Partition, "error", err)
			q.miss("not all rows of partition %s/%d are answered: %v", h.Topic, h.Partition, err)
			return nil
		}
		if !q.asked(rows.Device) {
			continue
		}
		from, to, ok := bounds(rows.Frame)
		if !ok {
			continue
		}
		p := &Piece{
			Device: rows.Device, Source: rows.Source, From: from, To: to, Frame: rows.Frame,
			memory: q.Memory, bytes: frameBytes(rows.Frame),
		}
		if err := q.Memory.Take(p.bytes); err != nil {
			return err
		}
		q.tally.headRows += rows.Frame.Rows()
		if err := q.sink.Add(p); err != nil {
			return err
		}
	}
	return nil
}

// asked reports whether a device's rows belong into the answer, whatever a head or a store answers.
func (q *Query) asked(device string) bool {
	if q.req.Devices == nil {
		return true
	}
	_, found := slices.BinarySearch(q.req.Devices, device)
	return found
}

// bounds is the first and last instant of a frame; ok is false when it has none.
func bounds(f chunk.Frame) (from, to int64, ok bool) {
	for i := range f.Groups {
		times := f.Groups[i].Times
		if len(times) == 0 {
			continue
		}
		if !ok {
			from, to, ok = times[0], times[len(times)-1], true
		}
		from, to = min(from, times[0]), max(to, times[len(times)-1])
	}
	return from, to, ok
}

// looks are the pauses between two looks at the heads of a strict query.
var looks = retry.Policy{First: 2 * time.Millisecond, Max: 250 * time.Millisecond}

// awaitLogEnd asks how far the log reaches and waits until the heads have come that far or the request's time is over.
// The error says that the log did not answer.
func (r *Reader) awaitLogEnd(ctx context.Context, req Request) ([]store.LogEnd, error) {
	if r.cfg.Log == nil {
		return nil, fmt.Errorf("there is no log to ask")
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(req.Timeout, DefaultTimeout))
	defer cancel()
	ends, err := r.cfg.Log.LogEnds(ctx)
	if err != nil {
		return nil, err
	}
	r.progress.learn(ends, r.cfg.Now())
	// A range without instants asks for positions alone.
	positions := store.HeadRequest{Tenant: req.Tenant}
	for pauses := looks.Begin(); ; {
		s, err := r.snapshot(ctx, positions)
		if err != nil || s.behind(ends) == nil {
			return ends, nil // whether the answer is complete its own snapshot tells
		}
		if pauses.Wait(ctx) != nil {
			return ends, nil
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
