package worker

import (
	"time"

	"binnacle/ingest/decode"
)

// bury makes dead letters of the readings of a chunk that the store will never take. The rows stay where they are until the
// letters are acknowledged: they hold back the floor, and the head shows them. The chunk's number stays free.
func (w *Worker) bury(c *chain) *Bury {
	b := &Bury{chain: c}
	var open *DeadLetter
	for offset, reading := range c.flight.rows.Each() {
		if open == nil || open.Record.Offset != offset {
			b.Letters = append(b.Letters, w.letterOf(c, offset))
			open = &b.Letters[len(b.Letters)-1]
		} else {
			open.Record.Value = append(open.Record.Value, ',')
		}
		reading.Tenant, reading.Device = c.device.tenant.name, c.device.id
		open.Record.Value = decode.AppendJSON(open.Record.Value, reading)
	}
	for i := range b.Letters {
		b.Letters[i].Record.Value = append(b.Letters[i].Record.Value, ']')
		w.observer.Refused(decode.Unstorable)
	}
	return b
}

// letterOf is a letter for what is left of a record: its readings of one device and day, as a message.
func (w *Worker) letterOf(c *chain, offset int64) DeadLetter {
	return DeadLetter{
		Topic: w.cfg.Topic, Partition: w.partition,
		Record: Record{
			Offset: offset, Time: -1,
			Key:     []byte(c.device.tenant.name + "/" + c.device.id),
			Value:   []byte("["),
			Headers: []Header{{Key: contentTypeHeader, Value: []byte("application/json")}},
		},
		Bad: decode.Bad{Index: decode.Whole, Reason: decode.Unstorable, Detail: c.flight.bad},
	}
}

// reject has the flight of a chain go to the dead letters.
func (w *Worker) reject(c *chain, why string, now time.Time) {
	w.mu.Lock()
	c.refuse(why)
	c.fail(Rejected, now)
	w.mu.Unlock()
	c.stall.ready = true
	w.queue.push(c)
	w.index.file(c)
}

// interred takes a Bury back.
func (w *Worker) interred(j *Bury, now time.Time) {
	r, c := j.Ended(), j.chain
	if r.Fault != None {
		w.burial.failed(now, w.cfg.RetryBackoff, maxRetry*w.cfg.RetryBackoff, r.After, w.spreads.next())
	} else {
		w.burial = backoff{}
	}
	switch {
	case c == nil && r.Fault != None:
		w.letters.back()
	case c == nil:
		w.letters.done()
	case r.Fault != None:
		w.queue.ended(c)
		w.mu.Lock()
		c.fail(r.Fault, now)
		w.mu.Unlock()
		c.stall.at = w.burial.at
		w.index.file(c)
	default:
		w.queue.ended(c)
		w.mu.Lock()
		c.buried(now)
		w.mu.Unlock()
		w.requeue(c, now)
	}
}
