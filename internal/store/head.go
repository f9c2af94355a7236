package store

import (
	"context"
	"iter"

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

// HeadRequest asks what is in memory of one tenant. A range without instants asks for positions alone.
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

// HeadChain says that the chunks of a chain are stored up to its tail: whoever reads the store must find them (rule
// R4).
type HeadChain struct {
	Device string
	Day    telemetry.Day
	Tail   Tail
}

// PartitionHead is what an ingester holds of one Kafka partition, as of one moment.
type PartitionHead struct {
	Topic     string
	Partition int32
	Stream    uint32
	Position  int64 // offset of the next record to be taken: everything before it is in Rows, in the store, or refused
	CaughtUp  int64 // log end at assignment: a head whose Position is below it is still replaying

	// Containers is where stored chunks of the tenant with rows in the range may lie, as the head's map has it: no
	// chunk of this partition was stored elsewhere before the snapshot. A reader whose map lacks one of them reads it
	// again (rule R1).
	Containers []string

	// Chains are those of the asked devices and days of which the head remembers that chunks are stored.
	Chains []HeadChain

	// Rows are as of the call, but made as they are taken, each with its memory: the heads of one answer one after
	// another in its order, each at most once, and not after the call's context has ended. An error says that the rest
	// is missing. Never nil.
	Rows iter.Seq2[HeadRows, error]
}

// ListRequest asks for the devices of a tenant that have rows in memory, the first ones by id.
type ListRequest struct {
	Tenant string
	Prefix string // of the id
	Limit  int    // 0: all
}

// HeadDevice is a device that has rows in memory, without the rows.
type HeadDevice struct {
	Device      string
	Columns     []HeadColumn // each once, in no order
	First, Last int64        // least and greatest event time of the rows, ms since 1970 UTC
}

// HeadColumn is a metric that has values of a kind.
type HeadColumn struct {
	Metric string
	Kind   telemetry.Kind
}

// Heads answers from memory what is not stored yet. It is safe for any number of callers.
type Heads interface {
	// Heads takes a snapshot of every partition that this head serves; each is atomic by itself. Every row that
	// was acknowledged by the store before the call began is in the store for a Reader, or still in the answer. With
	// an error some heads may be missing; those that are answered are right.
	Heads(ctx context.Context, r HeadRequest) ([]PartitionHead, error)

	// Devices lists devices, in no order; one may stand more than once, with different rows. With a limit each of the
	// first ones by id, so many, is in the answer. It makes no rows. With an error some may be missing.
	Devices(ctx context.Context, r ListRequest) ([]HeadDevice, error)
}

// LogEnd is the offset that the next record of a partition will get.
type LogEnd struct {
	Topic     string
	Partition int32
	End       int64
}

// Log tells how far the partitions of the topics reach.
type Log interface {
	// LogEnds asks the broker. Every partition of every topic that is ingested is in the answer. Whatever was
	// acknowledged to a producer before the call lies below its partition's end.
	LogEnds(ctx context.Context) ([]LogEnd, error)
}
