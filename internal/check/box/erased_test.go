package box_test

import (
	"encoding/json"
	"strings"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/erasure"
	"binnacle/internal/ops/erase"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// hiddenWithin is how long after an order is acknowledged an answer that begins then may still show what it erases: 5
// seconds as the guide says, for a replica that lags, and a clock that is known to a second or two.
const hiddenWithin = 5*time.Second + maxLag + 3*time.Second

// ordered is an order of erasure, as the store has acknowledged its documents.
type ordered struct {
	id, tenant, device string
	from, to           telemetry.Day
	at                 int64 // ms since 1970 UTC, as its operator's clock was
	announced          time.Time
	isCopy             bool
	// ends are where the partitions ended when it was announced.
	ends      []int64
	positions map[int32]int64 // the last offset that it covers
	// acknowledged is when the positions were stored, by the clock of the box.
	acknowledged   time.Time
	isVoid         bool
	swept, cleared time.Time
	// rows counts the rows of the chunks that were replaced for it.
	rows int
}

// ordersDocument takes a document of an order that the store has acknowledged. The caller holds mu.
func (o *oracle) ordersDocument(d store.Document) {
	dot := strings.LastIndex(d.ID, ".")
	id, what := d.ID[:dot], d.ID[dot+1:]
	var body struct {
		Tenant, Device string
		From, To       telemetry.Day
		At             int64
		Void           bool
		Positions      []erasure.Position
	}
	if err := json.Unmarshal(d.Body, &body); err != nil {
		o.b.fail("the document %s of an erasure can't be read: %v", d.ID, err)
		return
	}
	of := o.copiedOrder(id)
	if what == "order" {
		x := &ordered{id: id, tenant: body.Tenant, device: body.Device, from: body.From, to: body.To, at: body.At,
			announced: time.Now(), isCopy: of != nil}
		if of != nil && !of.isSame(x) {
			o.b.fail("erasure %s is copied as %+v", of.id, x)
		}
		for _, l := range o.b.log.topics[topic] {
			x.ends = append(x.ends, int64(len(l.records)))
		}
		o.orders[id] = x
		return
	}
	x := o.orders[id]
	switch what {
	case "positions":
		if x.isVoid = body.Void; x.isVoid {
			return
		}
		x.acknowledged, x.positions = time.Now(), map[int32]int64{}
		if of != nil {
			o.copyOfOrder(x, body.Positions, of)
			return
		}
		o.checkCopied(x, body.Positions)
		for _, p := range body.Positions {
			if o.streams[p.Stream].isCopied {
				o.takePosition(x, p)
			}
			if o.streams[p.Stream].isCopied || p.Partition == erasure.EveryPartition {
				continue
			}
			x.positions[p.Partition] = p.Through
			end := int64(len(o.b.log.topics[topic][p.Partition].records))
			if p.Through < x.ends[p.Partition]-1 || p.Through >= end {
				o.b.fail("erasure %s covers partition %d up to offset %d: it ended at %d when the order was announced, and at %d "+
					"when it was acknowledged", id, p.Partition, p.Through, x.ends[p.Partition], end)
			}
		}
		if !o.b.operating.kept[id] {
			o.b.fail("erasure %s is acknowledged, and the topic of orders lacks it", id)
		}
	case "swept":
		if x.swept = time.Now(); x.swept.Sub(x.acknowledged) < 0 {
			o.b.fail("erasure %s is swept before it is acknowledged", id)
		}
	case "cleared":
		x.cleared = time.Now()
	}
}

// given takes an order that a command has given: it is acknowledged.
func (o *oracle) given(e *erasure.Order) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if x := o.orders[e.ID]; x == nil || x.acknowledged.IsZero() || x.isVoid {
		o.b.fail("a command has given erasure %s, and it is not acknowledged", e.ID)
	}
}

// erased returns since when a reading is erased, zero if it is not. The caller holds mu.
func (o *oracle) erased(s series, at place) (since time.Time) {
	if first, ok := o.replayed[at]; ok { // rule E-R6
		at = first
	}
	for _, x := range o.orders {
		day := telemetry.DayOf(s.time)
		if x.acknowledged.IsZero() || x.tenant != s.tenant || x.device != "" && x.device != s.device || day < x.from ||
			day >= x.to {
			continue
		}
		through, isKnown := x.positions[at.partition]
		if !isKnown && (at.partition < copiedFrom || x.isCopy) && o.record(at).time <= x.at {
			through = at.offset // its stream began after the order
		} else if !isKnown {
			through = -1
		}
		if at.offset <= through && (since.IsZero() || x.acknowledged.Before(since)) {
			since = x.acknowledged
		}
	}
	return since
}

// isErased reports whether a version of a value is erased by now. The caller holds mu.
func (o *oracle) isErased(s series, x version) bool {
	return !o.erased(s, place{x.partition, x.offset}).IsZero()
}

// isGone reports whether no answer to the last question of a querier may show a version. The caller holds mu.
func (o *oracle) isGone(q *querier, s series, x version) bool {
	since := o.erased(s, place{x.partition, x.offset})
	return !since.IsZero() && q.asked.Sub(since) > hiddenWithin
}

// refusedErased reports whether a refused record needs no dead letter, since an order erases it. The caller holds mu.
func (o *oracle) refusedErased(at place) bool {
	s, ok := o.refusedOf[at]
	return ok && !o.erased(s, at).IsZero()
}

// erasuresEnded reports whether each order is void, or cleared.
func (o *oracle) erasuresEnded() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, x := range o.orders {
		if !x.isVoid && x.cleared.IsZero() {
			return false
		}
	}
	return true
}

// ordersDecided reports whether each order is void, or acknowledged.
func (o *oracle) ordersDecided() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, x := range o.orders {
		if !x.isVoid && x.acknowledged.IsZero() {
			return false
		}
	}
	return true
}

// keptReadings returns how many readings must be stored. The caller holds mu.
func (o *oracle) keptReadings() (n int) {
	for _, a := range o.accepted {
		if o.erased(a.of, a.at).IsZero() && o.isKept(a.number) && !o.mayHide(a.of) {
			n++
		}
	}
	return n
}

// replaced takes a chunk that was put in the place of another one.
func (o *oracle) replaced(device string, was, is []byte, sent time.Time) {
	old, err := store.ParseStoredChunk(was)
	if err == nil && o.from != nil && old.IsFence() {
		o.created(nil, device, is, sent)
		return
	}
	var doc struct{ Erased []chunk.Erased }
	if err == nil {
		err = json.Unmarshal(is, &doc)
	}
	if err != nil || len(doc.Erased) == 0 {
		o.b.fail("a chunk is replaced by what can't be read: %s: %v", is, err)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if of := o.orders[doc.Erased[len(doc.Erased)-1].Order]; of != nil {
		of.rows += old.Rows
	}
}

// certified holds that a certificate counts the rows that were erased from chunks.
func (o *oracle) certified(c *erase.Certificate) {
	o.mu.Lock()
	defer o.mu.Unlock()
	rows := 0
	for _, p := range c.Chunks {
		rows += p.Rows
	}
	if is := o.orders[c.Order]; rows != is.rows || !c.Swept.After(c.Given) {
		o.b.fail("the certificate of erasure %s counts %d rows, and %d were erased", c.Order, rows, is.rows)
	}
}
