package kafka

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// Aborted is a transaction that was aborted.
type Aborted = transaction

// AbortedBy returns the aborted transaction of a producer, from an offset on.
func AbortedBy(producer, first int64) Aborted { return Aborted{producer, first} }

// LogReader reads the entries of answers, with so many bytes for a batch.
func LogReader(max int) func(set []byte, aborted []Aborted, from int64) (Batch, error) {
	u := newUnpacker(max)
	return func(set []byte, aborted []Aborted, from int64) (Batch, error) {
		return newLogReader(&memory{unpacker: u}, from, aborted).read(set)
	}
}

// ReadLog reads the entries of one answer.
func ReadLog(max int, set []byte, aborted []Aborted, from int64) (Batch, error) {
	return LogReader(max)(set, aborted, from)
}

// ErrChecksum marks a damaged answer.
var ErrChecksum = errChecksum

// MemoryBudget is what bounds fetched batches: Hold waits for so much of it, and returns a Batch that keeps a part.
type MemoryBudget struct{ budget *semaphore.Weighted }

// NewMemoryBudget makes a budget of so many bytes.
func NewMemoryBudget(bytes int64) MemoryBudget { return MemoryBudget{semaphore.NewWeighted(bytes)} }

// Hold takes room for an answer of which a batch keeps some.
func (r MemoryBudget) Hold(ctx context.Context, answer, batch int) (*Batch, error) {
	if err := r.budget.Acquire(ctx, int64(answer)); err != nil {
		return nil, err
	}
	b := &Batch{Bytes: batch}
	b.keep(answer, r.budget)
	return b, nil
}
