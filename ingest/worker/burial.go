package worker

import (
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"
)

// bury makes dead letters of the readings of a chunk that the store will never take. The rows stay where they are
// until the letters are acknowledged: they hold back the floor, and the head shows them. The chunk's number stays
// free. It fails when a shelf has lost rows.
func (w *Worker) bury(c *chain) (*Bury, error) {
	b := &Bury{chain: c}
	var open *DeadLetter
	err := c.flight.rows.Each(func(offset int64, reading telemetry.Reading) {
		if open == nil || open.Record.Offset != offset {
			b.Letters = append(b.Letters, w.letterOf(c, offset))
			open = &b.Letters[len(b.Letters)-1]
		} else {
			open.Record.Value = append(open.Record.Value, ',')
		}
		reading.Tenant, reading.Device = c.device.tenant.name, c.device.id
		open.Record.Value = decode.AppendJSON(open.Record.Value, reading)
	})
	for i := range b.Letters {
		b.Letters[i].Record.Value = append(b.Letters[i].Record.Value, ']')
	}
	return b, err
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

// maxBurials bounds the chunks whose dead letters are under way.
const maxBurials = 4

// burials are the next dead letters: of records that were refused, and of chunks.
func (w *Worker) burials(jobs []Job, now time.Time) []Job {
	if !w.burial.open(now) {
		return jobs
	}
	if b := w.letters.job(); b != nil {
		jobs = append(jobs, b)
	}
	if b := w.recall.letters.job(); b != nil {
		b.recalled = true
		jobs = append(jobs, b)
	}
	for w.refused.len() > 0 && w.burying < maxBurials {
		c := w.refused.pop()
		b, err := w.bury(c)
		if err != nil {
			w.lose(err)
			return jobs
		}
		w.mu.Lock()
		c.resume()
		w.mu.Unlock()
		w.burying++
		jobs = append(jobs, b)
		w.file(c)
	}
	return jobs
}

// reject has the flight of a chain go to the dead letters.
func (w *Worker) reject(c *chain, why string, now time.Time) {
	w.mu.Lock()
	c.refuse(why, now)
	w.mu.Unlock()
	w.refused.push(c)
	w.file(c)
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
	case j.recalled && r.Fault != None:
		w.recall.letters.back()
	case j.recalled:
		w.recall.letters.done()
		w.recall.acknowledged(j.Letters)
		w.decided(now)
	case c == nil && r.Fault != None:
		w.letters.back()
	case c == nil:
		w.letters.done()
	case r.Fault != None:
		w.burying--
		w.reject(c, c.flight.bad, now)
	default:
		w.burying--
		for range j.Letters {
			w.observer.Refused(decode.Unstorable)
		}
		w.mu.Lock()
		c.buried(now)
		w.mu.Unlock()
		w.requeue(c, now)
	}
}
