package query

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"binnacle/internal/telemetry"
)

// DefaultTimeout is how long a strict query waits for the heads to reach the log's end.
const DefaultTimeout = 10 * time.Second

// ErrUnavailable is what an error wraps when the store or the map of tenants could not be read. Nothing is known to be
// wrong with the request: it may be sent again.
var ErrUnavailable = errors.New("the store can't be read now")

// Request asks for the readings of one tenant.
type Request struct {
	Tenant     string
	Devices    []string // nil: all
	Metrics    []string // nil: all; else rows that have none of them do not appear
	Range      telemetry.Range
	Descending bool          // the whole order turned round
	Limit      int           // rows, the first ones in the order; 0: all
	Strict     bool          // wait for the log end at the query's start
	Timeout    time.Duration // of that wait, 0: DefaultTimeout
}

// Row is the values of one device, label set and instant. Rows come in the order of Time, then Device, then Labels.
type Row struct {
	Device string
	Time   int64 // ms since 1970 UTC
	Labels telemetry.Labels
	Values []telemetry.Field // sorted by metric, each once; belongs to the Querier after emit returns
}

// Result is what there is to say about an answer beside its rows.
type Result struct {
	Truncated  bool     // there are more rows than Limit
	Complete   bool     // every reading before the positions reached is in the answer (rule R3)
	Incomplete []string // why it is not Complete, a sentence each
	Stats      Stats
}

// Stats is what an answer cost.
type Stats struct {
	RequestUnits float64 // charged for scans of chunks, all attempts together
	Documents    int     // chunks read
	Keys         int     // partition keys and prefixes of them that were scanned
	Containers   int     // that these keys lie in
	HeadRows     int     // rows that came from memory, before merging
}

// MemoryError says that an answer can't be put together within the memory of one query.
type MemoryError struct {
	Bytes  int64    // the bound
	Narrow []string // what the caller may do about it
}

// Error says what to narrow.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("the answer needs more than the %d MiB of memory that a query may use: %s",
		e.Bytes>>20, strings.Join(e.Narrow, ", or "))
}

// memoryError says what is not narrow yet in r.
func (q *Querier) memoryError(r Request) error {
	e := &MemoryError{Bytes: q.cfg.MemoryBytes, Narrow: []string{"ask for a shorter range (from, to)"}}
	switch {
	case r.Devices == nil:
		e.Narrow = append(e.Narrow, "name the devices (device)")
	case len(r.Devices) > 1:
		e.Narrow = append(e.Narrow, "name fewer devices (device)")
	}
	if r.Metrics == nil {
		e.Narrow = append(e.Narrow, "name the metrics (metric)")
	}
	return e
}
