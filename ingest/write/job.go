package write

import (
	"binnacle/internal/control"
	"errors"
	"time"

	"binnacle/binning/chunk"
	"binnacle/ingest/admit"
	"binnacle/ingest/bins"
	"binnacle/ingest/catalogupdates"
	"binnacle/ingest/journal"
	"binnacle/internal/erasure"
	"binnacle/internal/store"
	"binnacle/internal/stream"
	"binnacle/sharding"
)

// Job is something that a Worker wants done outside: a *Lookup, *Create, *Publish, *CatalogUpdate, *LabelLookup,
// *Register, *Stamp or *Append. The Worker hands out each job once, for one attempt. It comes back, in its own time and
// order, by Worker.Done; after an attempt that failed, which Failed must record before, the Worker hands out another
// one when its time has come.
type Job interface {
	Failed(with Result)
	Outcome() Result
	job()
}

// Lookup asks for the last chunk of a chain (rule W3).
type Lookup struct {
	Result
	Keys  []sharding.Key // every key under which the chain's chunks may live
	Chain store.Chain
	chain *bins.Chain

	Found bool // the answer
	Tail  store.Tail
}

// Create stores a chunk (rules W5, W6). It is done when the chunk is stored, by this create or an earlier one.
type Create struct {
	Result
	Key   sharding.Key
	ID    string
	Doc   []byte
	chain *bins.Chain

	Existing *store.Tail // the answer when another document has the id: what it holds
}

// Under returns the document to store under orders of erasure that may have come since the chunk was cut: the chunk, or
// where one erases all its rows a fence in its place (rule E-R8). Then met is the fence's tail.
func (j *Create) Under(orders erasure.List, now time.Time) (doc []byte, met *store.Tail, err error) {
	if len(orders) == 0 {
		return j.Doc, nil, nil
	}
	c, err := chunk.Parse(j.Doc)
	if err != nil {
		return nil, nil, err
	}
	h := c.Header
	through := orders.Through(h.Device, h.ID.Day, erasure.Partition{Stream: h.ID.Stream, Partition: h.ID.Partition})
	if through < h.Through {
		return j.Doc, nil, nil
	}
	h.First, h.Through, h.Cut = through, through, now.UnixMilli()
	doc, err = chunk.EncodeErased(h, nil)
	return doc, &store.Tail{Number: h.ID.Number, Through: through, From: h.ID.Day.Start(), To: h.ID.Day.Start(),
		Erased: true}, err
}

// Tenant returns the tenant of the chunk.
func (j *Create) Tenant() string { return j.chain.Device.Tenant.Name }

// Publish publishes dead letters. It is done when the broker has acknowledged all of them (rule W10).
type Publish struct {
	Result
	DeadLetters []DeadLetter
	chain       *bins.Chain // set for a chunk that the store will never take, nil for refused records
	deferred    bool        // the readings had been deferred
	part        *publication
}

// CatalogUpdate updates the catalog with what readings have shown of devices of a tenant.
type CatalogUpdate struct {
	Result
	*catalogupdates.Update
	// Snapshot has the orders of erasure that are applied to the entries.
	Snapshot *control.Snapshot
}

// LabelLookup asks which values the labels of a tenant's readings have, by its catalog.
type LabelLookup struct {
	Result
	*admit.LabelLookup
}

// Register registers a tenant. Its readings wait for that.
type Register struct {
	Result
	Tenant string
}

// Stamp renews the mark of a partition in its stream's document (rule W9).
type Stamp struct {
	Result
	Stream    uint32
	Partition int32
	Mark      stream.Mark
}

// Append appends blocks to the journal's partition, in one request (rules J2, J6). It is done when all replicas in sync
// have them; after any other end they may be there all the same.
type Append struct {
	Result
	Topic     string // the topic that the journal belongs to
	Partition int32
	Values    [][]byte

	// Unsure is an append that may be gone, which is looked for behind this one; zero for none.
	Unsure journal.Link

	Base   int64 // the answer: the offset of the first one
	IsGone bool  // and whether what was looked for is gone

	nonce journal.Nonce
	sent  []sentBlock // source of every value, in the order of the values
	bytes int
}

// sentBlock is a record of an Append: a block, or times.
type sentBlock struct {
	chain   *bins.Chain
	through int64
	times   *bins.OwedTimes
}

func (*Lookup) job() {}

func (*Create) job() {}

func (*Publish) job() {}

func (*CatalogUpdate) job() {}

func (*LabelLookup) job() {}

func (*Register) job() {}

func (*Stamp) job() {}

func (*Append) job() {}

// Result is how an attempt at a Job ended. The zero Result is success.
type Result struct {
	Fault bins.Fault
	After time.Duration // how long the store wants to be left alone, for Busy
}

// Failed records how the attempt ended; the caller calls it before Worker.Done.
func (r *Result) Failed(with Result) { *r = with }

// Outcome returns how the attempt ended.
func (r *Result) Outcome() Result { return *r }

// ResultOf returns what an error of a store means for a job.
func ResultOf(err error) Result {
	var busy *store.BusyError
	switch {
	case err == nil:
		return Result{}
	case errors.As(err, &busy):
		return Result{Fault: bins.Busy, After: busy.RetryAfter}
	case errors.Is(err, store.ErrNoContainer):
		return Result{Fault: bins.NoContainer}
	case errors.Is(err, store.ErrKeyFull):
		return Result{Fault: bins.KeyFull}
	case errors.Is(err, store.ErrRejected), errors.Is(err, store.ErrTooLarge):
		return Result{Fault: bins.Rejected}
	case errors.Is(err, store.ErrDenied):
		return Result{Fault: bins.Denied}
	}
	return Result{Fault: bins.Unknown}
}
