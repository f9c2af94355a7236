// Package heads reads what ingesters hold in memory, and what they know to be stored: how far they have read (rules R2,
// R3), the tails of chains (rule R4), and what became known to be stored since the store was asked (rule R8).
//
// It must not know the store of chunks.
package heads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"binnacle/internal/retry"
	"binnacle/internal/store"
	"binnacle/internal/stream/topics"
	"binnacle/query/read/kept"
	"binnacle/query/read/piece"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"
)

// How often a query that is not strict asks the log which partitions there are, how soon again after an error, and how
// long it waits for the answer.
const (
	partitionsEvery   = 30 * time.Second
	partitionsRetry   = 5 * time.Second
	partitionsTimeout = 2 * time.Second
)

// progress is which partitions there are, and how far this Reader has answered from each (rule R3). It is safe for any
// number of callers.
type progress struct {
	mu            sync.Mutex // guards below
	known         map[partition]bool
	answered      map[partition]streamPosition
	next          time.Time // the next question to the log
	hasPartitions bool      // the log has answered
}

// unknown returns which partitions of some ends there are not, or are hidden.
func (p *progress) unknown(ends []store.LogEnd, hidden func(topic string) bool) (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range ends {
		if at := (partition{e.Topic, e.Partition}); !p.known[at] || hidden(e.Topic) {
			names = append(names, at.String())
		}
	}
	return names
}

// setPartitions takes the partitions from what the log answered at now.
func (p *progress) setPartitions(ends []store.LogEnd, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.known)
	for _, e := range ends {
		p.known[partition{e.Topic, e.Partition}] = true
	}
	p.hasPartitions, p.next = true, now.Add(partitionsEvery)
}

// due reports whether the log must be asked again, to one caller at a time.
func (p *progress) due(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Before(p.next) {
		return false
	}
	p.next = now.Add(partitionsRetry)
	return true
}

// refreshPartitions asks the log which partitions there are, if that is due.
func (r *Reader) refreshPartitions(ctx context.Context) {
	if r.cfg.Log == nil || !r.progress.due(r.cfg.Now()) {
		return
	}
	asked, cancel := context.WithTimeout(ctx, partitionsTimeout)
	defer cancel()
	ends, err := r.cfg.Log.LogEnds(asked)
	if err != nil {
		if ctx.Err() == nil {
			r.warn("cannot read the ends of the logs", err)
		}
		return
	}
	r.progress.setPartitions(ends, r.cfg.Now())
}

// answeredUntilNow returns how far answers have come.
func (p *progress) answeredUntilNow() map[partition]streamPosition {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.answered)
}

// missing returns what an answer from s lacks to be complete: a partition without a head, or with a head below the log
// end at its assignment, below what an answer has shown before the heads were asked, or below the asked ends. From now
// on no answer that reaches less than s is complete.
func (r *Reader) missing(s *snapshot, asked []store.LogEnd) []string {
	p, hasLog := r.progress, r.cfg.Log != nil
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := range s.furthest {
		p.known[at] = true
	}
	var out []string
	if hasLog && !p.hasPartitions {
		out = append(out, "which partitions there are is not known yet")
	} else if len(p.known) == 0 && len(s.all) == 0 {
		out = append(out, "no ingester answers")
	}
	for _, at := range slices.SortedFunc(maps.Keys(p.known), partition.compare) {
		if why := p.lacks(s, at); why != "" && !r.isOthers(at.topic, s.tenant) {
			out = append(out, why)
		}
	}
	for _, why := range s.behind(asked) {
		if !slices.Contains(out, why) {
			out = append(out, why)
		}
	}
	// If every partition is far enough, an ingester that does not answer is not missed: others have them.
	if s.err != nil && (len(out) > 0 || !hasLog) {
		why := "not all ingesters answer"
		if silent, ok := errors.AsType[*store.SilentHeads](s.err); ok {
			why = silent.Error()
		}
		out = append(out, why)
	}
	for at, h := range s.furthest {
		p.use(at, positionOf(h))
	}
	return out
}

// use notes that an answer uses a position. The caller holds mu.
func (p *progress) use(at partition, reached streamPosition) {
	if p.answered[at].compare(reached) < 0 {
		p.answered[at] = reached
	}
}

// lacks returns what one partition lacks, "" for nothing. The caller holds mu.
func (p *progress) lacks(s *snapshot, at partition) string {
	h, ok := s.furthest[at]
	shown := s.answered[at]
	switch {
	case !ok:
		return fmt.Sprintf("no ingester answers for partition %s", at)
	case h.Position < h.CaughtUp:
		return fmt.Sprintf("partition %s is being replayed: offset %d of %d", at, h.Position, h.CaughtUp)
	case positionOf(h).compare(shown) < 0:
		return fmt.Sprintf("partition %s is behind an earlier answer: offset %d of stream %d after offset %d of stream %d",
			at, h.Position, h.Stream, shown.position, shown.stream)
	}
	return ""
}

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
	r := &Reader{cfg: cfg, log: rate.Sometimes{Interval: logEvery},
		progress: &progress{known: make(map[partition]bool), answered: make(map[partition]streamPosition)}}
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

// polls is the pauses between reads of heads while a query waits for positions.
var polls = retry.Policy{First: 2 * time.Millisecond, Max: 250 * time.Millisecond}

// waiting returns a context that ends after half of a query's time, so that a query that waits for heads can
// still read.
func waiting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, piece.TimeoutOf(ctx)/2)
}

// Await waits until heads have read the records that the context asks for, if any (WithAfter).
func (r *Reader) Await(ctx context.Context, tenant string) error {
	if len(afterOf(ctx)) == 0 {
		return nil
	}
	_, err := r.snapshotIncluding(ctx, store.HeadRequest{Tenant: tenant}) // without instants: for positions alone
	return err
}

// snapshotIncluding asks the heads once they have read what the context asks for.
func (r *Reader) snapshotIncluding(ctx context.Context, ask store.HeadRequest) (snapshot, error) {
	after := afterOf(ctx)
	s, err := r.snapshot(ctx, ask)
	if err != nil || s.lacking(after) == nil {
		return s, err
	}
	if err := r.checkPartitions(ctx, ask.Tenant, after); err != nil {
		return s, err
	}
	bounded, cancel := waiting(ctx)
	defer cancel()
	for err == nil && s.lacking(after) != nil {
		if late := r.awaitPositions(bounded, ask.Tenant, after); late != nil {
			return s, cmp.Or(ctx.Err(), error(&NotYetError{late}))
		}
		s, err = r.snapshot(ctx, ask)
	}
	return s, err
}

// checkPartitions returns an *UnknownPartitionError unless the log has the partitions of all ends, or does not answer.
func (r *Reader) checkPartitions(ctx context.Context, tenant string, ends []store.LogEnd) error {
	if r.cfg.Log == nil {
		return nil
	}
	unknown := func() []string {
		return r.progress.unknown(ends, func(topic string) bool { return r.isOthers(topic, tenant) })
	}
	if unknown() == nil {
		return nil
	}
	asked, cancel := context.WithTimeout(ctx, partitionsTimeout)
	defer cancel()
	found, err := r.cfg.Log.LogEnds(asked)
	if err != nil {
		return nil
	}
	r.progress.setPartitions(found, r.cfg.Now())
	if names := unknown(); names != nil {
		return &UnknownPartitionError{names}
	}
	return nil
}

// awaitPositions waits until heads have reached some ends, and until the tenant is registered that readings below them
// name. It returns what is missing of that when the time is over.
// A later read of heads may reach less: an ingester may have gone.
func (r *Reader) awaitPositions(ctx context.Context, tenant string, ends []store.LogEnd) (behind []string) {
	// A range without instants asks for positions alone.
	positions := store.HeadRequest{Tenant: tenant}
	for pauses := polls.Begin(); ; {
		s, err := r.snapshot(ctx, positions)
		if err == nil {
			if behind = s.lacking(ends); behind == nil {
				return nil
			}
		}
		if err != nil || pauses.Wait(ctx) != nil {
			if behind == nil {
				behind = []string{"no ingester has answered in time"}
			}
			return behind
		}
	}
}

// awaitLogEnd returns how far the log reaches, once the heads have come that far or half of the query's time is over.
// The error says that the log did not answer.
func (r *Reader) awaitLogEnd(ctx context.Context, tenant string) ([]store.LogEnd, error) {
	if r.cfg.Log == nil {
		return nil, errors.New("there is no log to ask")
	}
	ctx, cancel := waiting(ctx)
	defer cancel()
	ends, err := r.cfg.Log.LogEnds(ctx)
	if err != nil {
		return nil, err
	}
	r.progress.setPartitions(ends, r.cfg.Now())
	ends = slices.DeleteFunc(ends, func(e store.LogEnd) bool { return r.isOthers(e.Topic, tenant) })
	r.awaitPositions(ctx, tenant, ends) // whether they were reached shows in the answer of the heads
	return ends, nil
}

// NotYetError says that an answer would not include the records that it must include.
type NotYetError struct{ Behind []string }

// Error returns what the answer lacks, a sentence each.
func (e *NotYetError) Error() string {
	return "the answer does not include what it was asked to include: " + strings.Join(e.Behind, "; ")
}

// UnknownPartitionError says that an answer was asked to include records of partitions that do not exist, or that are
// another tenant's.
type UnknownPartitionError struct{ Partitions []string }

// Error names the partitions.
func (e *UnknownPartitionError) Error() string {
	return "no such partition: " + strings.Join(e.Partitions, ", ")
}

type afterKey struct{}

// WithAfter returns a context for queries that include the records below some ends: they wait until heads have read so
// far, for at most half of their time, and then fail with a *NotYetError.
func WithAfter(ctx context.Context, ends []store.LogEnd) context.Context {
	return context.WithValue(ctx, afterKey{}, ends)
}

func afterOf(ctx context.Context) []store.LogEnd {
	ends, _ := ctx.Value(afterKey{}).([]store.LogEnd)
	return ends
}

// MustInclude returns a *NotYetError with what an answer lacks if the context asks it to include records: one of them
// may be what is missing.
func MustInclude(ctx context.Context, missing []string) error {
	if len(afterOf(ctx)) == 0 || len(missing) == 0 {
		return nil
	}
	return &NotYetError{missing}
}

// ParsePositions parses positions, topic/partition/offset, several with commas between them, and returns the ends
// behind them.
func ParsePositions(values []string, most int) (ends []store.LogEnd, err error) {
	for _, text := range strings.Split(strings.Join(values, ","), ",") {
		e, err := parsePosition(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		ends = append(ends, e)
	}
	if len(ends) > most {
		return nil, fmt.Errorf("has %d positions; at most %d are allowed", len(ends), most)
	}
	return ends, nil
}

func parsePosition(text string) (e store.LogEnd, err error) {
	parts := strings.Split(text, "/")
	if len(parts) == 3 && parts[0] != "" {
		e.Topic = parts[0]
		partition, wrong := strconv.ParseUint(parts[1], 10, 31)
		offset, err := strconv.ParseUint(parts[2], 10, 62)
		if wrong == nil && err == nil {
			e.Partition, e.End = int32(partition), int64(offset)+1
			return e, nil
		}
	}
	return e, fmt.Errorf("%.100q is not a position; allowed is topic/partition/offset, such as telemetry/3/812", text)
}
