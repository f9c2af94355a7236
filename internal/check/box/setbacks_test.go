package box_test

import (
	"fmt"
	"math/rand/v2"

	"binnacle/internal/kafka"
	"binnacle/internal/stream/deadletter"

	kafkago "github.com/segmentio/kafka-go"
)

// setbacks are what operators and brokers take back: an operator sets the group back and publishes dead letters again,
// an older binary commits, the journal loses its head or is made anew, and a new leader lags for a moment.
const setbacks = "setbacks"

// setback is what the seed picks of setbacks. Most runs have none.
type setback struct {
	// rnd is its own, so that a seed picks the same of everything else.
	rnd *rand.Rand
	on  bool
}

func (b *box) pickSetback() (s setback) {
	s.rnd = rand.New(rand.NewPCG(b.opts.seed, 46))
	s.on = b.has(setbacks, s.rnd.IntN(5) == 0 && b.copies.west == nil && b.opts.years == 0 && !b.retaining.on)
	return s
}

// actSetback takes something back. It reports whether it did.
func (b *box) actSetback() bool {
	s := &b.setback
	if !s.on || s.rnd.IntN(20) > 0 {
		return false
	}
	p := int32(s.rnd.IntN(b.profile.partitions))
	key, source := commitKey(topic, p), b.log.partition(topic, p)
	c, what := b.log.commits[key], ""
	j := b.log.partition(kafka.JournalOf(topic), p)
	switch s.rnd.IntN(6) {
	case 0:
		c = kafka.Committed{Offset: s.rnd.Int64N(c.Offset + 1)}
		b.log.commits[key], what = c, fmt.Sprintf("the group to %d", c.Offset)
	case 1:
		c.Metadata = ""
		b.log.commits[key], what = c, "an older binary's commit"
	case 2:
		n := s.rnd.IntN(len(j.records) + 1)
		j.first, j.records = j.first+int64(n), j.records[n:]
		what = fmt.Sprintf("the journal begins at %d", j.first)
	case 3:
		*j, what = partitionLog{}, "the journal is made anew"
	default:
		source.lags, what = true, "the log has a new leader"
	}
	b.timesLost, b.lostBy = true, nil
	b.event("box", "set back", key, what)
	return true
}

// replayHeaders are those of a record that is published now: now and then it is a dead letter that was refused before.
func (b *box) replayHeaders(p int32) (headers []kafkago.Header, what string) {
	l := b.log.partition(topic, p)
	if !b.setback.on || len(l.records) == 0 || b.setback.rnd.IntN(15) > 0 {
		return nil, ""
	}
	first := b.setback.rnd.Int64N(int64(len(l.records)))
	b.oracle.replayed[place{p, int64(len(l.records))}] = place{p, first}
	id := deadletter.ID{Partition: p, Offset: first, Published: l.records[first].time}
	return []kafkago.Header{{Key: deadletter.HeaderReplayOf, Value: fmt.Appendf(nil, "%s 00", id)}},
		fmt.Sprintf(", a replay of %d", first)
}

// plantedSetbacks are faults that show when something is taken back. Faults of J4 and W8 that do are held by
// TestLoaderDetectsLoss and TestResumeDropsStaleRows.
var plantedSetbacks = []planted{
	{name: "E-R2 a new stream has no erased records", with: erasures + "," + setbacks, file: "internal/erasure/erasure.go",
		old: "offset <= through || !known &&", new: "offset <= through || !known && false &&"},
	{name: "E-R6 a replayed letter is a new reading", with: erasures + "," + setbacks, file: "ingest/admit/erasure.go",
		old: "f.replayed != nil && e.coversReplayed(o, f.replayed)", new: "false"},
	{name: "E-R6 a replayed letter awaits no orders", with: erasures + "," + setbacks, file: "ingest/admit/erasure.go",
		old: "f.replayed != nil && f.Offset >= e.horizon", new: "false"},
	{name: "E-R6 a replayed letter of a new stream is a new reading",
		with: erasures + "," + setbacks, file: "ingest/admit/erasure.go",
		old: " || !known && id.Published >= 0)", new: " || !known && false)"},
}
