package kafka

import (
	"sync"

	"golang.org/x/sync/semaphore"
)

// maxAnswerBytes returns the most memory of one answer: all its batches but the last, and the last.
func maxAnswerBytes(batch int) int { return maxAnswerBeforeLast + batch }

// Release returns the memory of the records to the budget for further fetches. The caller must call it after the last
// use of the records; a second call does nothing. A Batch with an error needs no call.
func (b *Batch) Release() {
	if b.release != nil {
		b.release()
	}
}

// keep keeps the memory that the batch takes, of what was acquired for its answer.
func (b *Batch) keep(taken int, budget *semaphore.Weighted) {
	held := min(b.Bytes, taken)
	budget.Release(int64(taken - held))
	if held > 0 {
		b.release = sync.OnceFunc(func() { budget.Release(int64(held)) })
	}
}
