package worker

import (
	"fmt"
	"slices"
	"strconv"

	"binnacle/ingest/decode"
	"binnacle/ingest/queue"
	"binnacle/internal/deadletter"
)

// DeadLetter is a record, or one element of it, that was refused. docs/format/message.md has its form.
type DeadLetter struct {
	Topic     string
	Partition int32
	Record    Record
	Bad       decode.Bad

	// Bare says that the payload is left out: earlier dead letters of the record have it often enough, or it can't be
	// read.
	Bare bool

	// Unreadable is set when the dead letter stands for a part of the log; the record's offset is then its first one.
	Unreadable *Unreadable

	bytes int               // of memory
	chain chainKey          // of a reading that had been deferred
	also  map[chainKey]bool // others for which it stands
}

// Headers returns the record's own and those that say why it was refused and where it stood.
func (d *DeadLetter) Headers() []Header {
	own := make([]Header, 0, len(d.Record.Headers)+7)
	return append(append(own, d.Record.Headers...), d.Facts()...)
}

// Facts returns the headers that Binnacle adds.
func (d *DeadLetter) Facts() []Header {
	var own []Header
	for _, h := range []struct{ key, value string }{
		{deadletter.HeaderReason, string(d.Bad.Reason)},
		{deadletter.HeaderDetail, d.Bad.Detail},
		{deadletter.HeaderTopic, d.Topic},
		{deadletter.HeaderPartition, strconv.Itoa(int(d.Partition))},
		{deadletter.HeaderOffset, strconv.FormatInt(d.Record.Offset, 10)},
		{deadletter.HeaderIndex, strconv.Itoa(d.Bad.Index)},
	} {
		own = append(own, Header{Key: h.key, Value: []byte(h.value)})
	}
	if d.Record.Time >= 0 {
		own = append(own, Header{Key: deadletter.HeaderTimestamp, Value: []byte(strconv.FormatInt(d.Record.Time, 10))})
	}
	if d.Unreadable != nil {
		own = append(own, Header{Key: deadletter.HeaderThrough, Value: []byte(strconv.FormatInt(d.Unreadable.Through, 10))})
	}
	return own
}

// PayloadBytes returns how long the payload was, also where it is left out.
func (d *DeadLetter) PayloadBytes() int {
	if d.Unreadable != nil {
		return d.Unreadable.Bytes
	}
	return len(d.Record.Value)
}

// deadLetters wait to be acknowledged, in the order in which they came.
type deadLetters struct {
	queued queue.FIFO[DeadLetter]
	busy   int // how many of the first are being published
	bytes  int // memory of all of them

	ofRecord int // how many of the last are of one record
	more     int // how many of its elements were refused beyond those; the last dead letter stands for them
}

const (
	// One publication: dead letters, and bytes of their records.
	maxPublish      = 500
	maxPublishBytes = 8 << 20

	// A record of a megabyte may have half a million elements, and all may be wrong. So many have a dead letter
	// of their own, and so many bytes of payload go out with them.
	maxOfRecord      = 1000
	maxBytesOfRecord = 4 << 20

	deadLetterBytes = 512 // memory of a dead letter beside its record
	alsoBytes       = 160 // and of a chain for which it stands
)

// len returns how many dead letters are not acknowledged.
func (d *deadLetters) len() int { return d.queued.Len() }

// add queues a dead letter, and reports whether it stands for itself: beyond maxOfRecord elements of one record the
// last dead letter stands for the rest. Those of a record must come one after another.
func (d *deadLetters) add(l DeadLetter) bool {
	all := d.queued.All()
	n := len(all)
	if n == d.busy || all[n-1].Record.Offset != l.Record.Offset { // one that is in flight stands for no more
		d.ofRecord, d.more = 0, 0
		l.Record = l.Record.clone() // what was fetched with it goes
		l.bytes = l.Record.bytes()
	} else {
		l.Record = all[n-1].Record
	}
	if d.ofRecord == maxOfRecord {
		d.more++
		last := &all[n-1]
		last.Bad.Index = decode.Whole
		last.Bad.Detail = fmt.Sprintf("%d further elements of the record are refused, the last of them, %d, because: %s",
			d.more+1, l.Bad.Index, l.Bad.Detail)
		return false
	}
	d.ofRecord++
	l.Bare = l.Unreadable != nil || d.ofRecord > 1 && d.ofRecord*len(l.Record.Value) > maxBytesOfRecord
	l.bytes += deadLetterBytes
	d.queued.Push(l)
	d.bytes += l.bytes
	return true
}

// also has the last dead letter stand for a reading of another chain, and reports whether it did not yet.
func (d *deadLetters) also(c chainKey) bool {
	last := &d.queued.All()[d.len()-1]
	if last.also == nil {
		last.also = map[chainKey]bool{}
	}
	if last.chain == c || last.also[c] {
		return false
	}
	last.also[c] = true
	last.bytes += alsoBytes
	d.bytes += alsoBytes
	return true
}

// first returns the lowest offset that is not acknowledged, of dead letters that came in the order of offsets.
func (d *deadLetters) first() (offset int64, ok bool) {
	if d.len() == 0 {
		return 0, false
	}
	return d.queued.All()[0].Record.Offset, true
}

// job returns the next publication, nil while one is under way or there is nothing to publish.
func (d *deadLetters) job() *Publish {
	if d.busy > 0 || d.len() == 0 {
		return nil
	}
	all := d.queued.All()
	for bytes := 0; d.busy < min(len(all), maxPublish) && bytes < maxPublishBytes; d.busy++ {
		if l := &all[d.busy]; !l.Bare {
			bytes += l.Record.bytes()
		}
	}
	return &Publish{DeadLetters: slices.Clone(all[:d.busy])}
}

// failed takes the last job back, to be done again.
func (d *deadLetters) failed() { d.busy = 0 }

// done drops the dead letters of the last job: they are acknowledged.
func (d *deadLetters) done() {
	for i := range d.queued.All()[:d.busy] {
		d.bytes -= d.queued.All()[i].bytes
	}
	d.queued.Drop(d.busy)
	d.busy = 0
}
