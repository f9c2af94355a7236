package query

import (
	"slices"
	"time"

	"binnacle/internal/telemetry"
	"binnacle/query/merge"
	"binnacle/query/read"
)

// DefaultTimeout is how long a strict query waits for the heads to reach the log's end.
const DefaultTimeout = read.DefaultTimeout

// What callers branch on. Nothing is known to be wrong with a request that failed with one of these: it may be sent
// again.
var (
	ErrUnavailable = read.ErrUnavailable // the store or the map of tenants could not be read
	ErrBusy        = read.ErrBusy        // this process has too much to do
)

// ErrMemory is what Memory fails with at its own limit.
var ErrMemory = read.ErrMemory

// Memory counts what an answer holds back on its way to the client.
type Memory = read.Memory

// LimitError says that an answer can't be made within the limits of one query, and what to narrow.
type LimitError = read.LimitError

// Request asks for the readings of one tenant.
type Request struct {
	Tenant     string
	Devices    []string // nil: all
	Metrics    []string // nil: all; else rows that have none of them do not appear
	Range      telemetry.Range
	Descending bool          // the whole order turned round; of rows only
	Limit      int           // rows, the first ones in the order; 0: all
	Strict     bool          // wait for the log end at the query's start
	Timeout    time.Duration // of that wait, 0: DefaultTimeout
}

// What answers are made of.
type (
	Row       = merge.Row
	Curve     = merge.Curve
	Statistic = merge.Statistic
	Stats     = read.Stats
)

// Result is what there is to say about an answer beside its contents.
type Result struct {
	Truncated  bool     // there are more rows than Limit
	Complete   bool     // every reading before the positions reached is in the answer (rule R3)
	Incomplete []string // why it is not Complete, a sentence each
	Stats      Stats
}

// distinct is the names in order, each once. It keeps nil, which means all.
func distinct(names []string) []string {
	if names == nil {
		return nil
	}
	out := append(make([]string, 0, len(names)), names...)
	slices.Sort(out)
	return slices.Compact(out)
}
