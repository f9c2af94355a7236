package write

import (
	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/queue"
	"binnacle/internal/stream/deadletter"
	"slices"
	"strconv"
)

// DeadLetter is a record, or elements of it, that were refused for one reason. docs/reference/payloads.md has its form.
type DeadLetter struct {
	Topic     string
	Partition int32
	Record    admit.Record
	Bad       decode.Bad
	// Elements are all the elements that it covers, from Bad.Index on; nil for the record as a whole.
	Elements deadletter.Elements

	// Bare says that the payload is left out: earlier dead letters of the record have it often enough, or it can't be
	// read.
	Bare bool

	// Unreadable is set when the dead letter covers a part of the log; the record's offset is then its first one.
	Unreadable *admit.Unreadable

	Bytes int                  // memory
	chain admit.Chain          // chain of a reading that had been deferred
	also  map[admit.Chain]bool // other chains that it covers
}

// Headers returns the record's own headers, and headers with its offset and why it was refused.
func (d *DeadLetter) Headers() []admit.Header {
	own := make([]admit.Header, 0, len(d.Record.Headers)+8)
	return append(append(own, d.Record.Headers...), d.Facts()...)
}

// Facts returns the headers that Binnacle adds.
func (d *DeadLetter) Facts() []admit.Header {
	var own []admit.Header
	for _, h := range []struct{ key, value string }{
		{deadletter.HeaderReason, string(d.Bad.Reason)},
		{deadletter.HeaderDetail, d.Bad.Detail},
		{deadletter.HeaderTopic, d.Topic},
		{deadletter.HeaderPartition, strconv.Itoa(int(d.Partition))},
		{deadletter.HeaderOffset, strconv.FormatInt(d.Record.Offset, 10)},
		{deadletter.HeaderIndex, strconv.Itoa(d.Bad.Index)},
	} {
		own = append(own, admit.Header{Key: h.key, Value: []byte(h.value)})
	}
	if d.Elements.Count() > 1 {
		own = append(own, admit.Header{Key: deadletter.HeaderElements, Value: []byte(d.Elements.String())})
	}
	if d.Record.Time >= 0 {
		own = append(own, admit.Header{Key: deadletter.HeaderTimestamp, Value: []byte(strconv.FormatInt(d.Record.Time, 10))})
	}
	if d.Unreadable != nil {
		through := strconv.FormatInt(d.Unreadable.Through, 10)
		own = append(own, admit.Header{Key: deadletter.HeaderThrough, Value: []byte(through)})
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
	Queued queue.FIFO[DeadLetter]
	Bytes  int // memory of all of them

	atOnce int // publications that may be under way
	// published has the publications of the first dead letters, in their order, until all before are acknowledged.
	published []*publication
	taken     int // dead letters in these publications

	ofRecord int // how many of the last are of one record
	payloads int // and how many of those have its payload
}

// publication is some dead letters that are published together.
type publication struct {
	letters            int
	running, confirmed bool
}

const (
	// One publication: dead letters, and bytes of their records.
	maxPublish      = 2000
	maxPublishBytes = 8 << 20

	// PublicationsAtOnce bounds the publications of refused records that are under way. Beyond MaxUnpublished bytes of
	// dead letters that are not acknowledged the partition is not read on: the memory is for what is accepted.
	PublicationsAtOnce = 4
	MaxUnpublished     = 32 << 20

	// What is refused of a record for one reason is one dead letter, unless it has more runs of elements than a header
	// should list. The payload goes out so often at most.
	maxRuns     = 2000
	maxPayloads = 4

	// deadLetterBytes is the memory of a dead letter without its record, runBytes of a run of its elements, and
	// alsoBytes of another chain that it covers.
	deadLetterBytes = 512
	runBytes        = 16
	alsoBytes       = 160
)

// Len returns how many dead letters are not acknowledged.
func (d *deadLetters) Len() int { return d.Queued.Len() }

// Add queues a dead letter, or has one that is there stand for its elements too, and returns which one. What is refused
// of a record must come together, its elements in their order for each reason.
func (d *deadLetters) Add(l DeadLetter) (at *DeadLetter, isNew bool) {
	all := d.Queued.All()
	n := len(all)
	if n == d.taken || d.ofRecord == 0 || all[n-1].Record.Offset != l.Record.Offset { // those in flight are full
		d.ofRecord, d.payloads = 0, 0
		l.Record = l.Record.Clone() // the rest of the fetch can be freed
		l.Bytes = l.Record.Bytes()
	} else {
		l.Record = all[n-1].Record
		if l.Unreadable == nil && l.Bad.Index >= 0 {
			for i := n - 1; i >= max(n-d.ofRecord, d.taken); i-- {
				if x := &all[i]; x.Bad.Reason == l.Bad.Reason && x.Bad.Index >= 0 && d.join(x, l.Bad) {
					return x, false
				}
			}
		}
	}
	d.ofRecord++
	if l.Bare = l.Unreadable != nil || d.payloads == maxPayloads; !l.Bare {
		d.payloads++
	}
	l.Bytes += deadLetterBytes
	if l.Bad.Index >= 0 {
		l.Elements = deadletter.Elements{{First: l.Bad.Index, Last: l.Bad.Index + l.Bad.More}}
	}
	d.Queued.Push(l)
	d.Bytes += l.Bytes
	return &d.Queued.All()[d.Len()-1], true
}

// join adds further refused elements of the record to a dead letter, and reports whether it can.
func (d *deadLetters) join(x *DeadLetter, bad decode.Bad) bool {
	runs := len(x.Elements)
	switch last := x.Elements[runs-1].Last; {
	case bad.Index == last && bad.More == 0:
		return true // another reading of the same element
	case bad.Index <= last, runs >= maxRuns && bad.Index > last+1:
		return false
	}
	x.Elements.Add(deadletter.Run{First: bad.Index, Last: bad.Index + bad.More})
	more := runBytes * (len(x.Elements) - runs)
	x.Bytes += more
	d.Bytes += more
	return true
}

// also makes a dead letter cover a reading of another chain, and reports whether it did not yet.
func (d *deadLetters) also(l *DeadLetter, c admit.Chain) bool {
	if l.also == nil {
		l.also = map[admit.Chain]bool{}
	}
	if l.chain == c || l.also[c] {
		return false
	}
	l.also[c] = true
	l.Bytes += alsoBytes
	d.Bytes += alsoBytes
	return true
}

// First returns the lowest offset that is not acknowledged, of dead letters that came in the order of offsets.
func (d *deadLetters) First() (offset int64, ok bool) {
	if d.Len() == 0 {
		return 0, false
	}
	return d.Queued.All()[0].Record.Offset, true
}

// job returns the next publication, nil while as many are under way as may be, or there is nothing to publish.
func (d *deadLetters) job() *Publish {
	all, from, running := d.Queued.All(), 0, 0
	for _, p := range d.published {
		if p.running {
			running++
		}
	}
	if running >= max(1, d.atOnce) {
		return nil
	}
	for _, p := range d.published {
		if !p.running && !p.confirmed { // it failed
			p.running = true
			return &Publish{DeadLetters: slices.Clone(all[from : from+p.letters]), part: p}
		}
		from += p.letters
	}
	if all = all[from:]; len(all) == 0 || len(d.published) >= 4*max(1, d.atOnce) {
		return nil
	}
	p := &publication{running: true}
	for bytes := 0; p.letters < min(len(all), maxPublish) && bytes < maxPublishBytes; p.letters++ {
		if l := &all[p.letters]; !l.Bare {
			bytes += l.Record.Bytes()
		}
	}
	for p.letters < len(all) && all[p.letters].Record.Offset == all[p.letters-1].Record.Offset {
		p.letters++ // the dead letters of one record go out together
	}
	d.published, d.taken = append(d.published, p), d.taken+p.letters
	return &Publish{DeadLetters: slices.Clone(all[:p.letters]), part: p}
}

// failed takes a job back, to be done again.
func (p *publication) failed() { p.running = false }

// done takes a job back. Its dead letters are acknowledged, and go when those before them are, too.
func (d *deadLetters) done(p *publication) {
	p.running, p.confirmed = false, true
	for len(d.published) > 0 && d.published[0].confirmed {
		n := d.published[0].letters
		for i := range d.Queued.All()[:n] {
			d.Bytes -= d.Queued.All()[i].Bytes
		}
		d.Queued.Drop(n)
		d.published, d.taken = d.published[1:], d.taken-n
	}
}
