package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"

	"binnacle/binning/chunk"
	"binnacle/internal/catalog"
	"binnacle/internal/telemetry"
)

// Source says where rows came from.
type Source = telemetry.Source

// HeadRequest asks what is in memory of one tenant. A range without instants asks for positions alone.
type HeadRequest struct {
	Tenant  string
	Devices []string // nil: all
	Range   telemetry.Range
	Metrics []string // nil: all

	// Bins asks for rows by bin, and of known bins for newer rows only. The range must be of whole days if the bins are
	// to become known. A head that can't answer so has Owner 0.
	Bins  bool        `json:"-"`
	Known []HeadKnown `json:",omitempty"`

	// Erased are orders of erasure: rows that one of them covers must not be answered (rule E-R9).
	Erased []HeadErasure `json:",omitempty"`

	// Blocks says that the head may send rows as blocks, which costs it less.
	Blocks bool `json:"-"`

	// Stored asks for counts of stored chunks. Not every head has them.
	Stored bool `json:"-"`
}

// HeadErasure is an order of erasure: of a device, empty for all, on days from From to before To, it covers the rows up
// to an offset in every partition.
type HeadErasure struct {
	Device    string `json:",omitempty"`
	From, To  telemetry.Day
	Positions []HeadPosition
}

// HeadPosition is an offset of a partition that is read as a stream, of all its partitions where that is negative.
type HeadPosition struct {
	Stream    uint32
	Partition int32
	Offset    int64
}

// ErasedThrough returns the last offset that is erased of a device and day in a partition, -1 for none.
func (r *HeadRequest) ErasedThrough(device string, day telemetry.Day, of *PartitionHead) int64 {
	through := int64(-1)
	for _, e := range r.Erased {
		if e.Device != "" && e.Device != device || day < e.From || day >= e.To {
			continue
		}
		for _, p := range e.Positions {
			if p.Stream == of.Stream && (p.Partition == of.Partition || p.Partition < 0) {
				through = max(through, p.Offset)
			}
		}
	}
	return through
}

// HeadKnown lists bins of one owner that the caller has from an earlier answer for the same tenant and metrics.
type HeadKnown struct {
	Owner uint64
	Bins  []HeadBin
	// Stored is the Count up to which the caller has the chains of all devices and days that it asks for, 0 for none.
	Stored uint64 `json:",omitempty"`
}

// HeadBin names a bin of an owner by its device, day and first record. Through is the last record that the caller has.
// A bin only grows at its end: another first record means another bin.
type HeadBin struct {
	Device  string
	Day     telemetry.Day
	First   int64
	Through int64
}

// KnownBins returns, by bin of an owner, the last record that the caller has. Through is 0 in the keys.
func (r *HeadRequest) KnownBins(owner uint64) map[HeadBin]int64 {
	for _, k := range r.Known {
		if k.Owner == owner {
			out := make(map[HeadBin]int64, len(k.Bins))
			for _, b := range k.Bins {
				through := b.Through
				b.Through = 0
				out[b] = through
			}
			return out
		}
	}
	return nil
}

// KnownStored returns the Count up to which the caller has the chains of an owner, 0 for none.
func (r *HeadRequest) KnownStored(owner uint64) uint64 {
	for _, k := range r.Known {
		if k.Owner == owner {
			return k.Stored
		}
	}
	return 0
}

// HeadRows are the rows of one open bin, or of one chunk that is being created or was created a moment ago.
type HeadRows struct {
	Device string
	Source Source
	Frame  chunk.Frame // rows in the request's range only; the receiver must not change it
	// Blocks, where they were asked for, may stand for Frame: the readings with an instant in the request's range are it
	// (binning.Framer), others may be among them.
	Blocks []chunk.Blocks

	// Of bins that were asked for: day and first record, and that Frame has only the rows above this offset, negative for
	// all of them. It may have none.
	Day   telemetry.Day
	First int64
	Above int64
}

// HeadChain says that the chunks of a chain are stored up to its tail: a reader of the store must find them (rule
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
	// Position is the offset of the next record to be taken: everything before it is in Rows, in the store, refused, or
	// among the Deferrals.
	Position int64
	CaughtUp int64 // log end at assignment: with Position below it the head is still replaying

	// Containers is where stored chunks of the tenant with rows in the range may lie, by the head's snapshot: no
	// chunk of this partition was stored elsewhere before the snapshot. A reader with a snapshot that lacks one of them
	// reads it again (rule R1).
	Containers []string

	// Chains are the chains of the asked devices and days with stored chunks, as far as the head remembers; if Stored
	// has an Above, only chains with a later tail since.
	Chains []HeadChain

	// Stored counts what became known to be stored (rule R8). Nil where counts were not requested or are not known.
	Stored *HeadStored

	// Deferrals are readings of the asked devices below the position that are neither in Rows nor in the store: they
	// wait in the log.
	Deferrals []HeadDeferral

	// Owner identifies the holder of the bins: one assignment of the partition to one process. It is 0 where bins were
	// not requested or the head does not distinguish them. A bin of an owner has the same rows up to a record in all
	// answers, and is in each of them once.
	Owner uint64

	// Rows are as of the call, but made as they are taken, each with its memory: the heads of one answer one after
	// another in its order, each at most once, and not after the call's context has ended. An error says that the rest
	// is missing. Never nil.
	Rows iter.Seq2[HeadRows, error]
}

// HeadStored counts, in one assignment of a partition to one process, what became known to be stored.
type HeadStored struct {
	// Count rises whenever a chain has another tail, and is above 0.
	Count uint64
	// Exact is from which Count on Chains explain all that was stored: each later tail is in them, and is a chunk with
	// exactly the rows that one bin had, or several that were loaded together.
	Exact uint64
	// Above is the Count above which a tail must be to stand in Chains; 0: all stand there.
	Above uint64
}

// RegistrationLimit is the limit of readings that wait until their tenant is registered.
const RegistrationLimit = "registration"

// HeadDeferral says that readings wait in the log for a limit of their tenant.
type HeadDeferral struct {
	Device string // empty: any of the tenant's may
	From   int64  // offset below which none does
	// Since is when the record at From was published, ms; negative if unknown.
	Since int64
	// Limit is the name of the limit's flag.
	Limit string
}

// String describes the readings that wait.
func (w HeadDeferral) String() string {
	of := "the tenant's readings"
	if w.Device != "" {
		of = "readings of device " + w.Device
	}
	return fmt.Sprintf("%s from offset %d on wait for the limit %s", of, w.From, w.Limit)
}

// ListRequest asks for the devices of a tenant that have rows in memory.
type ListRequest struct {
	Tenant  string
	Devices []string `json:",omitempty"` // only these; nil: all
}

// HeadDevice is a device that has rows in memory, without the rows.
type HeadDevice struct {
	Device      string
	First, Last int64 // least and greatest event time of the rows, ms since 1970 UTC
}

// HeadUpdates has the properties of a tenant's devices that the catalog may not show yet: whatever was known of a
// device before the call began is in the catalog for a reader, or in Devices.
type HeadUpdates struct {
	// Devices has no order; a device may occur more than once.
	Devices []catalog.Entry
	// Version changes when Devices does, and when other processes answer. Between two answers of one version nothing was
	// learnt of any device.
	Version uint64
}

// Add makes what a part of a head counts part of the version. Parts may be added in any order.
func (n *HeadUpdates) Add(partition int32, counts ...uint64) {
	var of []byte
	for _, c := range append(counts, uint64(partition)) {
		of = binary.LittleEndian.AppendUint64(of, c)
	}
	sum := sha256.Sum256(of) // of a weaker hash, the changes of two partitions may cancel each other
	n.Version += binary.LittleEndian.Uint64(sum[:])
}

// Heads answers from memory what is not stored yet. It is safe for any number of callers.
type Heads interface {
	// Heads takes a snapshot of every partition that this head serves; each is atomic. Every row that was acknowledged
	// by the store before the call began is in the store for a Reader, or still in the answer. With an error some heads
	// may be missing; the answered ones are right.
	Heads(ctx context.Context, r HeadRequest) ([]PartitionHead, error)

	// Devices lists devices, in no order; one may stand more than once, with different rows. It makes no rows. With an
	// error some may be missing.
	Devices(ctx context.Context, r ListRequest) ([]HeadDevice, error)

	// CatalogUpdates returns what the catalog may not show yet. With an error some may be missing.
	CatalogUpdates(ctx context.Context, tenant string) (HeadUpdates, error)
}

// SilentHeads is, in an error of Heads, how many of all ingesters do not answer.
type SilentHeads struct{ Silent, All int }

// Error says how many answer.
func (s *SilentHeads) Error() string {
	return fmt.Sprintf("not all ingesters answer: %d of %d", s.All-s.Silent, s.All)
}

// LogEnd is the offset that the next record of a partition will get.
type LogEnd struct {
	Topic     string
	Partition int32
	End       int64
}

// Log returns the ends of the partitions of the topics.
type Log interface {
	// LogEnds asks the broker. Every partition of every topic that is ingested is in the answer. Whatever was
	// acknowledged to a producer before the call lies below its partition's end.
	LogEnds(ctx context.Context) ([]LogEnd, error)
}
