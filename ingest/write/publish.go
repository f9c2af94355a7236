package write

import (
	"binnacle/ingest/admit"
	"binnacle/ingest/bins"
	"binnacle/ingest/decode"
	"binnacle/ingest/queue"
	"binnacle/internal/retry"
	"binnacle/internal/telemetry"
	"math"
	"time"
)

// publisher has the dead letters that are not acknowledged: of records that were refused when they came, of readings
// that had been deferred, and of chunks that the store will never take. It holds back the floor for dead letters of
// the first two kinds (rule W7); chunks hold it back themselves.
type publisher struct {
	cfg      *Config
	observer Observer

	Refused  deadLetters
	Deferred deferredDeadLetters
	retry    retry.Backoff

	unstorable queue.FIFO[*bins.Chain] // chains with flights that will become dead letters
	running    int                     // how many of the unstorable chains are in flight
}

// deferredDeadLetters are the dead letters of readings that had been deferred. They come in no order of offsets.
type deferredDeadLetters struct {
	deadLetters
	lowest  minima              // offsets of the dead letters
	ofChain map[admit.Chain]int // how many of them are of a chain
}

// Refuse makes a dead letter of a record, or of one of its elements.
func (p *publisher) Refuse(rec *admit.Record, bad decode.Bad) {
	p.Refused.Add(DeadLetter{Topic: p.cfg.Topic, Partition: p.cfg.Partition, Record: *rec, Bad: bad})
	p.observer.Refused(bad.Reason, bad.More+1)
}

// RefuseUnreadable makes one dead letter of a part of the log from an offset on.
func (p *publisher) RefuseUnreadable(s *admit.Unreadable, offset int64) {
	p.Refused.Add(DeadLetter{Topic: p.cfg.Topic, Partition: p.cfg.Partition,
		Record: admit.Record{Offset: offset, Time: s.Time}, Bad: s.Bad, Unreadable: s})
	p.observer.Refused(s.Bad.Reason, 1)
}

// Pending returns how many dead letters of records and readings, not of chunks, are not acknowledged.
func (p *publisher) Pending() int { return p.Refused.Len() + p.Deferred.Len() }

// RefuseDeferred makes a dead letter of a reading that had been deferred.
func (p *publisher) RefuseDeferred(rec *admit.Record, x *admit.Refusal) {
	d := &p.Deferred
	l := DeadLetter{Topic: p.cfg.Topic, Partition: p.cfg.Partition, Record: *rec, Bad: x.Bad, chain: x.Chain}
	p.observer.Refused(x.Bad.Reason, 1)
	if at, isNew := d.Add(l); isNew {
		d.lowest.push(rec.Offset)
	} else if !d.also(at, l.chain) {
		return // it speaks for the chain already
	}
	if d.ofChain == nil {
		d.ofChain = map[admit.Chain]int{}
	}
	d.ofChain[l.chain]++
}

// Floor returns the lowest offset of a record with a dead letter that is not acknowledged; ok is false for none.
func (p *publisher) Floor() (offset int64, ok bool) {
	offset, ok = p.Deferred.lowest.first()
	if at, some := p.Refused.First(); some && (!ok || at < offset) {
		offset, ok = at, true
	}
	return offset, ok
}

// FirstRefused returns the lowest offset of a record that was refused when it came, until its dead letter is
// acknowledged: a block waits for it, since a later process may take the record (rule J2).
func (p *publisher) FirstRefused() int64 {
	if at, some := p.Refused.First(); some {
		return at
	}
	return math.MaxInt64
}

// awaitsDeferred reports whether dead letters of deferred readings of a chain are not acknowledged: no chunk and no
// block of it may be made before (rules W5, J2). They stand below what the chain takes later, and no other chain waits
// for them.
func (p *publisher) awaitsDeferred(c *bins.Chain) bool {
	return len(p.Deferred.ofChain) > 0 && p.Deferred.ofChain[c.Key()] > 0
}

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
func (p *publisher) publishFlight(c *bins.Chain) (*Publish, error) {
	b := &Publish{chain: c}
	var open *DeadLetter
	err := c.Flight.Rows.Each(func(offset int64, reading telemetry.Reading) {
		if open == nil || open.Record.Offset != offset {
			b.DeadLetters = append(b.DeadLetters, p.flightDeadLetter(c, offset))
			open = &b.DeadLetters[len(b.DeadLetters)-1]
		} else {
			open.Record.Value = append(open.Record.Value, ',')
		}
		reading.Tenant, reading.Device = c.Device.Tenant.Name, c.Device.ID
		open.Record.Value = decode.AppendJSON(open.Record.Value, reading)
	})
	for i := range b.DeadLetters {
		b.DeadLetters[i].Record.Value = append(b.DeadLetters[i].Record.Value, ']')
	}
	return b, err
}

// flightDeadLetter returns a dead letter for a record's remaining readings of one device and day, as a message.
func (p *publisher) flightDeadLetter(c *bins.Chain, offset int64) DeadLetter {
	return DeadLetter{
		Topic: p.cfg.Topic, Partition: p.cfg.Partition,
		Record: admit.Record{
			Offset: offset, Time: -1,
			Key:     []byte(c.Device.Tenant.Name + "/" + c.Device.ID),
			Value:   []byte("["),
			Headers: []admit.Header{{Key: admit.ContentType, Value: []byte("application/json")}},
		},
		Bad: decode.Bad{Index: decode.Whole, Reason: decode.Unstorable, Detail: c.Flight.Rejected},
	}
}

// MaxPublications bounds the chunks with dead letters in flight.
const MaxPublications = 4

// Publications appends the next dead letters to be published: of records that were refused, of readings that had been
// deferred, and of chunks.
func (w *Writer) Publications(jobs []Job, now time.Time) []Job {
	if !w.Publisher.retry.Open(now) {
		return jobs
	}
	for b := w.Publisher.Refused.job(); b != nil; b = w.Publisher.Refused.job() {
		jobs = append(jobs, b)
	}
	if b := w.Publisher.Deferred.job(); b != nil {
		b.deferred = true
		jobs = append(jobs, b)
	}
	for w.Publisher.unstorable.Len() > 0 && w.Publisher.running < MaxPublications {
		c := w.Publisher.unstorable.Pop()
		b, err := w.Publisher.publishFlight(c)
		if err != nil {
			w.bins.Lose(err)
			return jobs
		}
		w.bins.Lock()
		c.Resume()
		w.bins.Unlock()
		w.Publisher.running++
		jobs = append(jobs, b)
		w.bins.File(c)
	}
	return jobs
}

// RejectFlight turns the flight of a chain into dead letters.
func (w *Writer) RejectFlight(c *bins.Chain, why string, now time.Time) {
	w.bins.Lock()
	c.RejectFlight(why, now)
	w.bins.Unlock()
	w.Publisher.unstorable.Push(c)
	w.bins.File(c)
}

// Published takes a Publish back.
func (w *Writer) Published(j *Publish, now time.Time) {
	r, c := j.Outcome(), j.chain
	if r.Fault != bins.None {
		w.Publisher.retry.Fail(now, w.Cfg.Retry(r.After))
	} else {
		w.Publisher.retry = retry.Backoff{}
	}
	switch {
	case c == nil && r.Fault != bins.None:
		j.part.failed()
	case j.deferred:
		w.Publisher.Deferred.acknowledged(j.part, j.DeadLetters)
		w.releaseDecided(now)
	case c == nil:
		w.Publisher.Refused.done(j.part)
	case r.Fault != bins.None:
		w.Publisher.running--
		w.RejectFlight(c, c.Flight.Rejected, now)
	default:
		w.Publisher.running--
		w.observer.Refused(decode.Unstorable, len(j.DeadLetters))
		w.bins.Lock()
		c.Published(now)
		w.bins.Unlock()
		w.requeue(c, now)
	}
}

// releaseDecided queues chains again when all dead letters of their deferred readings are acknowledged.
func (w *Writer) releaseDecided(now time.Time) {
	for n := w.Awaiting.deferred.Len(); n > 0; n-- {
		c := w.Awaiting.deferred.Pop()
		switch {
		case c.Phase != bins.Sealed:
		case w.Publisher.awaitsDeferred(c):
			w.Awaiting.deferred.Push(c)
		default:
			c.Release()
			w.enqueue(c, now)
			w.bins.File(c)
		}
	}
}
