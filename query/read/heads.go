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

// partition is a Kafka partition, whatever stream it is read as.
type partition struct {
	topic  string
	number int32
}

func (p partition) String() string { return fmt.Sprintf("%s/%d", p.topic, p.number) }

// streamPosition is how far a partition was read. A higher stream is a newer incarnation of the topic: its positions
// say nothing about those of an older one.
type streamPosition struct {
	stream   uint32
	position int64
}

func (r streamPosition) compare(s streamPosition) int {
	return cmp.Or(cmp.Compare(r.stream, s.stream), cmp.Compare(r.position, s.position))
}

// headRead is what the heads answered, the furthest head of each partition and stream (rule R2).
type headRead struct {
	began      time.Time                    // before the heads were asked
	answered   map[partition]streamPosition // by answers that had ended by then (rule R3)
	tenant     string
	furthest   map[partition]store.PartitionHead // of the newest stream; without partitions of other tenants
	best       []store.PartitionHead             // those whose rows count
	all        []store.PartitionHead
	containers map[string]bool // where chunks may lie, as the heads know it
	err        error           // why some heads may be missing
}

// headRead asks the heads. A head that does not answer is no error: it makes the answer incomplete.
func (r *Reader) headRead(ctx context.Context, ask store.HeadRequest) (headRead, error) {
	s := headRead{
		tenant: ask.Tenant, began: r.cfg.Now(), answered: r.progress.answeredUntilNow(),
		furthest:   make(map[partition]store.PartitionHead),
		containers: make(map[string]bool),
	}
	heads, err := r.cfg.Heads.Heads(ctx, ask)
	if ctx.Err() != nil {
		return s, ctx.Err()
	}
	if err != nil {
		r.headErrors.Do(func() { r.cfg.Logger.Warn("heads not read", "error", err) })
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
		old, ok := s.furthest[p]
		if (!ok || streamPositionOf(old).compare(streamPositionOf(h)) < 0) && !r.isOthers(h.Topic, ask.Tenant) {
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

// isOthers reports whether a topic is bound to another tenant. An answer must not show that there is such a topic.
func (r *Reader) isOthers(topic, tenant string) bool {
	of, _, _ := r.cfg.Topics.Of(topic)
	return of.Tenant != "" && of.Tenant != tenant
}

// Deferral is readings that wait in the log for a limit of their tenant.
type Deferral struct {
	store.HeadDeferral
	Partition int32
	partition partition
}

// deferrals returns the deferred readings of the devices that are asked for, by partition.
func (s *headRead) deferrals(asked func(device string) bool) (out []Deferral) {
	for _, at := range slices.SortedFunc(maps.Keys(s.furthest), comparePartitions) {
		for _, w := range s.furthest[at].Deferrals {
			if w.Device == "" || asked(w.Device) {
				out = append(out, Deferral{w, int32(at.number), at})
			}
		}
	}
	return out
}

func streamPositionOf(h store.PartitionHead) streamPosition {
	return streamPosition{h.Stream, h.Position}
}

// readHeads asks the heads, after waiting for the log's end if the query is strict, hands their rows on, and notes what
// the answer lacks to be complete.
func (q *Query) readHeads(ctx context.Context) (headRead, error) {
	var ends []store.LogEnd
	if q.req.Strict {
		var err error
		if ends, err = q.r.awaitLogEnd(ctx, q.req); err != nil {
			// The error may name what is other tenants'.
			q.r.headErrors.Do(func() { q.r.cfg.Logger.Warn("cannot read the ends of the logs", "error", err) })
			q.unread = append(q.unread, "the log's end is not known")
		}
	} else {
		q.r.refreshPartitions(ctx)
	}
	ask := store.HeadRequest{
		Tenant: q.req.Tenant, Devices: q.req.Devices, Range: q.req.Range, Metrics: q.req.Metrics,
		Erased: q.erased.ask(q.req.Range),
	}
	if q.cachesBins() {
		q.askBins(&ask)
	}
	s, err := q.r.headReadIncluding(ctx, ask)
	if err != nil {
		return s, err
	}
	q.began, q.countsStored = s.began, s.countsStored()
	q.unread = append(q.unread, q.r.missing(s, ends)...)
	q.missing = append(q.missing, q.unread...)
	q.deferrals = s.deferrals(q.asked)
	for _, w := range q.deferrals {
		q.miss("partition %s: %s", w.partition, w.HeadDeferral)
	}
	q.known = len(q.missing)
	if q.countsStored {
		q.counts = make(map[uint64]*storedCounts)
	}
	isTold := make(map[uint64]map[store.HeadBin]*cachedBin)
	for _, h := range s.best {
		if err := q.takeRows(ctx, h, isTold); err != nil {
			return s, err
		}
	}
	if q.cachesBins() && !q.rowsUnnoted && (len(isTold) > 0 || len(q.missing) == q.known) {
		q.cacheBins(isTold)
	}
	return s, nil
}

func (q *Query) miss(format string, args ...any) {
	q.missing = append(q.missing, fmt.Sprintf(format, args...))
}

// remember notes the tails of chains. They hold whichever head is the furthest.
func (q *Query) remember(s headRead) error {
	q.tails = make(tails)
	for _, h := range s.all {
		if err := q.Memory.Take(tailBytes * int64(len(h.Chains))); err != nil {
			return err
		}
		for i := range h.Chains {
			q.rememberTail(chainDayOf(&h, &h.Chains[i]), h.Chains[i].Tail)
		}
		known := q.knownCounts(h.Owner)
		if h.Stored == nil || h.Stored.Above == 0 || known == nil {
			continue
		}
		if err := q.Memory.Take(tailBytes * int64(len(known.tails))); err != nil {
			return err
		}
		for of, tail := range known.tails { // which the head has left out as known
			q.rememberTail(of, tail)
		}
	}
	return nil
}

func (q *Query) rememberTail(of chainDay, tail store.Tail) {
	if first, last := q.daysAsked(); q.asked(of.device) && of.day >= first && of.day <= last {
		q.tails.add(of.chainOf, of.day, tail)
	}
}

// takeRows hands on the rows of a head, and collects its bins.
func (q *Query) takeRows(ctx context.Context, h store.PartitionHead,
	isTold map[uint64]map[store.HeadBin]*cachedBin) error {
	known, bins := q.cachedBinsOf(h.Owner), make(map[store.HeadBin]*cachedBin)
	lack := func(err error) {
		q.r.cfg.Logger.Warn("rows of a head not read", "partition", h.Partition, "error", err)
		if q.r.isOthers(h.Topic, q.req.Tenant) {
			q.miss("some rows in ingesters' memory are missing")
		} else {
			q.miss("some rows in memory of partition %s/%d are missing", h.Topic, h.Partition)
		}
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
			q.rowsUnnoted = true
			if err := q.addRows(rows.Device, rows.Source, rows.Frame); err != nil {
				return err
			}
			continue
		}
		name := store.HeadBin{Device: rows.Device, Day: rows.Day, First: rows.First}
		bin := appendPart(known[name], &rows)
		if bin == nil {
			lack(errOmittedRows)
			return nil
		}
		bin.seen = q.r.cfg.Now()
		if from, _, ok := bounds(rows.Frame); ok {
			q.newRows = min(q.newRows, from)
		}
		if before := known[name]; before != nil && rows.Above < 0 {
			q.newRows = min(q.newRows, before.from())
		}
		q.r.cache.metrics.addHeadRows(bin, &rows)
		bins[name] = bin
		for i := range bin.parts {
			if err := q.addRows(rows.Device, bin.parts[i].source, bin.parts[i].frame); err != nil {
				return err
			}
		}
	}
	if h.Owner == 0 {
		return nil
	}
	isTold[h.Owner] = bins
	if q.countsStored {
		q.takeCounts(&h, bins)
	}
	return q.addMoved(h.Owner, bins)
}

// addMoved hands on the rows of bins that their head no longer answers, because they are stored.
func (q *Query) addMoved(owner uint64, bins map[store.HeadBin]*cachedBin) error {
	t := q.counts[owner]
	if t == nil {
		return nil
	}
	for name, m := range t.moved {
		if bins[name] != nil || !q.asked(name.Device) {
			continue
		}
		q.notes.noteExpiry(m.expires)
		for i := range m.bin.parts {
			if err := q.addRows(name.Device, m.bin.parts[i].source, m.bin.parts[i].frame); err != nil {
				return err
			}
		}
	}
	return nil
}

// errOmittedRows says that a head has left out rows as known that are not known here.
var errOmittedRows = errors.New("a head left out rows that this querier does not have")

// addRows hands on rows of a head if some lie within the range.
func (q *Query) addRows(device string, source store.Source, f chunk.Frame) error {
	from, to, ok := bounds(f)
	if !ok || from >= q.req.Range.To || to < q.req.Range.From || q.visible.hides(device, telemetry.DayOf(from)) {
		return nil
	}
	p := &Piece{Device: device, Source: source, From: from, To: to, Frame: f, query: q, memory: q.Memory,
		bytes: frameBytes(f)}
	if err := q.Memory.Take(p.bytes); err != nil {
		return err
	}
	if q.req.Narrow != nil {
		q.fromHeads = append(q.fromHeads, p)
		return nil
	}
	return q.deliverRows(p)
}

// deliverRows hands on rows of a head, unless they turned out not to be needed.
func (q *Query) deliverRows(p *Piece) error {
	if p.From >= q.req.Range.To || p.To < q.req.Range.From {
		p.Release()
		return nil
	}
	if q.req.Rollups != nil {
		q.noteInHeads(p)
	}
	q.cost.headRows += rowsWithin(p.Frame, q.req.Range)
	return q.sink.Add(p)
}

// noteInHeads notes that heads have rows of a device and its days.
func (q *Query) noteInHeads(p *Piece) {
	if q.inHeads == nil {
		q.inHeads = make(map[deviceDay]bool)
	}
	for day := telemetry.DayOf(p.From); day <= telemetry.DayOf(p.To); day++ {
		q.inHeads[deviceDay{p.Device, day}] = true
	}
}

// asked reports whether the query asks for a device.
func (q *Query) asked(device string) bool {
	if q.req.Devices == nil {
		return true
	}
	_, found := slices.BinarySearch(q.req.Devices, device)
	return found
}

// bounds returns the first and last instant of a frame; ok is false when it has none.
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

// headPolls is the pauses between reads of heads while a query waits for positions.
var headPolls = retry.Policy{First: 2 * time.Millisecond, Max: 250 * time.Millisecond}

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
	r.progress.setPartitions(ends, r.cfg.Now())
	ends = slices.DeleteFunc(ends, func(e store.LogEnd) bool { return r.isOthers(e.Topic, req.Tenant) })
	r.awaitPositions(ctx, req.Tenant, ends) // whether they were reached shows in the head read of the answer
	return ends, nil
}

// lacking returns what must come before an answer includes what lies below some ends, a sentence each.
func (s headRead) lacking(ends []store.LogEnd) []string {
	return append(s.behind(ends), s.registering(ends)...)
}

// registering returns which readings below some ends wait until their tenant is registered, a sentence each. That takes
// a moment, unlike a deferral for another limit.
func (s headRead) registering(ends []store.LogEnd) (out []string) {
	for _, e := range ends {
		p := partition{e.Topic, e.Partition}
		for _, w := range s.furthest[p].Deferrals {
			if w.Limit == store.RegistrationLimit && w.From < e.End {
				out = append(out, fmt.Sprintf("partition %s: %s", p, w))
			}
		}
	}
	return out
}

// behind returns which ends no head has reached, a sentence each.
func (s headRead) behind(ends []store.LogEnd) []string {
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
