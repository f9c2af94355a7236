package kafka

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// memoryBudget bounds the memory of fetched batches until they are released. It is safe for any number of callers.
type memoryBudget struct {
	size      int64
	available *semaphore.Weighted
}

func newMemoryBudget(size int64) *memoryBudget {
	return &memoryBudget{size, semaphore.NewWeighted(size)}
}

// acquire waits until that many bytes are available, and returns a function that gives some of them back.
func (r *memoryBudget) acquire(ctx context.Context, bytes int) (give func(bytes int), err error) {
	if err := r.available.Acquire(ctx, int64(bytes)); err != nil {
		return nil, err
	}
	return func(bytes int) { r.available.Release(int64(bytes)) }, nil
}

// maxAnswerBytes returns the most memory of one answer: all its batches but the last, and the last.
func maxAnswerBytes(batch int) int { return maxAnswerBeforeLast + batch }

// Release gives the memory of the records back, for further fetches. It must be called once nobody needs them; a
// second call does nothing. A Batch with an error needs no call.
func (b *Batch) Release() {
	if b.release != nil {
		b.release()
	}
}

// keep keeps the memory that the batch takes, of what was acquired for its answer.
func (b *Batch) keep(taken int, give func(int)) {
	held := min(b.Bytes, taken)
	give(taken - held)
	if held > 0 {
		b.release = sync.OnceFunc(func() { give(held) })
	}
}
