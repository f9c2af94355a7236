package cosmos

import (
	"context"
	"net/http"
	"time"

	"binnacle/binning/chunk"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// Priority selects the requests that give way: where a physical partition has not enough for all, those of low
// priority are refused first. It needs priority-based execution in the account; without that the service makes no
// difference.
type Priority struct {
	Low bool // all
	// Awaited says that a caller waits for the answers, as with queries: while one is held back, requests of this
	// process that repeat themselves, such as an ingester's, take turns with it, also with one of low priority.
	Awaited bool
	// LowAfter makes creates of chunks low if their day ended at least this long ago, as in a backfill; 0: none.
	LowAfter time.Duration
}

// At returns the same store, asked at a priority.
func (s *Chunks) At(p Priority) *Chunks { return &Chunks{s.c, p} }

// late reports whether a create gives way, by the day of its chunk.
func (s *Chunks) late(id string) bool {
	if s.at.LowAfter <= 0 {
		return false
	}
	parsed, err := chunk.ParseID(id)
	return err == nil && s.c.cfg.Now().UnixMilli()-parsed.Day.End() >= s.at.LowAfter.Milliseconds()
}

var lowHeader = http.Header{"X-Ms-Cosmos-Priority-Level": {string(azcosmos.PriorityLevelLow)}}

func (to call) prioritised(ctx context.Context) context.Context {
	if !to.low {
		return ctx
	}
	return policy.WithHTTPHeader(ctx, lowHeader)
}
