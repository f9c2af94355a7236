package engine

import (
	"fmt"

	"binnacle/internal/lab/emulator/kv"

	"binnacle/internal/lab/emulator/refusal"
)

// Bulk is operations on items of one physical partition that are done each for itself.
type Bulk struct {
	// Key is the partition key of all operations; "": Keys has one for each operation.
	Key      string
	Keys     []string // partition keys, JSON arrays
	Requests []Write
	GoOn     bool // after one that fails, the others are done all the same
}

func (b Bulk) key(i int) string {
	if b.Key == "" && i < len(b.Keys) {
		return b.Keys[i]
	}
	return b.Key
}

// Bulk does operations in their order, each for itself, under one sequence number. When it returns without an
// error, the operations that succeeded are durable.
func (c *Container) Bulk(call Call, b Bulk) (Result, []Outcome, error) {
	if c.Definition().PartitionKey.Version == 0 {
		return c.bulkAnywhere(call, b)
	}
	return c.bulk(call, b)
}

// bulkAnywhere does operations of any physical partitions. A client takes a partition key without a version for one of
// version 1, and sends operations by the ranges of that hash, which the container does not have.
func (c *Container) bulkAnywhere(call Call, b Bulk) (Result, []Outcome, error) {
	parts, doc := c.parts(), documents.Get().(*document)
	defer documents.Put(doc)
	var order []*partition
	of := make(map[*partition][]int, len(parts))
	for i := range b.Requests {
		key, err := c.current.Load().fullKey(&doc.keys, b.key(i))
		if err != nil {
			return Result{}, nil, c.misaddressed(err)
		}
		p := partitionAt(parts, key.AppendEPK(nil))
		if of[p] == nil {
			order = append(order, p)
		}
		of[p] = append(of[p], i)
	}
	var all Result
	outcomes, failed := make([]Outcome, len(b.Requests)), false
	for _, p := range order {
		one := Bulk{GoOn: b.GoOn}
		for _, i := range of[p] {
			one.Keys, one.Requests = append(one.Keys, b.key(i)), append(one.Requests, b.Requests[i])
		}
		if failed && !b.GoOn {
			for _, i := range of[p] {
				outcomes[i].Refused = refusal.FailedDependency()
			}
			continue
		}
		res, made, err := c.bulk(call, one)
		if err != nil {
			return Result{}, nil, err
		}
		res.Charge += all.Charge
		all = res
		for n, i := range of[p] {
			outcomes[i] = made[n]
			failed = failed || made[n].Refused != nil
		}
	}
	return all, outcomes, nil
}

func (c *Container) bulk(call Call, b Bulk) (Result, []Outcome, error) {
	t := transaction{container: c, call: call}
	defer t.release()
	for i, r := range b.Requests {
		if err := t.add(r, b.key(i)); err != nil {
			return Result{}, nil, err
		}
	}
	err := t.each(b.GoOn)
	c.account.store.Settle()
	if err != nil {
		return Result{}, nil, t.partition.refuses(refusal.Of(fmt.Errorf("write a batch: %w", err)))
	}
	return Result{Charge: t.charge, Range: t.partition.ID, LSN: t.count.lsn}, t.outcomes(true), nil
}

// each does the operations under the lock of the physical partition.
func (t *transaction) each(goOn bool) error {
	p := t.container.lock(t.at)
	defer p.mu.Unlock()
	t.partition = p
	if err := t.container.admit(p, t.call); err != nil {
		return err
	}
	p.sequence.mu.Lock()
	defer p.sequence.mu.Unlock()
	next, writes, failed := p.count, 0, false
	for _, s := range t.steps {
		s.partition, s.position = p, writes
		switch {
		case failed && !goOn:
			s.refused = refusal.FailedDependency()
		case s.refused != nil:
			if s.refused.Malformed() {
				charged(s.refused)
			}
		default:
			wrote, err := t.one(s, &next)
			if err != nil {
				return err
			}
			if wrote {
				writes++
			}
		}
		if s.refused != nil {
			failed = true
			t.charge += s.refused.Charge
		} else {
			t.charge += s.charge
		}
	}
	t.count = next
	p.counted(next)
	p.charge(t.call, t.charge)
	return nil
}

// one does one operation, and reports whether it wrote: no read does, and nothing that is refused.
func (t *transaction) one(s *transactionStep, count *counters) (wrote bool, err error) {
	st := t.container.account.store
	if s.Op == OpRead {
		return false, s.refuse(s.readFrom(st))
	}
	b := new(kv.Batch)
	next, err := s.writing.stage(b, st, *count)
	if err != nil {
		return false, s.refuse(err)
	}
	st.Apply(b)
	*count = next
	s.noteExpiry()
	return true, nil
}

// refuse records why an operation failed, and returns what is a failure of the emulator.
func (s *transactionStep) refuse(err error) error {
	if err == nil || !refusal.Is(err) {
		return err
	}
	s.refused = refusal.Of(err)
	return nil
}
