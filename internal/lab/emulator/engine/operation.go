package engine

import (
	"time"

	"binnacle/internal/lab/emulator/budget"
	"binnacle/internal/lab/emulator/refusal"
)

// Call is when, and how urgently, something is asked for.
type Call struct {
	Now      time.Time
	Priority budget.Priority
}

// Operation is what is done to an item that exists, or does not.
type Operation int

const (
	OpCreate Operation = iota
	OpUpsert
	OpReplace
	OpDelete
	OpPatch
	OpRead // allowed in a transaction only
)

// addresses reports whether the operation names its item by id, and not by what it writes.
func (op Operation) addresses() bool { return op != OpCreate && op != OpUpsert }

// Write is one write of one item, as a client asks for it.
type Write struct {
	Op  Operation
	Key string // the partition key, a JSON array; "": all its properties are undefined
	// ID is the item's id; OpCreate and OpUpsert ignore it.
	ID        string
	Body      []byte // the item, or the patch; it is not kept
	Match     string // If-Match
	NoneMatch string // If-None-Match
	Minimal   bool   // the item is not wanted back
}

// Read is a point read of one item.
type Read struct {
	// Key is the partition key, in the form of Write.Key.
	Key    string
	ID     string
	Factor float64 // how often the read is charged
}

// Result is what came of an operation on items of one logical partition.
type Result struct {
	// Body is the item; nil when it was not wanted.
	Body []byte
	// ETag is the item's version; "" after OpDelete.
	ETag   string
	Charge float64
	// Created reports that a write found no such item.
	Created bool
	// Range is the id of the physical partition that served the request.
	Range string
	// LSN is the partition's sequence number, as a session token says it.
	LSN uint64
	// ItemLSN is the sequence number of the item's last write.
	ItemLSN uint64
}

// Outcome is what came of one operation of a transaction.
type Outcome struct {
	Result
	Refused *refusal.Error // why it, and so the transaction, failed
}
