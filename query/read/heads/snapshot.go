package heads

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"binnacle/internal/store"
)

// partition is a Kafka partition, whatever stream it is read as.
type partition struct {
	topic  string
	number int32
}

func (p partition) String() string { return fmt.Sprintf("%s/%d", p.topic, p.number) }

func (p partition) compare(q partition) int {
	return cmp.Or(cmp.Compare(p.topic, q.topic), cmp.Compare(p.number, q.number))
}

// streamPosition is how far a partition was read. A higher stream is a newer incarnation of the topic: its positions
// are not comparable with positions of an older one.
type streamPosition struct {
	stream   uint32
	position int64
}

func (r streamPosition) compare(s streamPosition) int {
	return cmp.Or(cmp.Compare(r.stream, s.stream), cmp.Compare(r.position, s.position))
}

func positionOf(h store.PartitionHead) streamPosition { return streamPosition{h.Stream, h.Position} }

// snapshot is what the heads answered, the furthest head of each partition and stream (rule R2).
type snapshot struct {
	began      time.Time                    // before the heads were asked
	answered   map[partition]streamPosition // the positions that earlier answers have used (rule R3)
	tenant     string
	furthest   map[partition]store.PartitionHead // the newest stream's; without partitions of other tenants
	best       []store.PartitionHead             // the heads with rows that count
	all        []store.PartitionHead
	containers map[string]bool // where chunks may lie, as the heads know it
	err        error           // why some heads may be missing
}

// snapshot asks the heads. A head that does not answer is no error: it makes the answer incomplete.
func (r *Reader) snapshot(ctx context.Context, ask store.HeadRequest) (snapshot, error) {
	s := snapshot{
		tenant: ask.Tenant, began: r.cfg.Now(), answered: r.progress.answeredUntilNow(),
		furthest: make(map[partition]store.PartitionHead), containers: make(map[string]bool),
	}
	if s.all, s.err = r.cfg.Heads.Heads(ctx, ask); ctx.Err() != nil {
		return s, ctx.Err()
	}
	if s.err != nil {
		r.warn("heads not read", s.err)
	}
	type incarnation struct {
		partition
		stream uint32
	}
	best := make(map[incarnation]int, len(s.all))
	for i, h := range s.all {
		p := partition{h.Topic, h.Partition}
		in := incarnation{p, h.Stream}
		if old, ok := best[in]; !ok || s.all[old].Position < h.Position {
			best[in] = i
		}
		old, ok := s.furthest[p]
		if (!ok || positionOf(old).compare(positionOf(h)) < 0) && !r.isOthers(h.Topic, ask.Tenant) {
			s.furthest[p] = h
		}
		for _, c := range h.Containers {
			s.containers[c] = true
		}
	}
	for _, i := range slices.Sorted(maps.Values(best)) {
		s.best = append(s.best, s.all[i])
	}
	return s, nil
}

// countsStored reports whether all heads count what is stored, one for each partition and stream. Of two heads only one
// shows its rows, and the other one's chunks may be under way.
func (s *snapshot) countsStored() bool {
	if s.err != nil || len(s.all) == 0 || len(s.best) != len(s.all) {
		return false
	}
	return !slices.ContainsFunc(s.all, func(h store.PartitionHead) bool { return h.Owner == 0 || h.Stored == nil })
}

// Deferral is readings that wait in the log for a limit of their tenant.
type Deferral struct {
	store.HeadDeferral
	Partition int32
	partition partition
}

// deferrals returns the deferred readings of the devices that are asked for, by partition.
func (s *snapshot) deferrals(asked func(device string) bool) (out []Deferral) {
	for _, at := range slices.SortedFunc(maps.Keys(s.furthest), partition.compare) {
		for _, w := range s.furthest[at].Deferrals {
			if w.Device == "" || asked(w.Device) {
				out = append(out, Deferral{w, at.number, at})
			}
		}
	}
	return out
}

// behind returns which ends no head has reached, a sentence each.
func (s *snapshot) behind(ends []store.LogEnd) (out []string) {
	for _, e := range ends {
		p := partition{e.Topic, e.Partition}
		if h, ok := s.furthest[p]; !ok {
			out = append(out, fmt.Sprintf("no ingester answers for partition %s", p))
		} else if end := max(e.End, h.CaughtUp); h.Position < end {
			out = append(out, fmt.Sprintf("partition %s is read to offset %d of %d", p, h.Position, end))
		}
	}
	return out
}

// isRegistering reports whether readings wait until their tenant is registered.
func (s *snapshot) isRegistering() bool {
	for _, h := range s.furthest {
		if slices.ContainsFunc(h.Deferrals, func(w store.HeadDeferral) bool { return w.Limit == store.RegistrationLimit }) {
			return true
		}
	}
	return false
}

// lacking returns what must come before an answer includes what lies below some ends, a sentence each: also readings
// that wait until their tenant is registered, which takes a moment, unlike a deferral for another limit.
func (s *snapshot) lacking(ends []store.LogEnd) []string {
	out := s.behind(ends)
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
