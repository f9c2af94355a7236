package worker

import (
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"
)

// publishFlight makes dead letters of the readings of a chunk that the store will never take. The rows stay where they are
// until the letters are acknowledged: they hold back the floor, and the head shows them. The chunk's number stays
// free. It fails when a shelf has lost rows.
func (w *Worker) publishFlight(c *chain) (*Publish, error) {
	b := &Publish{chain: c}
	var open *DeadLetter
	err := c.flight.rows.Each(func(offset int64, reading telemetry.Reading) {
		if open == nil || open.Record.Offset != offset {
			b.DeadLetters = append(b.DeadLetters, w.flightDeadLetter(c, offset))
			open = &b.DeadLetters[len(b.DeadLetters)-1]
		} else {
			open.Record.Value = append(open.Record.Value, ',')
		}
		reading.Tenant, reading.Device = c.device.tenant.name, c.device.id
		open.Record.Value = decode.AppendJSON(open.Record.Value, reading)
	})
	for i := range b.DeadLetters {
		b.DeadLetters[i].Record.Value = append(b.DeadLetters[i].Record.Value, ']')
	}
	return b, err
}

// flightDeadLetter is a letter for what is left of a record: its readings of one device and day, as a message.
func (w *Worker) flightDeadLetter(c *chain, offset int64) DeadLetter {
	return DeadLetter{
		Topic: w.cfg.Topic, Partition: w.partition,
		Record: Record{
			Offset: offset, Time: -1,
			Key:     []byte(c.device.tenant.name + "/" + c.device.id),
			Value:   []byte("["),
			Headers: []Header{{Key: contentTypeHeader, Value: []byte("application/json")}},
		},
		Bad: decode.Bad{Index: decode.Whole, Reason: decode.Unstorable, Detail: c.flight.rejected},
	}
}

// maxPublications bounds the chunks whose dead letters are under way.
const maxPublications = 4

// publications are the next dead letters: of records that were refused, and of chunks.
func (w *Worker) publications(jobs []Job, now time.Time) []Job {
	if !w.publishRetry.open(now) {
		return jobs
	}
	if b := w.deadLetters.job(); b != nil {
		jobs = append(jobs, b)
	}
	if b := w.deferrals.deadLetters.job(); b != nil {
		b.deferred = true
		jobs = append(jobs, b)
	}
	for w.unstorable.len() > 0 && w.publishing < maxPublications {
		c := w.unstorable.pop()
		b, err := w.publishFlight(c)
		if err != nil {
			w.lose(err)
			return jobs
		}
		w.mu.Lock()
		c.resume()
		w.mu.Unlock()
		w.publishing++
		jobs = append(jobs, b)
		w.file(c)
	}
	return jobs
}

// rejectFlight has the flight of a chain go to the dead letters.
func (w *Worker) rejectFlight(c *chain, why string, now time.Time) {
	w.mu.Lock()
	c.rejectFlight(why, now)
	w.mu.Unlock()
	w.unstorable.push(c)
	w.file(c)
}

// published takes a Bury back.
func (w *Worker) published(j *Publish, now time.Time) {
	r, c := j.Outcome(), j.chain
	if r.Fault != None {
		w.publishRetry.failed(now, w.cfg.RetryBackoff, maxRetry*w.cfg.RetryBackoff, r.After, w.spreads.next())
	} else {
		w.publishRetry = backoff{}
	}
	switch {
	case j.deferred && r.Fault != None:
		w.deferrals.deadLetters.failed()
	case j.deferred:
		w.deferrals.deadLetters.done()
		w.deferrals.acknowledged(j.DeadLetters)
		w.releaseDecided(now)
	case c == nil && r.Fault != None:
		w.deadLetters.failed()
	case c == nil:
		w.deadLetters.done()
	case r.Fault != None:
		w.publishing--
		w.rejectFlight(c, c.flight.rejected, now)
	default:
		w.publishing--
		for range j.DeadLetters {
			w.observer.Refused(decode.Unstorable)
		}
		w.mu.Lock()
		c.published(now)
		w.mu.Unlock()
		w.requeue(c, now)
	}
}
