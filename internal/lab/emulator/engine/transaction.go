package engine

import (
	"fmt"
	"slices"

	"binnacle/internal/lab/emulator/kv"

	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/schema"
)

// transaction is operations on one logical partition, done in their order, all or none.
type transaction struct {
	container *Container
	partition *partition
	steps     []*transactionStep
	call      Call
	at        []byte // effective partition key

	charge float64
	// count holds the partition's counters after the transaction.
	count counters
}

// transactionStep is one operation and its result.
type transactionStep struct {
	*writing
	refused *refusal.Error // why it failed
	answer  []byte         // the item, where it is wanted
}

// Transact does operations on one logical partition in their order, all or none. When it returns
// without an error, either all are durable, or one outcome says why nothing was changed.
func (c *Container) Transact(call Call, key string, requests []Write) (Result, []Outcome, error) {
	t := transaction{container: c, call: call}
	defer t.release()
	for _, r := range requests {
		if err := t.add(r, key); err != nil {
			return Result{}, nil, err
		}
	}
	return t.run()
}

// add takes an operation over. What is wrong with it alone is kept with it; a partition key that names no logical
// partition is an error. The first operation says which physical partition all must be in.
func (t *transaction) add(r Write, key string) error {
	doc := documents.Get().(*document)
	s := &transactionStep{writing: t.container.writing(t.call, r, doc)}
	t.steps = append(t.steps, s)
	full, err := s.revision.fullKey(&doc.keys, key)
	if err != nil {
		return t.container.misaddressed(err)
	}
	at := full.AppendEPK(nil)
	if len(t.steps) == 1 {
		t.at = at
	}
	if err := s.prepare(full); err != nil {
		s.refused = refusal.Of(err)
	} else if parts := t.container.parts(); partitionAt(parts, at) != partitionAt(parts, t.at) {
		s.refused = refusal.RangeGone(partitionAt(parts, t.at).ID)
	}
	return nil
}

// prepare takes an operation apart. What is wrong with it is found before any is done.
func (s *transactionStep) prepare(key schema.Key) error {
	if s.Op.addresses() {
		if err := schema.CheckID(s.ID); err != nil {
			return err
		}
	}
	if s.Body == nil && s.Op != OpRead && s.Op != OpDelete {
		return refusal.BadRequest("the operation has no resourceBody")
	}
	if err := s.parse(); err != nil {
		return err
	}
	return s.address(key)
}

func (t *transaction) release() {
	for _, s := range t.steps {
		documents.Put(s.doc)
	}
}

// run does the transaction: under the lock of the physical partition up to the change, outside it the
// wait for the log.
func (t *transaction) run() (Result, []Outcome, error) {
	changed, err := t.locked()
	if err != nil {
		return Result{}, nil, t.partition.refuses(refusal.Of(err))
	}
	res := Result{Charge: t.charge, Range: t.partition.ID, LSN: t.count.lsn}
	t.container.account.store.Settle()
	return res, t.outcomes(changed), nil
}

// locked applies the changes, and reports false when an operation has failed and nothing was changed.
func (t *transaction) locked() (bool, error) {
	p := t.container.lock(t.at)
	defer p.mu.Unlock()
	t.partition = p
	if err := t.container.admit(p, t.call); err != nil {
		return false, err
	}
	p.sequence.mu.Lock()
	defer p.sequence.mu.Unlock()
	st := t.container.account.store
	changes := st.Fork()
	done, err := t.stage(changes, p)
	if err != nil {
		return false, fmt.Errorf("write a batch: %w", err)
	}
	if !done {
		t.count = p.count
		p.charge(t.call, t.charge)
		return false, nil
	}
	st.Apply(changes)
	p.counted(t.count)
	p.charge(t.call, t.charge)
	for _, s := range t.steps {
		if s.Op != OpRead {
			s.noteExpiry()
		}
	}
	return true, nil
}

// stage does the operations on top of one another, each seeing those before it. It stops at the first
// that fails; a batch with an operation that cannot succeed at all is not begun.
func (t *transaction) stage(changes *kv.Batch, p *partition) (bool, error) {
	if slices.ContainsFunc(t.steps, func(s *transactionStep) bool { return s.refused != nil }) {
		for _, s := range t.steps {
			if s.refused != nil && s.refused.Malformed() {
				charged(s.refused)
			}
			if s.refused != nil {
				t.charge += s.refused.Charge
			}
		}
		return false, nil
	}
	t.count = p.count
	size, writes := 0, 0
	written := map[string]bool{}
	for _, s := range t.steps {
		s.partition, s.position = p, writes
		if s.Op != OpRead {
			writes++
			s.again = written[string(s.name)]
			written[string(s.name)] = true
		}
		next, err := s.stage(changes, t.count)
		if err != nil {
			if !refusal.Is(err) {
				return false, err
			}
			s.refused = refusal.Of(err)
		} else if size += len(s.answer); size > maxPageBytes {
			s.refused = refusal.TooLarge("the answer to the batch is larger than 4 MB")
			s.refused.Charge = s.charge
		}
		if s.refused != nil {
			t.charge += s.refused.Charge
			return false, nil
		}
		t.count = next
		t.charge += s.charge
	}
	return true, nil
}

func (s *transactionStep) stage(changes *kv.Batch, count counters) (counters, error) {
	if s.Op == OpRead {
		return count, s.readFrom(changes)
	}
	next, err := s.writing.stage(changes, changes, count)
	if err == nil && !s.Minimal {
		s.answer = s.doc.value
	}
	return next, err
}

func (s *transactionStep) readFrom(from kv.Reader) error {
	_, alive, err := readHeader(from, s.name, &s.old, s.revision.TTL, s.call.Now)
	if err != nil {
		return err
	}
	s.charge = s.account.cfg.Model.Read(int(s.old.size))
	if !alive {
		f := refusal.NotFound("the item %q does not exist", s.doc.ID)
		f.Charge = s.charge
		return f
	}
	s.answer, err = storedBody(from, s.name)
	return err
}

// outcomes returns what came of every operation: nothing of those before one that was refused, unless they were done.
func (t *transaction) outcomes(done bool) []Outcome {
	out := make([]Outcome, len(t.steps))
	for i, s := range t.steps {
		switch {
		case !done || s.refused != nil:
			out[i].Refused = s.refused
		case s.Op == OpRead:
			out[i].Result = Result{Body: s.answer, ETag: etagOf(&s.old), Charge: s.charge}
		default:
			out[i].Result = s.result()
		}
	}
	return out
}
