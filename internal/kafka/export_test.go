package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// ReadLog reads the entries of an answer, with so many bytes for a batch.
func ReadLog(max int, set []byte, aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction, from int64) (Batch, error) {
	return readLog(newUnpacker(max), set, aborted, from)
}

// ErrChecksum is what a damaged answer is told by.
var ErrChecksum = errChecksum
