package worker

import (
	"math"
	"time"

	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/queue"
	"binnacle/internal/retry"
	"binnacle/internal/telemetry"
)

// publisher has the dead letters that are not acknowledged: of records that were refused when they came, of readings
// that had been deferred, and of chunks that the store will never take. It holds back the floor for those of the first
// two kinds (rule W7); chunks hold it back themselves.
type publisher struct {
	cfg       *Config
	partition int32
	observer  Observer

	refused  deadLetters
	deferred deferredDeadLetters
	retry    retry.Backoff

	unstorable queue.FIFO[*chain] // with flights that are to become dead letters
	running    int                // of those, how many are in flight
}

// deferredDeadLetters are those of readings that had been deferred. They come in no order of offsets.
type deferredDeadLetters struct {
	deadLetters
	lowest  minima              // of their offsets
	ofChain map[admit.Chain]int // how many of them are of a chain
}

// refuse makes a dead letter of a record, or of one of its elements.
func (p *publisher) refuse(rec *admit.Record, bad decode.Bad) {
	p.refused.add(DeadLetter{Topic: p.cfg.Topic, Partition: p.partition, Record: *rec, Bad: bad})
	p.observer.Refused(bad.Reason, bad.More+1)
}

// refuseDeferred makes a dead letter of a reading that had been deferred.
func (p *publisher) refuseDeferred(rec *admit.Record, x *admit.Refusal) {
	d := &p.deferred
	l := DeadLetter{Topic: p.cfg.Topic, Partition: p.partition, Record: *rec, Bad: x.Bad, chain: x.Chain}
	p.observer.Refused(x.Bad.Reason, 1)
	if at, isNew := d.add(l); isNew {
		d.lowest.push(rec.Offset)
	} else if !d.also(at, l.chain) {
		return // it speaks for the chain already
	}
	if d.ofChain == nil {
		d.ofChain = map[admit.Chain]int{}
	}
	d.ofChain[l.chain]++
}

// floor returns the lowest offset of a record with a dead letter that is not acknowledged; ok is false for none.
func (p *publisher) floor() (offset int64, ok bool) {
	offset, ok = p.deferred.lowest.first()
	if at, some := p.refused.first(); some && (!ok || at < offset) {
		offset, ok = at, true
	}
	return offset, ok
}

// firstRefused returns the lowest offset of a record that was refused when it came, until its dead letter is
// acknowledged: a block waits for it, since a later process may take the record (rule J2).
func (p *publisher) firstRefused() int64 {
	if at, some := p.refused.first(); some {
		return at
	}
	return math.MaxInt64
}

// awaitsDeferred reports whether dead letters of deferred readings of a chain are not acknowledged: no chunk and no
// block of it may be made before (rules W5, J2). They stand below what the chain takes later, and no other chain waits
// for them.
func (p *publisher) awaitsDeferred(c *chain) bool {
	return len(p.deferred.ofChain) > 0 && p.deferred.ofChain[c.key()] > 0
}

// acknowledged ends the publication in flight.
func (d *deferredDeadLetters) acknowledged(part *publication, published []DeadLetter) {
	d.done(part)
	for i := range published {
		l := &published[i]
		d.lowest.pop(l.Record.Offset)
		d.decided(l.chain)
		for c := range l.also {
			d.decided(c)
		}
	}
}

// decided takes away a dead letter that speaks for a chain.
func (d *deferredDeadLetters) decided(c admit.Chain) {
	if d.ofChain[c]--; d.ofChain[c] <= 0 {
		delete(d.ofChain, c)
	}
}

// minima is a queue of numbers that knows the least of them.
type minima struct{ candidates queue.FIFO[int64] }

func (m *minima) push(n int64) {
	for c := &m.candidates; c.Len() > 0 && c.All()[c.Len()-1] > n; {
		c.Unpush()
	}
	m.candidates.Push(n)
}

// pop takes out the number that came first, which is given.
func (m *minima) pop(n int64) {
	if m.candidates.Len() > 0 && m.candidates.Front() == n {
		m.candidates.Pop()
	}
}

func (m *minima) first() (n int64, ok bool) {
	if m.candidates.Len() == 0 {
		return 0, false
	}
	return m.candidates.Front(), true
}

// publishFlight returns dead letters of the readings of a chunk that the store will never take. The rows stay where
// they are until those are acknowledged: they hold back the floor, and heads show them. The chunk's number stays free.
// It fails when a shelf has lost rows.
func (p *publisher) publishFlight(c *chain) (*Publish, error) {
	b := &Publish{chain: c}
	var open *DeadLetter
	err := c.flight.rows.Each(func(offset int64, reading telemetry.Reading) {
		if open == nil || open.Record.Offset != offset {
			b.DeadLetters = append(b.DeadLetters, p.flightDeadLetter(c, offset))
			open = &b.DeadLetters[len(b.DeadLetters)-1]
		} else {
			open.Record.Value = append(open.Record.Value, ',')
		}
		reading.Tenant, reading.Device = c.device.tenant.Name, c.device.ID
		open.Record.Value = decode.AppendJSON(open.Record.Value, reading)
	})
	for i := range b.DeadLetters {
		b.DeadLetters[i].Record.Value = append(b.DeadLetters[i].Record.Value, ']')
	}
	return b, err
}

// flightDeadLetter returns a dead letter for what is left of a record: its readings of one device and day, as a
// message.
func (p *publisher) flightDeadLetter(c *chain, offset int64) DeadLetter {
	return DeadLetter{
		Topic: p.cfg.Topic, Partition: p.partition,
		Record: admit.Record{
			Offset: offset, Time: -1,
			Key:     []byte(c.device.tenant.Name + "/" + c.device.ID),
			Value:   []byte("["),
			Headers: []admit.Header{{Key: admit.ContentType, Value: []byte("application/json")}},
		},
		Bad: decode.Bad{Index: decode.Whole, Reason: decode.Unstorable, Detail: c.flight.rejected},
	}
}

// maxPublications bounds the chunks with dead letters in flight.
const maxPublications = 4

// publications appends the next dead letters to be published: of records that were refused, of readings that had been
// deferred, and of chunks.
func (w *Worker) publications(jobs []Job, now time.Time) []Job {
	if !w.publisher.retry.Open(now) {
		return jobs
	}
	for b := w.publisher.refused.job(); b != nil; b = w.publisher.refused.job() {
		jobs = append(jobs, b)
	}
	if b := w.publisher.deferred.job(); b != nil {
		b.deferred = true
		jobs = append(jobs, b)
	}
	for w.publisher.unstorable.Len() > 0 && w.publisher.running < maxPublications {
		c := w.publisher.unstorable.Pop()
		b, err := w.publisher.publishFlight(c)
		if err != nil {
			w.lose(err)
			return jobs
		}
		w.mu.Lock()
		c.resume()
		w.mu.Unlock()
		w.publisher.running++
		jobs = append(jobs, b)
		w.file(c)
	}
	return jobs
}

// rejectFlight has the flight of a chain become dead letters.
func (w *Worker) rejectFlight(c *chain, why string, now time.Time) {
	w.mu.Lock()
	c.rejectFlight(why, now)
	w.mu.Unlock()
	w.publisher.unstorable.Push(c)
	w.file(c)
}

// published takes a Publish back.
func (w *Worker) published(j *Publish, now time.Time) {
	r, c := j.Outcome(), j.chain
	if r.Fault != None {
		w.publisher.retry.Fail(now, w.cfg.retry(r.After, w.spreads))
	} else {
		w.publisher.retry = retry.Backoff{}
	}
	switch {
	case j.deferred && r.Fault != None:
		j.part.failed()
	case j.deferred:
		w.publisher.deferred.acknowledged(j.part, j.DeadLetters)
		w.releaseDecided(now)
	case c == nil && r.Fault != None:
		j.part.failed()
	case c == nil:
		w.publisher.refused.done(j.part)
	case r.Fault != None:
		w.publisher.running--
		w.rejectFlight(c, c.flight.rejected, now)
	default:
		w.publisher.running--
		w.observer.Refused(decode.Unstorable, len(j.DeadLetters))
		w.mu.Lock()
		c.published(now)
		w.mu.Unlock()
		w.requeue(c, now)
	}
}
