package bins

import (
	"binnacle/internal/retry"
	"slices"
)

// Fault is why an attempt at a job did not do it.
type Fault string

// The faults, by what becomes of the job.
const (
	None        Fault = ""             // it is done
	Unknown     Fault = "unknown"      // it may have been done: the same again, soon
	Busy        Fault = "busy"         // the same again, not before the store said
	NoContainer Fault = "no-container" // it was asked for: the same again when it may be there
	KeyFull     Fault = "key-full"     // its partition key takes no more: the same again, seldom
	Rejected    Fault = "rejected"     // never: what it holds is a dead letter
	Denied      Fault = "denied"       // the process has the wrong credentials or rights
)

// faults are those for which a chain stalls.
var faults = [...]Fault{Unknown, Busy, NoContainer, KeyFull, Rejected, Denied}

// Code returns a fault's number among them, from 1; 0 for none.
func (f Fault) Code() uint8 {
	return uint8(slices.Index(faults[:], f) + 1)
}

// stall is what keeps a chain from going on.
type stall struct {
	retry.Backoff
	Fault Fault
	Since nanos // first of the failed attempts
	Ready bool  // the chain is in the queue: its time has come, or the queue's has not
}
