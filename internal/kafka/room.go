package kafka

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// room bounds the memory of fetched batches until they are released. It is safe for any number of callers.
type room struct {
	size int64
	left *semaphore.Weighted
}

func newRoom(size int64) *room { return &room{size, semaphore.NewWeighted(size)} }

// take waits until that many bytes are available, and returns a function that gives some of them back.
func (r *room) take(ctx context.Context, bytes int) (give func(bytes int), err error) {
	if err := r.left.Acquire(ctx, int64(bytes)); err != nil {
		return nil, err
	}
	return func(bytes int) { r.left.Release(int64(bytes)) }, nil
}

// mostOfAnswer returns the most memory of one answer: all its batches but the last, and the last.
func mostOfAnswer(batch int) int { return enoughBytes + batch }

// Release gives the memory of the records back, for further fetches. It must be called once nobody needs them; a
// second call does nothing. A Batch with an error needs no call.
func (b *Batch) Release() {
	if b.release != nil {
		b.release()
	}
}

// hold keeps the memory that the batch takes, of what was acquired for its answer.
func (b *Batch) hold(taken int, give func(int)) {
	held := min(b.Bytes, taken)
	give(taken - held)
	if held > 0 {
		b.release = sync.OnceFunc(func() { give(held) })
	}
}
