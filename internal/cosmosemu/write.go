package cosmosemu

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/valyala/fastjson"

	"binnacle/internal/cosmosemu/patch"
	"binnacle/internal/cosmosemu/refusal"
	"binnacle/internal/cosmosemu/schema"
)

// operation is what a write does to an item that exists, or does not.
type operation int

const (
	opCreate operation = iota
	opUpsert
	opReplace
	opDelete
	opPatch
)

// write is one write of one item.
type write struct {
	server    *Server
	container *container
	revision  *revision
	doc       *document
	now       time.Time
	op        operation
	match     string // If-Match
	noneMatch string // If-None-Match
	minimal   bool
	position  int          // among the writes of a transaction, which share a log sequence number
	patch     *patch.Patch // of opPatch

	partition *partition
	name      []byte // key of the header
	stored    bool   // there is a header, alive or expired
	alive     bool
	old       header
	fresh     header
	charge    float64
	logical   int64 // weight of the logical partition after the write
}

// run does the write: the check, the change and the charge under the lock of the physical partition,
// the wait for the log outside it.
func (w *write) run() (reply, error) {
	w.name = w.doc.name(w.container.number)
	batch, err := w.locked()
	if err != nil {
		return reply{}, w.refused(err)
	}
	var body []byte
	if !w.minimal {
		body = append(body, w.doc.value...)
	}
	rep := reply{status: w.status(), body: body, charge: w.charge, partition: w.partition, container: w.container, lsn: w.fresh.lsn, items: -1}
	if w.op != opDelete {
		rep.etag = etagOf(w.fresh.version())
	}
	if err := w.server.store.wait(batch); err != nil {
		return reply{}, fmt.Errorf("log a write: %w", err)
	}
	return rep, nil
}

// refused finishes a write that did not happen: what it was refused for must be durable.
func (w *write) refused(err error) error {
	f := refusal.Of(err)
	f.Range = w.partition.id
	if !f.Throttled() {
		if err := w.server.store.settle(); err != nil {
			return fmt.Errorf("log a write: %w", err)
		}
	}
	return f
}

func (w *write) locked() (*pebble.Batch, error) {
	p := w.container.lock(w.name[prefixLen:])
	defer p.mu.Unlock()
	w.partition = p
	if w.container.deleted.Load() {
		return nil, refusal.NotFound("the container was deleted")
	}
	if err := p.admit(w.now); err != nil {
		return nil, err
	}
	st := w.server.store
	batch := st.db.NewBatch()
	next, err := w.stage(batch, st.db, p.count)
	if err != nil {
		_ = batch.Close() // releases memory only
		var f *refusal.Error
		if errors.As(err, &f) {
			p.charge(w.now, f.Charge)
		}
		return nil, err
	}
	if err := p.afford(w.now, w.charge); err != nil {
		_ = batch.Close() // releases memory only
		return nil, err
	}
	if err := st.apply(batch); err != nil {
		return nil, fmt.Errorf("write an item: %w", err)
	}
	p.counted(next)
	p.charge(w.now, w.charge)
	w.noteExpiry()
	w.noteWeight()
	return batch, nil
}

// stage checks the write against what from holds and adds it to a batch, under the lock of the physical
// partition. It gives the counters after it. A *fault says what it is to be charged.
func (w *write) stage(b *pebble.Batch, from pebble.Reader, count counters) (counters, error) {
	var err error
	w.stored, w.alive, err = readHeader(from, w.name, &w.old, w.revision.TTL, w.now)
	if err != nil {
		return count, err
	}
	if f := w.check(); f != nil {
		// A refused write is charged as a read of what it met; the service publishes no figure.
		f.Charge = w.server.cfg.Model.Read(int(w.old.size))
		return count, f
	}
	if w.op == opPatch {
		if err := w.patched(from); err != nil {
			f := refusal.Of(err)
			f.Charge = w.server.cfg.Model.Read(int(w.old.size))
			return count, f
		}
	}
	if w.op != opDelete {
		if f := w.doc.Check(w.server.cfg.Limits.bounds()); f != nil {
			f.Charge = w.server.cfg.Model.Read(int(w.old.size))
			return count, f
		}
	}
	if w.charge, err = w.price(from); err != nil {
		return count, err
	}
	next := w.change(count)
	if err := firstError(w.room(from, count, next), w.weigh(b, from), w.claim(b, from)); err != nil {
		var f *refusal.Error
		if errors.As(err, &f) {
			f.Charge = w.server.cfg.Model.Read(int(w.old.size))
		}
		return count, err
	}
	return next, w.fill(b, next)
}

// noteExpiry tells the sweep of an item that will expire.
func (w *write) noteExpiry() {
	if w.op != opDelete && w.revision.TTL != 0 {
		w.container.expires(w.fresh.expiry(w.revision.TTL))
	}
}

// check holds the operation and its preconditions against what is there.
func (w *write) check() *refusal.Error {
	id := w.doc.ID
	switch {
	case w.op == opCreate && w.alive:
		return refusal.Conflict("the item %q exists", id)
	case (w.op == opReplace || w.op == opDelete || w.op == opPatch) && !w.alive:
		return refusal.NotFound("the item %q does not exist", id)
	}
	if !holds(w.match, w.noneMatch, w.alive, w.old.version()) {
		return refusal.PreconditionFailed()
	}
	return nil
}

// holds tells whether If-Match and If-None-Match allow a write. If-Match has no say over an item that
// is not there: an upsert then creates it.
func holds(match, noneMatch string, exists bool, version uint64) bool {
	if match != "" && match != "*" && exists && match != etagOf(version) {
		return false
	}
	if noneMatch != "" && exists && (noneMatch == "*" || noneMatch == etagOf(version)) {
		return false
	}
	return true
}

// price is the charge of the write. A replace needs the old terms, so it reads the old body.
func (w *write) price(from pebble.Reader) (float64, error) {
	m := w.server.cfg.Model
	p := w.revision.Policy
	switch {
	case w.op == opDelete:
		return m.Delete(int(w.old.size), int(w.old.terms)), nil
	case !w.alive:
		return m.Write(len(w.doc.JSON), p.Count(w.doc.Terms)), nil
	case p.Off():
		return m.Replace(int(w.old.size), len(w.doc.JSON), 0), nil
	}
	changed, err := w.changedTerms(from)
	if err != nil {
		return 0, err
	}
	return m.Replace(int(w.old.size), len(w.doc.JSON), changed), nil
}

// changedTerms counts the terms that a replace removes and adds: those that differ, and _ts twice.
func (w *write) changedTerms(from pebble.Reader) (int, error) {
	v, closer, err := from.Get(bodyName(nil, w.name))
	if err != nil {
		return 0, fmt.Errorf("read the body of an item: %w", err)
	}
	defer func() { _ = closer.Close() }()
	var parser fastjson.Parser
	doc, err := parser.ParseBytes(v)
	if err != nil {
		return 0, fmt.Errorf("read the body of an item: %w", err)
	}
	schema.DeleteSystem(doc)
	return 2 + difference(w.revision.Policy.Terms(nil, doc), w.doc.Terms), nil
}

// difference counts the elements of two sorted sets that only one of them has.
func difference(a, b []uint64) int {
	n := 0
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] == b[0]:
			a, b = a[1:], b[1:]
		case a[0] < b[0]:
			a, n = a[1:], n+1
		default:
			b, n = b[1:], n+1
		}
	}
	return n + len(a) + len(b)
}

// change gives the counters after the write, from those before it, and the header of the new version.
func (w *write) change(next counters) counters {
	if w.position == 0 {
		next.lsn++
	}
	if w.stored {
		next.items--
		next.bytes -= int64(w.old.size)
	}
	w.fresh = header{lsn: next.lsn, created: w.partition.created(next.lsn, w.position), position: uint8(w.position)}
	if w.op == opDelete {
		return next
	}
	w.fresh.modified = w.now.Unix()
	w.fresh.ttl = w.doc.TTL
	w.fresh.size = uint32(len(w.doc.JSON))
	w.fresh.terms = uint32(w.revision.Policy.Count(w.doc.Terms))
	w.fresh.generation = w.revision.generation
	w.fresh.covered = w.doc.Covered
	if w.alive {
		w.fresh.created = w.old.created
	}
	next.items++
	next.bytes += int64(w.fresh.size)
	return next
}

func (w *write) fill(b *pebble.Batch, next counters) error {
	d := w.doc
	d.bodyName = bodyName(d.bodyName, w.name)
	body := d.bodyName
	var err, logErr error
	if w.stored {
		d.logName, logErr = w.partition.unlogged(b, d.logName, w.name, w.old.lsn)
	}
	if w.op == opDelete {
		err = firstError(logErr, b.Delete(w.name, nil), b.Delete(body, nil))
	} else {
		d.head = w.fresh.append(d.head[:0])
		d.value = w.container.appendBody(d.value[:0], d.JSON, &w.fresh)
		err = firstError(logErr, b.Set(w.name, d.head, nil), b.Set(body, d.value, nil))
		d.logName, logErr = w.partition.logged(b, d.logName, w.name, &w.fresh)
		err = firstError(err, logErr)
	}
	var buf [24]byte
	if err = firstError(err, b.Set(w.partition.counter, next.append(buf[:0]), nil)); err != nil {
		return fmt.Errorf("write an item: %w", err)
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// appendBody appends an item with its system properties at the end.
func (c *container) appendBody(dst, json []byte, h *header) []byte {
	dst = append(dst, json[:len(json)-1]...)
	dst = append(dst, `,"_rid":"`...)
	rid := len(dst)
	dst = appendItemRID(dst, c.rid, h.created)
	end := len(dst)
	dst = append(dst, `","_self":"`...)
	dst = append(dst, c.docs...)
	dst = append(dst, dst[rid:end]...)
	dst = append(dst, `/","_etag":"\"`...)
	dst = appendVersion(dst, h.version())
	dst = append(dst, `\"","_attachments":"attachments/","_ts":`...)
	dst = strconv.AppendInt(dst, h.modified, 10)
	return append(dst, '}')
}

func (w *write) status() int {
	switch {
	case w.op == opDelete:
		return http.StatusNoContent
	case w.op == opCreate, w.op == opUpsert && !w.alive:
		return http.StatusCreated
	}
	return http.StatusOK
}
