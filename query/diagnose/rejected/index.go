// Package rejected follows the topic of dead letters and keeps the newest of them in memory, so that a tenant sees its
// own refused readings.
//
// The tenant of a dead letter follows from its payload, read as an ingester reads it, never from its key or its
// headers. Where the payload names none, only operators see the dead letter.
package rejected

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/erasure"
	"binnacle/internal/kafka"
	"binnacle/internal/retry"
	"binnacle/internal/settings"
	"binnacle/internal/stream/deadletter"
	"binnacle/internal/stream/topics"
)

// Config configures an Index: which dead letters it follows, and how many it keeps.
type Config struct {
	DeadLetters *kafka.Topic   // where the dead letters are
	Topics      topics.Set     // topics of the refused records
	Messages    decode.Options // how ingesters read them
	// Erasures returns the orders of erasure about a tenant: what they cover is left out. Nil: there are none.
	Erasures func(tenant string) erasure.List
	// MaxBytes is the limit of memory, about: 64 MiB hold some 100,000 dead letters.
	MaxBytes int64         `default:"64" type:"mib"`
	Every    time.Duration `default:"1s"` // how often new ones are read
	Logger   *slog.Logger  // none
}

// Index is the newest dead letters of some topics. It is safe for any number of callers while one Run runs.
type Index struct {
	cfg Config
	// classifiers, owned by Run, has one for each topic; nil for a topic that is not followed.
	classifiers map[string]*classifier
	// read, owned by Run, is the next offset for each partition.
	read map[int]int64
	// since, owned by Run, is the offset from which each partition was read.
	since map[int]int64
	// loaded, owned by Run, is set once all dead letters of the start are read.
	loaded bool
	ids    map[identity]deadletter.Elements // of entries; owned by Run

	mu sync.Mutex
	// entries and the rest are guarded by mu. Those from the start are sorted by time, the others are as they were
	// read.
	entries       []entry
	interned      map[string]string // one string for each tenant and device
	bytes         int64
	completeSince int64 // ms; no dead letter since is missing
	err           error // why some may be missing
}

// identity names a dead letter, or a record of which elements were refused: another life may refuse others.
type identity struct {
	topic string
	deadletter.ID
}

// entry is what is kept of a dead letter.
type entry struct {
	id        identity
	index     int   // number of the element, decode.Whole for the record
	count     int   // elements that it represents
	at        int64 // time of the refusal, ms
	published int64 // time when it was published, ms; that of the refusal where unknown
	time      int64 // event time, ms; -1 is not known
	reason    decode.Reason
	tenant    string // empty is not known
	device    string
	// key is the key of a record without a known tenant, or without a known device on a tenant's topic.
	key       string
	detail    string
	payload   string
	truncated bool // the payload is longer
}

// maxPayload bounds what is kept of a payload.
const maxPayload = 1 << 10

const (
	runBytes   = 16                            // memory of some elements of a record
	entryBytes = 256                           // memory without its payload
	longBytes  = entryBytes + maxPayload + 256 // memory of a dead letter with a long payload and a detail
)

func (e *entry) bytes() int64 { return int64(entryBytes + len(e.payload) + len(e.detail) + len(e.key)) }

var errReading = errors.New("the dead letters are not read yet")

// New makes an empty Index.
func New(cfg Config) *Index {
	settings.Defaults(&cfg)
	return &Index{cfg: cfg, classifiers: map[string]*classifier{}, read: map[int]int64{}, since: map[int]int64{},
		ids: map[identity]deadletter.Elements{}, interned: map[string]string{}, err: errReading}
}

// Run follows the topic until the context ends. It waits for a topic that is not there yet.
func (x *Index) Run(ctx context.Context) error {
	trouble := retry.Trouble{Log: x.cfg.Logger, Failing: "dead letters not read", Over: "dead letters are read again"}
	for {
		err := x.poll(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if kafka.IsUnknownTopic(err) {
			err = nil // nothing was ever refused
		}
		x.mu.Lock()
		x.err = err
		x.mu.Unlock()
		trouble.Report(err, "topic", x.cfg.DeadLetters.Name())
		if err := retry.Pause(ctx, x.cfg.Every); err != nil {
			return err
		}
	}
}

func (x *Index) poll(ctx context.Context) error {
	ends, err := x.cfg.DeadLetters.LogEnds(ctx)
	if err != nil {
		return err
	}
	for _, e := range ends {
		p := int(e.Partition)
		if from, known := x.read[p]; known && from == e.End {
			continue
		}
		first, end, err := x.cfg.DeadLetters.Bounds(ctx, p)
		if err != nil {
			return err
		}
		from, known := x.read[p]
		switch {
		case !known:
			// Only the end of a long log is of use, and the same part of every partition: they are read one after
			// another, and with more than there is room for, the first ones would be dropped.
			from = max(first, end-max(1, x.cfg.MaxBytes/longBytes/int64(len(ends))))
			if from > first {
				x.since[p] = from // earlier dead letters are not known
			}
		case from < first || from > end: // the topic was created again, or dropped unread records
			from = first
			x.since[p] = from // earlier dead letters are not known
		}
		err = x.cfg.DeadLetters.Each(ctx, kafka.Span{Partition: p, From: from, To: end}, func(r *kafka.Record) error {
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

// take keeps the dead letter of a record. It is called in the order of the log.
func (x *Index) take(partition int, r *kafka.Record) {
	if x.since[partition] > 0 && r.Offset >= x.since[partition] {
		delete(x.since, partition)
		x.mu.Lock()
		x.completeSince = max(x.completeSince, r.Time)
		x.mu.Unlock()
	}
	l, ok := deadletter.Parse(r.Key, r.Value, r.Headers)
	if !ok {
		return
	}
	classifier := x.classifierOf(l.Topic)
	if classifier == nil {
		return
	}
	id := identity{strings.Clone(l.Topic), l.ID()}
	if l.Elements != nil {
		id.ID = deadletter.ID{Partition: l.Partition, Offset: l.Offset, Published: l.Published}
	}
	before, repeat := x.ids[id]
	if l.Elements = l.Elements.Without(before); repeat && len(l.Elements) == 0 {
		return // it costs nothing more
	}
	published := r.Time
	if l.Published >= 0 {
		published = l.Published
	}
	all := classifier.entries(&l)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ids[id] = before.With(l.Elements)
	x.bytes += runBytes * int64(len(x.ids[id])-len(before))
	for _, e := range all {
		e.id, e.at, e.published = id, r.Time, published
		e.tenant, e.device = x.intern(e.tenant), x.intern(e.device)
		x.entries = append(x.entries, e)
		x.bytes += e.bytes()
	}
	for x.bytes > x.cfg.MaxBytes {
		old := &x.entries[0]
		x.bytes -= old.bytes() + runBytes*int64(len(x.ids[old.id]))
		x.completeSince = max(x.completeSince, old.at+1)
		delete(x.ids, old.id)
		*old = entry{}
		x.entries = x.entries[1:]
	}
}

// classifierOf returns the classifier of a topic's dead letters, nil for a topic that is not followed.
func (x *Index) classifierOf(topic string) *classifier {
	if j, known := x.classifiers[topic]; known {
		return j
	}
	if len(x.classifiers) >= maxInterned { // dead letters may name any topic
		clear(x.classifiers)
	}
	var j *classifier
	if of, ok, _ := x.cfg.Topics.Of(topic); ok {
		j = newClassifier(x.cfg.Messages, of)
	}
	x.classifiers[strings.Clone(topic)] = j
	return j
}

// maxInterned bounds the names that are shared to save memory.
const maxInterned = 1 << 16

func (x *Index) intern(s string) string {
	if known, ok := x.interned[s]; ok {
		return known
	}
	if len(x.interned) >= maxInterned {
		clear(x.interned)
	}
	x.interned[s] = s
	return s
}
