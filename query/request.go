package query

import (
	"errors"
	"slices"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/merge"
	"binnacle/query/read"
	"binnacle/query/read/heads"
	"binnacle/query/read/piece"
)

// Errors after which the same request may be sent again.
var (
	ErrUnavailable = piece.ErrUnavailable // the store could not be read
	ErrBusy        = piece.ErrBusy        // this process has too much to do
)

// ErrEnough is the error of an emit that wants no more, of Series, Statistics, Latest and Nearest. It ends the query
// and is no error of it.
var ErrEnough = errors.New("the answer has all that was asked for")

// Errors of limits, time and positions, and what an answer holds back on its way to the client.
type (
	LimitError            = piece.LimitError
	TimeoutError          = piece.TimeoutError
	NotYetError           = heads.NotYetError
	UnknownPartitionError = heads.UnknownPartitionError
	Memory                = piece.Memory
)

// Contexts of queries that may take so long or must include what lies below some ends of the log, and what belongs to
// them: how the store has failed, an error of Memory at its own limit, positions in texts.
var (
	WithTimeout    = piece.WithTimeout
	FailureOf      = piece.FailureOf
	ErrMemory      = piece.ErrMemory
	WithAfter      = heads.WithAfter
	ParsePositions = heads.ParsePositions
)

// Request asks for the readings of one tenant.
type Request struct {
	Tenant     string
	Devices    []string // nil: all
	Metrics    []string // nil: all; else rows that have none of them do not appear
	Range      telemetry.Range
	Descending bool // the order reversed; of rows only
	Limit      int  // rows, the first ones in the order; 0: all
	After      *Row // rows up to and including this one, in the order, are left out; nil: none
	Strict     bool // wait for the log end at the query's start
	// AsOf, in ms since 1970 UTC, limits the answer to what was stored by then; 0: the present, with heads.
	AsOf int64

	// Rollups is what rollups may answer of series, of the metrics that the request names; nil for nothing.
	Rollups *RollupsRequest

	// Newest limits Series to the newest number of each series: Series may leave out the other numbers. A request
	// with Rollups must not set Newest.
	Newest bool

	// From is called when all has been read, with a description of what was read; nil if that is unknown. It returns
	// the first instant that is needed: earlier samples are not answered. Nil for the whole range. It is for Series.
	From func(*Basis) int64
	// Kept is what an earlier answer to the same question was made of, for From; nil for none.
	Kept *Basis

	since int64 // an earlier moment that the answer is about, too
}

// What answers are made of.
type (
	Row            = merge.Row
	Curve          = merge.Curve
	Statistic      = merge.Statistic
	Last           = merge.Last
	RollupsRequest = piece.RollupsRequest
	Stats          = piece.Stats
	Basis          = read.Basis

	Explanation   = piece.Explanation
	Explained     = piece.Explained
	Estimate      = piece.Estimate
	ScanExplained = piece.ScanExplained
)

// Contexts of explanations: of what queries did, and of what they would.
var (
	WithExplanation = piece.WithExplanation
	WithPlan        = piece.WithPlan
)

// Result describes an answer without its contents.
type Result struct {
	Truncated  bool     // there are more rows than Limit
	Complete   bool     // every reading before the positions reached is in the answer (rule R3)
	Incomplete []string // why it is not Complete, a sentence each
	Hints      []string // why an answer is empty, a sentence each, where names are not known
	Stats      Stats
}

func resultOf(q *read.Query, spent *store.Meter, err error) Result {
	r := Result{Complete: err == nil && q.Incomplete() == nil, Incomplete: q.Incomplete(), Stats: q.Stats()}
	r.Stats.RequestUnits = spent.Read().RUs
	return r
}

// distinct returns the names in order, each once. It keeps nil, which means all.
func distinct(names []string) []string {
	if names == nil {
		return nil
	}
	out := append(make([]string, 0, len(names)), names...)
	slices.Sort(out)
	return slices.Compact(out)
}
