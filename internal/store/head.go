package store

import (
	"context"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"
)

// Source says where rows came from and so which of two values of one series and instant is newer: the one with the
// higher stream, then partition, then through (rule R5).
type Source struct {
	Stream    uint32
	Partition int32
	Through   int64 // offset of the last record in the chunk or bin
}

// Compare is negative when s is older than t.
func (s Source) Compare(t Source) int {
	switch {
	case s.Stream != t.Stream:
		return sign(s.Stream < t.Stream)
	case s.Partition != t.Partition:
		return sign(s.Partition < t.Partition)
	case s.Through != t.Through:
		return sign(s.Through < t.Through)
	}
	return 0
}

func sign(less bool) int {
	if less {
		return -1
	}
	return 1
}

// HeadRequest asks for the rows in memory of one tenant.
type HeadRequest struct {
	Tenant  string
	Devices []string // nil: all
	Range   telemetry.Range
	Metrics []string // nil: all
}

// HeadRows are the rows of one open bin, or of one chunk that is being created or was created a moment ago.
type HeadRows struct {
	Device string
	Source Source
	Frame  chunk.Frame // rows in the request's range only; the receiver must not change it
}

// PartitionHead is what an ingester holds of one Kafka partition, as of one moment.
type PartitionHead struct {
	Topic     string
	Partition int32
	Stream    uint32
	Position  int64 // offset of the next record to be taken: everything before it is in Rows, in the store, or refused
	CaughtUp  int64 // log end at assignment: a head whose Position is below it is still replaying
	Rows      []HeadRows
}

// Heads answers from memory what is not stored yet. It is safe for any number of callers.
type Heads interface {
	// Heads takes a snapshot of every partition that this head serves; each is atomic by itself. Every row that
	// was acknowledged by the store before the call began is in the store for a Reader, or still in the answer.
	Heads(ctx context.Context, r HeadRequest) ([]PartitionHead, error)
}

// LogEnd is the offset that the next record of a partition will get.
type LogEnd struct {
	Topic     string
	Partition int32
	End       int64
}

// Log tells how far the partitions of the topics reach.
type Log interface {
	// LogEnds asks the broker. Every partition of every topic that is ingested is in the answer.
	LogEnds(ctx context.Context) ([]LogEnd, error)
}
