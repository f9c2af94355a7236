package engine

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"binnacle/internal/lab/emulator/kv"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/patch"
	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/schema"
)

// writing is one write of one item being done.
type writing struct {
	Write
	account   *Account
	container *Container
	revision  *revision
	doc       *document
	call      Call
	position  int  // among the writes of a transaction, which share a log sequence number
	again     bool // the transaction has written the item before
	// patch is the parsed body of OpPatch.
	patch *patch.Patch

	partition *partition
	name      []byte // key of the header
	stored    bool   // there is a header, alive or expired
	alive     bool
	old       header
	fresh     header
	charge    float64
}

// Write writes one item. When it returns, the write is durable, or refused by a *refusal.Error. It is a batch of
// one operation.
func (c *Container) Write(call Call, r Write) (Result, error) {
	t := transaction{container: c, call: call}
	defer t.release()
	doc := documents.Get().(*document)
	s := &transactionStep{writing: c.writing(call, r, doc)}
	t.steps = append(t.steps, s)
	find := s.revision.fullKey
	if r.Op.addresses() {
		find = s.revision.keyOf
	}
	key, err := find(&doc.keys, r.Key)
	if err != nil {
		return Result{}, c.misaddressed(err)
	}
	t.at = key.AppendEPK(nil)
	if err := cmp.Or(s.parse(), s.address(key)); err != nil {
		// The physical partition refuses a write without a readable item, or with an item of another partition key.
		if s.refused = refusal.Of(err); !s.refused.Malformed() {
			return Result{}, s.refused
		}
	}
	if err = t.each(false); err == nil && s.refused != nil {
		err = s.refused
	}
	if err != nil {
		f := t.partition.refuses(refusal.Of(err))
		if !f.Throttled() { // the state that caused the refusal must be durable
			c.account.store.Settle()
		}
		return Result{}, f
	}
	c.account.store.Settle()
	return s.result(), nil
}

func (c *Container) writing(call Call, r Write, doc *document) *writing {
	return &writing{
		Write: r, account: c.account, container: c, revision: c.current.Load(), doc: doc, call: call,
	}
}

// parse takes the body of the request apart.
func (w *writing) parse() (err error) {
	switch w.Op {
	case OpRead, OpDelete:
		return nil
	case OpPatch:
		w.patch, err = patch.Parse(w.Body, &w.account.queries)
		return err
	}
	w.doc.tail = 0
	if err := w.doc.Parse(w.Body, w.revision.Definition); err != nil {
		return err
	}
	if w.Op == OpReplace && string(w.doc.ID) != w.ID {
		return refusal.BadRequest("the id %q of the item is not %q, by which it is addressed", w.doc.ID, w.ID)
	}
	return nil
}

// address places the write at the partition key of the request, which must equal the item's key.
func (w *writing) address(key schema.Key) error {
	switch w.Op {
	case OpRead, OpDelete, OpPatch:
		w.doc.Key = append(w.doc.Key[:0], key...)
		w.doc.ID = append(w.doc.ID[:0], w.ID...)
	default:
		if !key.Equal(w.doc.Key) {
			return refusal.KeyMismatch("the partition key of the request is not that of the item")
		}
	}
	w.name = w.doc.name(w.container.number)
	return nil
}

// result returns what came of a write that was applied.
func (w *writing) result() Result {
	r := Result{
		Charge: w.charge, Created: !w.alive && w.Op != OpDelete, Range: w.partition.ID, LSN: w.fresh.lsn,
		ItemLSN: w.fresh.lsn,
	}
	if w.Op == OpDelete {
		return r
	}
	r.ETag = etagOf(&w.fresh)
	if !w.Minimal {
		r.Body = bytes.Clone(w.doc.value)
	}
	return r
}

// stage checks the write against the state in from and adds it to a batch, under the lock of the physical
// partition. It returns the counters after it. A *refusal.Error carries the write's charge.
func (w *writing) stage(b *kv.Batch, from kv.Reader, count counters) (counters, error) {
	var err error
	w.stored, w.alive, err = readHeader(from, w.name, &w.old, w.revision.TTL, w.call.Now)
	if err != nil {
		return count, err
	}
	if f := w.check(); f != nil {
		return count, charged(f)
	}
	if w.Op == OpPatch {
		if err := w.patched(from); err != nil {
			return count, charged(refusal.Of(err))
		}
	}
	if w.Op != OpDelete {
		if f := w.doc.Check(); f != nil {
			return count, charged(f)
		}
	}
	if w.charge, err = w.price(from); err != nil {
		return count, err
	}
	next := w.change(count)
	if err := cmp.Or(w.fits(from, count, next), w.weigh(b, from), w.claim(b, from)); err != nil {
		if f, ok := errors.AsType[*refusal.Error](err); ok {
			charged(f)
		}
		return count, err
	}
	w.fill(b, next)
	return next, nil
}

// charged sets the charge of a refusal of a write, unless it has one.
func charged(f *refusal.Error) *refusal.Error {
	switch {
	case f.Charge > 0:
	case f.Conflicts():
		f.Charge = ru.Exists
	default:
		f.Charge = ru.Refused
	}
	return f
}

// patched makes the write's document of the stored one and the patch.
func (w *writing) patched(from kv.Reader) error {
	doc, err := storedItem(from, w.name)
	if err != nil {
		return err
	}
	if !w.patch.Holds(doc) {
		return refusal.PreconditionFailed()
	}
	if err := w.patch.Apply(doc); err != nil {
		return err
	}
	key := slices.Clone(w.doc.Key)
	plain, tail := schema.AppendPlain(nil, doc.GetObject())
	if err := w.doc.Parse(plain, w.revision.Definition); err != nil {
		return err
	}
	w.doc.tail = 0
	if tail > 1 && tail < len(plain)-1 && len(w.doc.JSON) == len(plain) {
		w.doc.tail = tail
	}
	if !key.Equal(w.doc.Key) {
		return refusal.BadRequest("the partition key of an item cannot be patched")
	}
	return nil
}

// noteExpiry registers an item that will expire with the sweep.
func (w *writing) noteExpiry() {
	if w.Op != OpDelete && w.revision.TTL != 0 {
		w.container.expires(w.fresh.expiry(w.revision.TTL))
	}
}

// check tests the operation and its preconditions against the stored item.
func (w *writing) check() *refusal.Error {
	id := w.doc.ID
	switch {
	case w.Op == OpCreate && w.alive:
		return refusal.Conflict("the item %q exists", id)
	case (w.Op == OpReplace || w.Op == OpDelete || w.Op == OpPatch) && !w.alive:
		return refusal.NotFound("the item %q does not exist", id)
	}
	if !holds(w.Match, w.NoneMatch, w.alive, &w.old) {
		return refusal.PreconditionFailed()
	}
	return nil
}

// holds reports whether If-Match and If-None-Match allow a write. If-Match has no say over an item that
// is not there: an upsert then creates it.
func holds(match, noneMatch string, exists bool, version *header) bool {
	if match != "" && match != "*" && exists && match != etagOf(version) {
		return false
	}
	if noneMatch != "" && exists && (noneMatch == "*" || noneMatch == etagOf(version)) {
		return false
	}
	return true
}

// change returns the counters after the write, from those before it, and the header of the new version.
func (w *writing) change(next counters) counters {
	if w.position == 0 {
		next.lsn = w.partition.sequence.last.Load() + 1
	}
	if w.stored {
		next.items--
		next.bytes -= int64(w.old.size)
	}
	w.fresh = header{lsn: next.lsn, created: w.partition.created(next.lsn, w.position), position: uint8(w.position)}
	if w.Op == OpDelete {
		return next
	}
	next.modified = max(next.modified, w.call.Now.Unix())
	w.fresh.modified = next.modified
	w.fresh.ttl = w.doc.TTL
	w.fresh.size = uint32(len(w.doc.JSON))
	w.fresh.terms = uint32(len(w.doc.Terms))
	w.fresh.wide = w.doc.Wide
	w.fresh.generation = w.revision.generation
	w.fresh.covered = w.doc.Covered
	if w.alive {
		w.fresh.created = w.old.created
	}
	next.items++
	next.bytes += int64(w.fresh.size)
	return next
}

func (w *writing) fill(b *kv.Batch, next counters) {
	d := w.doc
	if w.stored {
		d.logName = w.partition.unlogged(b, d.logName, w.name, w.old.lsn)
	}
	if w.Op == OpDelete {
		b.Delete(w.name)
	} else {
		d.head = w.fresh.append(d.head[:0])
		d.value = w.container.appendBody(d.value[:0], d, &w.fresh)
		b.SetBody(w.name, d.head, d.value)
		d.logName = w.partition.logged(b, d.logName, w.name, &w.fresh)
	}
	var buf [24]byte
	b.Set(w.partition.counter, next.append(buf[:0]))
}
