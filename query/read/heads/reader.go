// Package heads reads what ingesters hold in memory, and what they know to be stored: how far they have read (rules R2,
// R3), the tails of chains (rule R4), and what became known to be stored since the store was asked (rule R8).
//
// It must not know the store of chunks.
package heads

import (
	"log/slog"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/stream/topics"
	"binnacle/query/read/kept"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"
)

// Config is what a Reader needs.
type Config struct {
	Heads  store.Heads
	Log    store.Log  // which partitions there are and how far they reach; nil: not known
	Topics topics.Set // with their tenants; none: no topic is bound to a tenant

	Room       *kept.Room    // for rows that were read before; nil for none
	RoomAge    time.Duration // after which they are read again
	Registerer prometheus.Registerer

	Now    func() time.Time
	Logger *slog.Logger
}

// Reader reads heads, and remembers how far it has answered (rule R3). It is safe for any number of callers.
type Reader struct {
	cfg      Config
	progress *progress
	log      rate.Sometimes         // limits the log: every query finds out that heads do not answer
	rows     *prometheus.CounterVec // nil without a room
}

// logEvery is how often the log says that heads do not answer.
const logEvery = 10 * time.Second

// New makes a Reader.
func New(cfg Config) *Reader {
	r := &Reader{cfg: cfg, progress: newProgress(), log: rate.Sometimes{Interval: logEvery}}
	if cfg.Room != nil {
		r.rows = promauto.With(cfg.Registerer).NewCounterVec(prometheus.CounterOpts{
			Name: "binnacle_query_cache_head_rows_total",
			Help: "Rows of bins of heads, by whether they were read before (hit) or for this answer (miss)."},
			[]string{"result"})
	}
	return r
}

func (r *Reader) warn(what string, err error) {
	r.log.Do(func() { r.cfg.Logger.Warn(what, "error", err) })
}

// isOthers reports whether a topic is bound to another tenant. An answer must not show that there is such a topic.
func (r *Reader) isOthers(topic, tenant string) bool {
	of, _, _ := r.cfg.Topics.Of(topic)
	return of.Tenant != "" && of.Tenant != tenant
}
