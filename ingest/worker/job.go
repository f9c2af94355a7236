package worker

import (
	"binnacle/internal/control"
	"binnacle/internal/store"
	"binnacle/sharding"
)

// Job is something that a Worker wants done outside: a *Lookup, *Create, *Bury, *Note or *Stamp. The
// Worker hands out each job once, for one attempt. It comes back, in its own time and order, by Worker.Done; one that
// failed says so before, and the Worker hands out another when its time has come.
type Job interface {
	Failed(with Result)
	Ended() Result
	job()
}

// Lookup asks for the last chunk of a chain (rule W3).
type Lookup struct {
	Result
	Keys  []sharding.Key // every key under which the chain's chunks may live
	Chain store.Chain
	chain *chain

	Found bool // the answer
	Tail  store.Tail
}

// Create stores a chunk (rules W5, W6). It is done when the chunk is stored, by this create or an earlier one.
type Create struct {
	Result
	Key   sharding.Key
	ID    string
	Doc   []byte
	chain *chain

	Existing *store.Tail // the answer when another document has the id: what it holds
	Receipt  store.Receipt
}

// Bury publishes dead letters. It is done when the broker has acknowledged all of them (rule W10).
type Bury struct {
	Result
	Letters []DeadLetter
	chain   *chain // whose chunk the store refuses for ever; nil for records that were refused
}

// Note brings a device's entry in the catalog up to date.
type Note struct {
	Result
	Tenant, Device string
	Seen           control.Device // what is to be merged into the entry
	Times          bool           // the entry is also written when it lacks nothing but a later time
	device         *device

	Entry control.Device // the answer: the entry as stored now
}

// Stamp renews the mark of a partition in its stream's document (rule W9).
type Stamp struct {
	Result
	Stream    uint32
	Partition int32
	Mark      control.Mark
}

// Merge is what the entry of the catalog should say, given what it says now; changed is false when it need not be
// written.
func (n *Note) Merge(stored control.Device) (next control.Device, changed bool) {
	next = merged(stored, n.Seen)
	return next, !same(stored, next) || n.Times && next.Last != stored.Last
}

func (*Lookup) job() {}
func (*Create) job() {}
func (*Bury) job()   {}
func (*Note) job()   {}
func (*Stamp) job()  {}
