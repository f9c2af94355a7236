package ingest

import "context"

// HeldByParts adds up what Held should be.
func HeldByParts(w *Worker) int64 {
	n := 0
	for _, c := range w.chains {
		n += c.bytes()
	}
	for i := range w.letters.waiting {
		n += w.letters.waiting[i].bytes
	}
	return int64(n)
}

// Devices is how many devices a Worker remembers.
func Devices(w *Worker) int { return len(w.devices) }

// Fetch is one fetch of a partition: the offsets of the records in the answer, and the one to go on from.
func Fetch(ctx context.Context, b *Broker, partition int, from int64) (offsets []int64, next int64, err error) {
	x, err := b.fetcher(partition).fetch(ctx, from)
	for _, r := range x.records {
		offsets = append(offsets, r.Offset)
	}
	return offsets, x.next, err
}
