package kafka

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// room bounds the memory of what was fetched and not given back. It is safe for any number of callers.
type room struct {
	size int64
	left *semaphore.Weighted
}

func newRoom(size int64) *room { return &room{size, semaphore.NewWeighted(size)} }

// take waits for room for so many bytes, and returns what gives a part of it back.
func (r *room) take(ctx context.Context, bytes int) (give func(bytes int), err error) {
	if err := r.left.Acquire(ctx, int64(bytes)); err != nil {
		return nil, err
	}
	return func(bytes int) { r.left.Release(int64(bytes)) }, nil
}

// mostOfAnswer is what one answer takes at most: all batches but the last one, and that.
func mostOfAnswer(batch int) int { return enoughBytes + batch }

// Release gives the memory of the records back to what the client may fetch. It must be called once nobody needs
// them; again is nothing. A Batch with an error needs none.
func (b *Batch) Release() {
	if b.release != nil {
		b.release()
	}
}

// hold keeps of the room that was taken for an answer what the batch takes.
func (b *Batch) hold(taken int, give func(int)) {
	held := min(b.Bytes, taken)
	give(taken - held)
	if held > 0 {
		b.release = sync.OnceFunc(func() { give(held) })
	}
}
