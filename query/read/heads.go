package read

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/retry"
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
	taken      time.Time                         // before the heads were asked
	shown      map[partition]reach               // how far answers had come that were there by then (rule R3)
	furthest   map[partition]store.PartitionHead // the newest stream's
	best       []store.PartitionHead             // those whose rows count
	all        []store.PartitionHead
	containers map[string]bool // where chunks may lie, as the heads have it
	err        error           // why some heads may be missing
}

// snapshot asks the heads. That they do not answer is no error of the query: it makes the answer incomplete.
func (r *Reader) snapshot(ctx context.Context, ask store.HeadRequest) (snapshot, error) {
	s := snapshot{
		taken: r.cfg.Now(), shown: r.progress.shown(), furthest: make(map[partition]store.PartitionHead),
		containers: make(map[string]bool),
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

// Wait is readings that wait in the log for a limit of their tenant.
type Wait struct {
	store.HeadWait
	Partition int32
	partition partition
}

// waits is what waits of the devices asked for, by partition.
func (s *snapshot) waits(asked func(device string) bool) (out []Wait) {
	for _, at := range slices.SortedFunc(maps.Keys(s.furthest), comparePartitions) {
		for _, w := range s.furthest[at].Waits {
			if w.Device == "" || asked(w.Device) {
				out = append(out, Wait{w, int32(at.number), at})
			}
		}
	}
	return out
}

func reachOf(h store.PartitionHead) reach { return reach{h.Stream, h.Position} }

// heads takes the snapshot that the query is answered with, after waiting for the log's end if it is strict, hands its
// rows on, and notes what is missing for the answer to be complete.
func (q *Query) heads(ctx context.Context) (snapshot, error) {
	var ends []store.LogEnd
	if q.req.Strict {
		var err error
		if ends, err = q.r.awaitLogEnd(ctx, q.req); err != nil {
			q.unread = append(q.unread, fmt.Sprintf("the log's end is not known: %v", err))
		}
	} else {
		q.r.learnPartitions(ctx)
	}
	ask := store.HeadRequest{
		Tenant: q.req.Tenant, Devices: q.req.Devices, Range: q.req.Range, Metrics: q.req.Metrics,
	}
	if q.keepsBins() {
		q.askBins(&ask)
	}
	s, err := q.r.reaching(ctx, ask)
	if err != nil {
		return s, err
	}
	q.unread = append(q.unread, q.r.progress.missing(s, ends, q.r.cfg.Log != nil)...)
	q.missing = append(q.missing, q.unread...)
	q.waits = s.waits(q.asked)
	for _, w := range q.waits {
		q.miss("partition %s: %s", w.partition, w.HeadWait)
	}
	q.known = len(q.missing)
	if err := q.remember(s); err != nil {
		return s, err
	}
	told := make(map[uint64]map[store.HeadBin]*keptBin)
	for _, h := range s.best {
		if err := q.takeRows(ctx, h, told); err != nil {
			return s, err
		}
	}
	if len(told) > 0 {
		q.keep(told)
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

// takeRows hands on the rows of a head, and puts what it tells of bins to what was told.
func (q *Query) takeRows(ctx context.Context, h store.PartitionHead,
	told map[uint64]map[store.HeadBin]*keptBin) error {
	known, bins := q.binsOf(h.Owner), make(map[store.HeadBin]*keptBin)
	lack := func(err error) {
		q.r.cfg.Logger.Warn("rows of a head not read", "partition", h.Partition, "error", err)
		q.miss("not all rows of partition %s/%d are answered: %v", h.Topic, h.Partition, err)
		q.unread = append(q.unread, q.missing[len(q.missing)-1])
	}
	for rows, err := range h.Rows {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			lack(err)
			return nil
		}
		if !q.asked(rows.Device) {
			continue
		}
		if h.Owner == 0 {
			if err := q.addRows(rows.Device, rows.Source, rows.Frame); err != nil {
				return err
			}
			continue
		}
		name := store.HeadBin{Device: rows.Device, Day: rows.Day, First: rows.First}
		bin := follow(known[name], &rows)
		if bin == nil {
			lack(errNotKnown)
			return nil
		}
		bin.told = q.r.cfg.Now()
		q.r.cache.metrics.heads(bin, &rows)
		bins[name] = bin
		for i := range bin.parts {
			if err := q.addRows(rows.Device, bin.parts[i].source, bin.parts[i].frame); err != nil {
				return err
			}
		}
	}
	if h.Owner != 0 {
		told[h.Owner] = bins
	}
	return nil
}

// errNotKnown is an answer that counts on what was not known here.
var errNotKnown = errors.New("a head has left out rows that are not known here")

// addRows hands on rows of a head, if some are within the range.
func (q *Query) addRows(device string, source store.Source, f chunk.Frame) error {
	from, to, ok := bounds(f)
	if !ok || from >= q.req.Range.To || to < q.req.Range.From {
		return nil
	}
	p := &Piece{Device: device, Source: source, From: from, To: to, Frame: f, query: q, memory: q.Memory,
		bytes: frameBytes(f)}
	if err := q.Memory.Take(p.bytes); err != nil {
		return err
	}
	if q.req.Lanes != nil {
		q.hold(p)
	}
	q.tally.headRows += rowsWithin(f, q.req.Range)
	return q.sink.Add(p)
}

// hold notes that heads have rows of a device and days.
func (q *Query) hold(p *Piece) {
	if q.held == nil {
		q.held = make(map[deviceDay]bool)
	}
	for day := telemetry.DayOf(p.From); day <= telemetry.DayOf(p.To); day++ {
		q.held[deviceDay{p.Device, day}] = true
	}
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

// awaitLogEnd returns how far the log reaches, once the heads have come that far or half of the query's time is over.
// The error says that the log did not answer.
func (r *Reader) awaitLogEnd(ctx context.Context, req Request) ([]store.LogEnd, error) {
	if r.cfg.Log == nil {
		return nil, fmt.Errorf("there is no log to ask")
	}
	ctx, cancel := waiting(ctx)
	defer cancel()
	ends, err := r.cfg.Log.LogEnds(ctx)
	if err != nil {
		return nil, err
	}
	r.progress.learn(ends, r.cfg.Now())
	r.await(ctx, req.Tenant, ends) // whether the answer is complete its own snapshot tells
	return ends, nil
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
