// Package rejected knows which readings were refused, and whose they are: it follows the topic of dead letters and
// keeps the newest of them in memory, so that a tenant can be told of its own.
//
// Whose a letter is follows from its payload, read as an ingester reads it, never from its key or its headers. Where
// the payload does not tell, it is nobody's: only operators see it.
package rejected

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/kafka"
	"binnacle/internal/letter"
	"binnacle/internal/retry"
	"binnacle/internal/topics"
)

// Config says what is followed, and how much is kept.
type Config struct {
	Letters  *kafka.Topic   // where the dead letters are
	Topics   topics.Set     // of whose records
	Messages decode.Options // how ingesters read them
	MaxBytes int64          // of memory, about; DefaultBytes
	Every    time.Duration  // how often it is looked for new ones; a second
	Logger   *slog.Logger   // none
}

// DefaultBytes of memory hold some 100,000 letters.
const DefaultBytes = 64 << 20

// Index is the newest dead letters of some topics. It is safe for any number of callers beside one Run.
type Index struct {
	cfg    Config
	judges map[string]*judge // owned by Run: of topics; nil for one that is not asked for
	read   map[int]int64     // owned by Run: up to where each partition was read
	since  map[int]int64     // owned by Run: from where on
	loaded bool              // owned by Run: what there was at the start is read
	warned string            // owned by Run

	mu      sync.Mutex
	entries []entry // guarded by mu, as the rest; those of the start by time, then in the order in which they were read
	ids     map[identity]struct{}
	names   map[string]string // one string for each tenant and device
	bytes   int64
	whole   int64 // since when, ms, no letter is missing
	err     error // why what there is may not be all
}

// identity tells a letter from all others.
type identity struct {
	topic string
	letter.ID
}

// entry is what is kept of a letter.
type entry struct {
	id      identity
	at      int64 // when it was refused, ms
	came    int64 // when it was published, ms; when it was refused where that is not known
	time    int64 // event time, ms; -1 is not known
	reason  decode.Reason
	tenant  string // empty is not known
	device  string
	key     string // of a record whose tenant is not known, or whose device is not and the topic tells the tenant
	detail  string
	payload string
	cut     bool // the payload is longer
}

// maxPayload bounds what is kept of a payload.
const maxPayload = 1 << 10

const (
	entryBytes = 256                           // of memory beside its payload
	longBytes  = entryBytes + maxPayload + 256 // of a letter with a long payload and a detail
)

func (e *entry) bytes() int64 { return int64(entryBytes + len(e.payload) + len(e.detail) + len(e.key)) }

var errReading = errors.New("the dead letters that there are have not been read yet")

// New makes an Index. It knows nothing before Run has read.
func New(cfg Config) *Index {
	cfg.MaxBytes, cfg.Every = cmp.Or(cfg.MaxBytes, DefaultBytes), cmp.Or(cfg.Every, time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Index{cfg: cfg, judges: map[string]*judge{}, read: map[int]int64{}, since: map[int]int64{},
		ids: map[identity]struct{}{}, names: map[string]string{}, err: errReading}
}

// Run follows the topic until the context ends. A topic that is not there yet is waited for.
func (x *Index) Run(ctx context.Context) error {
	for {
		err := x.follow(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if kafka.NoTopic(err) {
			err = nil // nothing was ever refused
		}
		x.mu.Lock()
		x.err = err
		x.mu.Unlock()
		if text := fmt.Sprint(err); err != nil && text != x.warned {
			x.cfg.Logger.Warn("dead letters can't be read", "topic", x.cfg.Letters.Name(), "error", err)
			x.warned = text
		}
		if err := retry.Pause(ctx, x.cfg.Every); err != nil {
			return err
		}
	}
}

// follow reads what is new.
func (x *Index) follow(ctx context.Context) error {
	ends, err := x.cfg.Letters.LogEnds(ctx)
	if err != nil {
		return err
	}
	for _, e := range ends {
		p := int(e.Partition)
		if from, known := x.read[p]; known && from == e.End {
			continue
		}
		first, end, err := x.cfg.Letters.Bounds(ctx, p)
		if err != nil {
			return err
		}
		from, known := x.read[p]
		switch {
		case !known:
			// Of a long log only the end is of use, and of each partition as much of it: partitions are read one after
			// another, and of more than there is room for those that were read first would be forgotten.
			from = max(first, end-max(1, x.cfg.MaxBytes/longBytes/int64(len(ends))))
			if from > first {
				x.begin(p, from)
			}
		case from < first || from > end: // it was made anew, or dropped what was not read
			from = first
			x.begin(p, from)
		}
		err = x.cfg.Letters.Each(ctx, p, from, end, func(r *kafka.Record) error {
			x.take(p, r)
			x.read[p] = r.Offset + 1
			return nil
		}, nil)
		if err != nil {
			return err
		}
		x.read[p] = end
	}
	if !x.loaded {
		x.loaded = true
		x.mu.Lock()
		defer x.mu.Unlock()
		slices.SortStableFunc(x.entries, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	}
	return nil
}

// begin notes that a partition's letters before an offset are not known.
func (x *Index) begin(partition int, from int64) { x.since[partition] = from }

// take keeps what a record tells. It is called in the order of the log.
func (x *Index) take(partition int, r *kafka.Record) {
	if x.since[partition] > 0 && r.Offset >= x.since[partition] {
		delete(x.since, partition)
		x.mu.Lock()
		x.whole = max(x.whole, r.Time)
		x.mu.Unlock()
	}
	l, ok := letter.Parse(r.Key, r.Value, r.Headers)
	if !ok {
		return
	}
	judge := x.judgeOf(l.Topic)
	if judge == nil {
		return
	}
	e := judge.entry(&l)
	e.at, e.came = r.Time, r.Time
	if l.Published >= 0 {
		e.came = l.Published
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, repeat := x.ids[e.id]; repeat {
		return
	}
	e.tenant, e.device = x.name(e.tenant), x.name(e.device)
	x.ids[e.id] = struct{}{}
	x.entries = append(x.entries, e)
	for x.bytes += e.bytes(); x.bytes > x.cfg.MaxBytes; {
		old := &x.entries[0]
		x.bytes -= old.bytes()
		x.whole = max(x.whole, old.at+1)
		delete(x.ids, old.id)
		*old = entry{}
		x.entries = x.entries[1:]
	}
}

// judgeOf is who tells whose the letters of a topic are, nil for a topic that is not asked for.
func (x *Index) judgeOf(topic string) *judge {
	if j, known := x.judges[topic]; known {
		return j
	}
	if len(x.judges) >= maxNames { // whoever writes letters writes their topics too
		clear(x.judges)
	}
	var j *judge
	if of, ok, _ := x.cfg.Topics.Of(topic); ok {
		j = newJudge(x.cfg.Messages, of)
	}
	x.judges[strings.Clone(topic)] = j
	return j
}

// maxNames bounds the names that are remembered: that they are shared saves memory, nothing else.
const maxNames = 1 << 16

func (x *Index) name(s string) string {
	if known, ok := x.names[s]; ok {
		return known
	}
	if len(x.names) >= maxNames {
		clear(x.names)
	}
	x.names[s] = s
	return s
}
