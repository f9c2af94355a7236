package replay

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"binnacle/ingest/decode"
	"binnacle/ingest/journal"
	"binnacle/internal/kafka"
	"binnacle/internal/retry"
	"binnacle/internal/stream/deadletter"
)

// Constants of a replay's wait for the ingesters' refusals: it looks every refusalLook, and ends when commits pass
// all records, or when no dead letter has come for refusalPatience. An ingester refuses a record within milliseconds
// of reading it, and commits past an accepted one when that is in a chunk or in the journal.
const (
	refusalLook     = 200 * time.Millisecond
	refusalPatience = 2 * time.Second
)

// Refusals is what ingesters have refused of the published records so far.
type Refusals struct {
	Records  int // refused records, one dead letter each
	ByReason map[decode.Reason]int
	First    string // detail of the first dead letter
}

// stretch is the offsets of records that were appended together; end is exclusive.
type stretch struct{ base, end int64 }

// refusals follows the dead-letter topic and the commits of the ingesters' group. landed is safe for concurrent use;
// the other methods are for one caller.
type refusals struct {
	topic, dead *kafka.Topic
	group       string
	read        map[int]int64 // partitions of dead, and up to where they were read

	mu       sync.Mutex
	landings map[int][]stretch // guarded by mu: by partition of topic, in the order of offsets

	refused map[deadletter.ID]bool // a dead letter may stand there twice
	found   Refusals
}

func followRefusals(ctx context.Context, client *kafka.Client, cfg Config) (*refusals, error) {
	set, err := cfg.set()
	if err != nil {
		return nil, err
	}
	r := &refusals{topic: client.Topic(set.Named()[0]), dead: client.Topic(set.DeadLetters()), group: cfg.Group,
		read: map[int]int64{}, landings: map[int][]stretch{}, refused: map[deadletter.ID]bool{},
		found: Refusals{ByReason: map[decode.Reason]int{}}}
	err = persist(ctx, patienceAtStart, func(ctx context.Context) error {
		return r.eachPartition(ctx, func(p int, _, end int64) error {
			r.read[p] = end
			return nil
		})
	})
	return r, err
}

// eachPartition calls f with the bounds of the dead-letter topic's partitions. The topic may not exist yet.
func (r *refusals) eachPartition(ctx context.Context, f func(partition int, first, end int64) error) error {
	partitions, err := r.dead.Partitions(ctx)
	if kafka.IsUnknownTopic(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, p := range partitions {
		first, end, err := r.dead.Bounds(ctx, p)
		if err == nil {
			err = f(p, first, end)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// landed notes where records were appended.
func (r *refusals) landed(partition int, base int64, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.landings[partition] = append(r.landings[partition], stretch{base, base + int64(n)})
}

// await returns what is refused, once all that was published is decided, or nothing more is refused for a while.
func (r *refusals) await(ctx context.Context) (Refusals, error) {
	seen, since := -1, time.Now()
	for {
		// Dead letters precede the commit that passes their record, so they are read after it.
		floors, err := r.floors(ctx)
		if err == nil {
			err = r.follow(ctx)
		}
		if err != nil {
			return r.found, fmt.Errorf("find out what ingesters have refused: %w", err)
		}
		if r.found.Records > seen {
			seen, since = r.found.Records, time.Now()
		}
		if r.passed(floors) || time.Since(since) > refusalPatience {
			return r.found, nil
		}
		if retry.Pause(ctx, refusalLook) != nil {
			return r.found, context.Cause(ctx)
		}
	}
}

// passed reports whether all published records lie below the floors of their partitions.
func (r *refusals) passed(floors map[int]int64) bool {
	for p, all := range r.landings {
		if len(all) > 0 && floors[p] < all[len(all)-1].end {
			return false
		}
	}
	return true
}

// floors returns by partition the offset below which all is decided: stored, in the journal, or refused.
func (r *refusals) floors(ctx context.Context) (map[int]int64, error) {
	commits, err := r.topic.Commits(ctx, r.group, slices.Sorted(maps.Keys(r.landings))...)
	if err != nil {
		return nil, err
	}
	out := map[int]int64{}
	for p, c := range commits {
		out[p] = c.Offset
		if j, ok := journal.ParseCommit(c.Metadata); ok {
			out[p] = max(c.Offset, j.F)
		}
	}
	return out, nil
}

// follow reads the dead letters that were written since the last call.
func (r *refusals) follow(ctx context.Context) error {
	return r.eachPartition(ctx, func(p int, first, end int64) error {
		in := kafka.Span{Partition: p, From: max(first, r.read[p]), To: end}
		err := r.dead.Each(ctx, in, func(rec *kafka.Record) error {
			if l, ok := deadletter.Parse(rec.Key, rec.Value, rec.Headers); ok && l.Topic == r.topic.Name() {
				r.take(&l)
			}
			return nil
		}, nil)
		if err == nil {
			r.read[p] = max(r.read[p], end)
		}
		return err
	})
}

func (r *refusals) take(l *deadletter.DeadLetter) {
	all := r.landings[int(l.Partition)]
	n := 0
	for _, s := range all {
		n += int(max(0, min(s.end, max(l.Through, l.Offset)+1)-max(s.base, l.Offset)))
	}
	if n == 0 || r.refused[l.ID()] {
		return
	}
	r.refused[l.ID()] = true
	if r.found.Records == 0 {
		r.found.First = l.Detail
	}
	r.found.Records += n
	r.found.ByReason[l.Reason] += n
}

var advice = map[decode.Reason]string{
	decode.Past: "readings of long ago are accepted with --backfill",
	decode.Limit: "readings of long ago, and of more months than a tenant may have, are accepted with --backfill; " +
		"other limits are those of binnacle limits",
	decode.Future:        "--shift-to now moves the times of the file so that the last one is now",
	decode.Expired:       "the retention is shorter than these readings are old: binnacle tenant set TENANT --retention",
	decode.UnknownTenant: "register the tenant: binnacle tenant set TENANT",
}

// text describes the refusals of the published records, and the remedies, for people.
func (f Refusals) text(published int) string {
	byCount := slices.SortedFunc(maps.Keys(f.ByReason), func(a, b decode.Reason) int {
		return cmp.Or(cmp.Compare(f.ByReason[b], f.ByReason[a]), cmp.Compare(a, b))
	})
	parts := make([]string, len(byCount))
	for i, reason := range byCount {
		parts[i] = fmt.Sprintf("%s %d", reason, f.ByReason[reason])
	}
	text := fmt.Sprintf("%d of %d records were refused and are dead letters: %s. The first: %s", f.Records, published,
		strings.Join(parts, ", "), f.First)
	if a := advice[byCount[0]]; a != "" {
		text += "; " + a
	}
	return text + "; to publish them again see binnacle replay --from-dlq"
}
