package stream

import (
	"context"
	"fmt"
	"strings"
)

// copiedFrom begins the cluster of streams that were copied from another database.
const copiedFrom = "copied from "

// IsCopied reports whether the stream was copied from another database: no log is read as it.
func (s Stream) IsCopied() bool { return strings.HasPrefix(s.Cluster, copiedFrom) }

// CopiedStream returns the stream that one of another database is copied as: a number that nothing else uses (rule T1).
// The streams of a database must be asked for in the order of their numbers.
func (s *Streams) CopiedStream(ctx context.Context, account string, number uint32) (uint32, error) {
	copied, err := s.Find(ctx, copiedFrom+account, streamID(number), 0)
	return copied.Number, err
}

// Copied returns the streams that streams of another database were copied as, by the numbers of the originals.
func Copied(all []Stream, account string) map[uint32]uint32 {
	out := make(map[uint32]uint32)
	for _, s := range all {
		var number uint32
		if _, err := fmt.Sscanf(s.Topic, "%d", &number); err == nil && s.Cluster == copiedFrom+account {
			out[number] = s.Number
		}
	}
	return out
}
