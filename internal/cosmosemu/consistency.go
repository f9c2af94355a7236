package cosmosemu

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"binnacle/internal/cosmosemu/refusal"
)

// levels are the consistency levels, the strongest first.
var levels = []string{"Strong", "BoundedStaleness", "Session", "ConsistentPrefix", "Eventual"}

// strength returns the position of a level among levels, -1 for none.
func strength(level string) int { return slices.Index(levels, level) }

// checkOptions refuses request options that are out of their range, or ask for a stronger consistency
// than the account's. Priority and throughput bucket are taken and make no difference.
func (s *Server) checkOptions(h http.Header) error {
	if v := h[hConsistency]; len(v) > 0 {
		switch at := strength(v[0]); {
		case at < 0:
			return refusal.BadRequest("the consistency level %q is none of %s", v[0], strings.Join(levels, ", "))
		case at < strength(s.cfg.Consistency):
			return refusal.BadRequest("the consistency level %s is stronger than the account's, %s", v[0], s.cfg.Consistency)
		}
	}
	if v := h[hPriority]; len(v) > 0 && !strings.EqualFold(v[0], "High") && !strings.EqualFold(v[0], "Low") {
		return refusal.BadRequest("the priority level %q is neither High nor Low", v[0])
	}
	if v := h[hBucket]; len(v) > 0 {
		if n, err := strconv.Atoi(v[0]); err != nil || n < 1 || n > maxBuckets {
			return refusal.BadRequest("the throughput bucket %q is not a number from 1 to %d", v[0], maxBuckets)
		}
	}
	return nil
}

// maxBuckets is the number of throughput buckets of a container (Azure Cosmos DB docs,
// throughput-buckets).
const maxBuckets = 5

// readFactor returns how often a read is charged: twice when two replicas have to agree on it (Azure Cosmos
// DB docs, optimize-cost-reads-writes).
func (x *exchange) readFactor() float64 {
	level := x.cfg.Consistency
	if v := x.request.Header[hConsistency]; len(v) > 0 {
		level = v[0]
	}
	if strength(level) <= strength("BoundedStaleness") {
		return 2
	}
	return 1
}

// The names of these headers, as net/http stores them.
const (
	hConsistency = "X-Ms-Consistency-Level"
	hPriority    = "X-Ms-Cosmos-Priority-Level"
	hBucket      = "X-Ms-Cosmos-Throughput-Bucket"
)
