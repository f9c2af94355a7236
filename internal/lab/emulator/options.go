package emulator

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"binnacle/internal/lab/emulator/budget"
	"binnacle/internal/lab/emulator/engine"
	"binnacle/internal/lab/emulator/refusal"
)

// levels are the consistency levels, the strongest first.
var levels = []string{"Strong", "BoundedStaleness", "Session", "ConsistentPrefix", "Eventual"}

// strength returns the position of a level among levels, -1 for none.
func strength(level string) int { return slices.Index(levels, level) }

// checkOptions refuses request options that are out of their range, or ask for a stronger consistency
// than the account's. The throughput bucket is taken and makes no difference.
func (s *Server) checkOptions(h http.Header) error {
	if v := h[hConsistency]; len(v) > 0 {
		switch at := strength(v[0]); {
		case at < 0:
			return refusal.BadRequest("the consistency level %q is none of %s", v[0], strings.Join(levels, ", "))
		case at < strength(s.cfg.Consistency):
			return refusal.BadRequest("the consistency level %s is stronger than the account's, %s", v[0], s.cfg.Consistency)
		}
	}
	if v := h[hPriority]; len(v) > 0 && !strings.EqualFold(v[0], high) && !strings.EqualFold(v[0], low) {
		return refusal.BadRequest("the priority level %q is neither High nor Low", v[0])
	}
	if v := h[hBucket]; len(v) > 0 {
		if n, err := strconv.Atoi(v[0]); err != nil || n < 1 || n > maxBuckets {
			return refusal.BadRequest("the throughput bucket %q is not a number from 1 to %d", v[0], maxBuckets)
		}
	}
	return nil
}

// The priority levels (Azure Cosmos DB docs, priority-based-execution).
const (
	high = "High"
	low  = "Low"
)

// call returns when, and how urgently, the client asks. Metadata requests have no priority, and serverless accounts
// none either (Azure Cosmos DB docs, priority-based-execution).
func (x *exchange) call() engine.Call {
	c := engine.Call{Now: x.now}
	if v := x.request.Header[hPriority]; len(v) > 0 && strings.EqualFold(v[0], low) &&
		x.account.Capacity.Mode() == engine.Provisioned {
		c.Priority = budget.Low
	}
	return c
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

type locationJSON struct {
	Name     string `json:"name"`
	Endpoint string `json:"databaseAccountEndpoint"`
}

// readAccount answers with the account document. Its endpoint is how the client has reached us, since
// SDKs send everything after it there.
func (x *exchange) readAccount() (reply, error) {
	endpoint := x.advertise
	if endpoint == "" {
		scheme := x.request.URL.Scheme // set in process only
		switch {
		case scheme != "":
		case x.request.TLS != nil:
			scheme = "https"
		default:
			scheme = "http"
		}
		endpoint = scheme + "://" + x.request.Host + "/"
	}
	locations := []locationJSON{{x.cfg.Region, endpoint}}
	consistency := map[string]any{"defaultConsistencyLevel": x.cfg.Consistency}
	body, err := json.Marshal(map[string]any{
		"_self": "", "id": x.request.Host, "_rid": x.request.Host,
		"media": "//media/", "addresses": "//addresses/", "_dbs": "//dbs/",
		"writableLocations": locations, "readableLocations": locations,
		"enableMultipleWriteLocations": false,
		"userReplicationPolicy": map[string]any{
			"asyncReplication": false, "minReplicaSetSize": 3, "maxReplicasetSize": 4,
		},
		"userConsistencyPolicy":   consistency,
		"systemReplicationPolicy": map[string]any{"minReplicaSetSize": 3, "maxReplicasetSize": 4},
		"readPolicy":              map[string]any{"primaryReadCoefficient": 1, "secondaryReadCoefficient": 1},
		"queryEngineConfiguration": `{"maxJoinsPerSqlQuery":10,"maxSqlQueryInputLength":524288,"maxUdfRefPerSqlQuery":10,` +
			`"sqlAllowNonFiniteNumbers":false}`,
	})
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, body: body, items: -1, gateway: true}, nil
}
