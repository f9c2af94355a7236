package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/kafka"
	"binnacle/internal/stream/deadletter"
	"binnacle/internal/stream/topics"
	"binnacle/internal/telemetry"
	"binnacle/internal/text/progress"
)

// maxDeadLetters bounds a batch, as maxBatchBytes does: a replay that dies has recorded all but its last batch.
const maxDeadLetters = 500

// deadLetterReplay is one replay of dead letters. It belongs to one goroutine.
type deadLetterReplay struct {
	cfg     Config
	client  *kafka.Client
	dead    *kafka.Topic
	target  *kafka.Topic
	produce func(ctx context.Context, t *kafka.Topic, partition int, m []kafka.Message) (int, error)

	since    int64
	targets  []int // partitions
	log      *replayLog
	repairer *repairer
	first    map[int]int64 // the first offset of the dead letters, by partition
	end      map[int]int64 // the offset at which this replay ends, by partition
	grants   map[string]string
	sum      DeadLetterSummary
}

// RunDeadLetters publishes dead letters again: each record where it stood, or, where only elements of it were refused
// or something is set, the readings that it is about. It returns nil only when each selected dead letter is published,
// by this replay or an earlier one. Where a replay dies or a request fails, the next attempt publishes some records
// again: readings of the same instants, which are answered once.
func RunDeadLetters(ctx context.Context, cfg Config) (DeadLetterSummary, error) {
	produce := func(ctx context.Context, t *kafka.Topic, partition int, m []kafka.Message) (int, error) {
		return t.Produce(ctx, partition, m)
	}
	return runDeadLetters(ctx, cfg, produce)
}

func runDeadLetters(ctx context.Context, cfg Config,
	produce func(context.Context, *kafka.Topic, int, []kafka.Message) (int, error)) (DeadLetterSummary, error) {
	if err := cfg.validateDeadLetters(); err != nil {
		return DeadLetterSummary{}, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	client, err := kafka.New(cfg.Kafka)
	if err != nil {
		return DeadLetterSummary{}, err
	}
	defer client.Close()
	set, err := cfg.set()
	if err != nil {
		return DeadLetterSummary{}, err
	}
	all, err := targets(ctx, client, set)
	if err != nil {
		return DeadLetterSummary{}, err
	}
	sum := DeadLetterSummary{From: set.DeadLetters(), To: namesOf(all), DryRun: cfg.DeadLetters.DryRun}
	for _, t := range all {
		own, failed := replayTopic(ctx, cfg.to(t, set.DeadLetters()), client, produce)
		sum.add(own)
		if err = errors.Join(err, failed); ctx.Err() != nil {
			break
		}
	}
	if left := sum.skipped(); err == nil && left > 0 && !cfg.DeadLetters.DryRun {
		err = fmt.Errorf("%d of %d dead letters are not published", left, sum.Selected)
	}
	return sum, err
}

func namesOf(all []topics.Topic) string {
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = t.Name
	}
	return strings.Join(names, ",")
}

// targets returns the topics of a set. Whether one that is named alone is there shows when it is read.
func targets(ctx context.Context, client *kafka.Client, set topics.Set) (all []topics.Topic, err error) {
	names := set.Named()
	if set.HasPatterns() || len(names) != 1 {
		l, err := client.Sources(set).Layout(ctx)
		if err == nil {
			err = errors.Join(l.Faults...)
		}
		if err != nil {
			return nil, err
		}
		names = l.Names()
	}
	for _, name := range names {
		t, _, err := set.Of(name)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

func replayTopic(ctx context.Context, cfg Config, client *kafka.Client,
	produce func(context.Context, *kafka.Topic, int, []kafka.Message) (int, error)) (DeadLetterSummary, error) {
	names, err := cfg.DeadLetters.names()
	if err != nil {
		return DeadLetterSummary{}, err
	}
	since, err := cfg.DeadLetters.since(cfg.Now())
	if err != nil {
		return DeadLetterSummary{}, err
	}
	r := &deadLetterReplay{
		cfg: cfg, client: client, dead: client.Topic(cfg.DeadLetters.DeadLetters), target: client.Topic(cfg.Topic),
		produce: produce, since: since, repairer: newRepairer(cfg.Messages, cfg.Topic, names),
		first: map[int]int64{}, end: map[int]int64{},
		sum: DeadLetterSummary{DryRun: cfg.DeadLetters.DryRun},
	}
	r.repairer.original = r.original
	r.log = &replayLog{topic: cfg.Topic, wanted: r.wanted, deadLetters: map[deadletter.ID]entry{},
		done: map[deadletter.ID]bool{}}
	err = r.all(ctx)
	return r.sum, err
}

func (r *deadLetterReplay) all(ctx context.Context) (err error) {
	if err := r.read(ctx); err != nil {
		return err
	}
	if r.cfg.Grant != nil && !r.cfg.DeadLetters.DryRun {
		if err := r.grant(ctx); err != nil {
			return err
		}
	}
	wait := pace(r.cfg.Rate, r.cfg.Now)
	bar := progress.New(r.cfg.Progress, "publishing", int64(len(r.log.deadLetters)))
	defer bar.Clear()
	var batch []repaired
	bytes := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		all := batch
		batch, bytes = nil, 0
		return r.publish(ctx, all)
	}
	var failed error
	err = r.pending(ctx, &r.sum, func(m repaired) error {
		bar.Add(1)
		if r.cfg.DeadLetters.DryRun {
			r.sum.at(r.log.deadLetters[m.id].reason).Published++
			return nil
		}
		size := len(m.message.Key) + len(m.message.Value)
		if len(batch) == maxDeadLetters || bytes+size > maxBatchBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		if err := wait(ctx, func() { failed = flush() }); err != nil || failed != nil {
			return errors.Join(err, failed)
		}
		bytes += size
		batch = append(batch, m)
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}

// wanted reports whether a dead letter that was refused at a time is selected.
func (r *deadLetterReplay) wanted(l *deadletter.DeadLetter, at int64) bool {
	reasons := r.cfg.DeadLetters.Reasons
	return at >= r.since && (len(reasons) == 0 || slices.Contains(reasons, string(l.Reason)))
}

// read reads what dead letters there are and what became of them.
func (r *deadLetterReplay) read(ctx context.Context) error {
	var partitions []int
	err := persist(ctx, patienceAtStart, func(ctx context.Context) (err error) {
		if partitions, err = partitionsOf(ctx, r.client, r.dead); err != nil {
			return err
		}
		r.targets, err = partitionsOf(ctx, r.client, r.target)
		return err
	})
	if err != nil {
		return err
	}
	total := int64(0)
	for _, p := range partitions {
		first, end, err := r.dead.Bounds(ctx, p)
		if err != nil {
			return err
		}
		r.first[p], r.end[p] = first, end
		total += end - first
	}
	bar := progress.New(r.cfg.Progress, "reading", total)
	defer bar.Clear()
	for _, p := range partitions {
		if err := r.log.read(ctx, r.dead, kafka.Span{Partition: p, From: r.first[p], To: r.end[p]}, bar.Add); err != nil {
			return err
		}
	}
	r.sum.Selected, r.sum.Repeats = len(r.log.deadLetters), r.log.repeats
	return nil
}

// grant gets leave for the readings that will be published.
func (r *deadLetterReplay) grant(ctx context.Context) error {
	spans := map[string]telemetry.Range{}
	err := r.pending(ctx, &DeadLetterSummary{}, func(m repaired) error {
		for tenant, span := range m.spans {
			widen(spans, tenant, span)
		}
		return nil
	})
	if err != nil {
		return err
	}
	grants := map[string]string{}
	for _, tenant := range slices.Sorted(maps.Keys(spans)) {
		span := telemetry.Range{From: spans[tenant].From, To: spans[tenant].To + 1}
		if grants[tenant], err = r.cfg.Grant(ctx, control.BackfillWork{Tenant: tenant, Range: span}); err != nil {
			return err
		}
	}
	r.grants = grants
	return nil
}
