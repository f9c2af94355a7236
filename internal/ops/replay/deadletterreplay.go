package replay

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/kafka"
	"binnacle/internal/retry"
	"binnacle/internal/stream/deadletter"
	"binnacle/internal/stream/topics"
	"binnacle/internal/telemetry"
	"binnacle/internal/text/progress"
)

// Bounds of what is claimed at once.
const (
	maxClaim      = 500
	maxClaimBytes = maxBatchBytes
)

// inFlightMax is how long a request may still be on its way when nobody waits for its answer any more.
const inFlightMax = 5 * time.Second

// attempts is how often a batch is published before a broker that fails is given up.
const attempts = 6

// recent claims may be those of a replay that still runs.
const recentClaim = time.Hour

// errAnother says that two replays would publish the same dead letters.
var errAnother = errors.New("another replay of these dead letters is under way")

// deadLetterReplay is one replay of dead letters. It belongs to one goroutine.
type deadLetterReplay struct {
	cfg     Config
	client  *kafka.Client
	dead    *kafka.Topic
	target  *kafka.Topic
	run     string // identifies this replay
	secret  string // key of the MACs of this replay's copies
	produce func(ctx context.Context, t *kafka.Topic, partition int, m []kafka.Message) (int, error)
	pause   func(ctx context.Context, d time.Duration) error

	since    int64
	targets  []int // partitions
	log      *replayLog
	repairer *repairer
	first    map[int]int64 // of the dead letters' partitions: the first offset
	end      map[int]int64 // and where this replay ends
	grants   map[string]string
	sum      DeadLetterSummary
}

// RunDeadLetters publishes dead letters again: each record where it stood, or, where only elements of it were refused
// or something is set, the readings that it is about. It returns nil only when each selected dead letter is published,
// by this replay or an earlier one. Each is published once, whatever dies in between, and however many replays run.
func RunDeadLetters(ctx context.Context, cfg Config) (DeadLetterSummary, error) {
	produce := func(ctx context.Context, t *kafka.Topic, partition int, m []kafka.Message) (int, error) {
		return t.Produce(ctx, partition, m)
	}
	return runDeadLetters(ctx, cfg, produce, retry.Pause)
}

func runDeadLetters(ctx context.Context, cfg Config,
	produce func(context.Context, *kafka.Topic, int, []kafka.Message) (int, error),
	pause func(context.Context, time.Duration) error) (DeadLetterSummary, error) {
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
		own, failed := replayTopic(ctx, cfg.to(t, set.DeadLetters()), client, produce, pause)
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

// replayTopic replays the dead letters of one topic.
func replayTopic(ctx context.Context, cfg Config, client *kafka.Client,
	produce func(context.Context, *kafka.Topic, int, []kafka.Message) (int, error),
	pause func(context.Context, time.Duration) error) (DeadLetterSummary, error) {
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
		run: rand.Text(), secret: rand.Text(), produce: produce, pause: pause,
		since: since, repairer: newRepairer(cfg.Messages, cfg.Topic, names),
		first: map[int]int64{}, end: map[int]int64{},
		sum: DeadLetterSummary{DryRun: cfg.DeadLetters.DryRun},
	}
	r.repairer.original = r.original
	r.log = newReplayLog(cfg.Topic, r.wanted)
	err = r.all(ctx)
	return r.sum, err
}

func (r *deadLetterReplay) all(ctx context.Context) (err error) {
	if err := r.read(ctx); err != nil {
		return err
	}
	if err := r.recover(ctx); err != nil {
		return err
	}
	if r.cfg.Grant != nil && !r.cfg.DeadLetters.DryRun {
		if err := r.grant(ctx); err != nil {
			return err
		}
	}
	speed := pace{rate: r.cfg.Rate, now: r.cfg.Now}
	bar := progress.New(r.cfg.Progress, "publishing", int64(len(r.log.deadLetters)))
	defer bar.Clear()
	var batch []repaired
	bytes, of := 0, -1
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		all := batch
		batch, bytes = nil, 0
		return r.publish(ctx, of, all)
	}
	var failed error
	err = r.pending(ctx, &r.sum, func(partition int, m repaired) error {
		bar.Add(1)
		if r.cfg.DeadLetters.DryRun {
			r.sum.at(r.log.deadLetters[m.id].reason).Published++
			return nil
		}
		size := len(m.message.Key) + len(m.message.Value)
		if partition != of || len(batch) == maxClaim || bytes+size > maxClaimBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		if err := speed.wait(ctx, func() { failed = flush() }); err != nil || failed != nil {
			return errors.Join(err, failed)
		}
		of, bytes = partition, bytes+size
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
		r.first[p], r.end[p], r.log.read[p] = first, end, first
		total += end - first
	}
	bar := progress.New(r.cfg.Progress, "reading", total)
	defer bar.Clear()
	for _, p := range partitions {
		if err := r.log.follow(ctx, r.dead, p, r.end[p], nil, bar.Add); err != nil {
			return err
		}
	}
	r.sum.Selected, r.sum.Repeats = len(r.log.deadLetters), r.log.repeats
	return nil
}

// recover finds out what became of dead letters that another replay has claimed without recording an end: they are in
// the topic, or that replay still runs, or they are free.
func (r *deadLetterReplay) recover(ctx context.Context) error {
	open := r.log.open()
	if len(open) == 0 {
		return nil
	}
	runs, fresh := map[string]bool{}, false
	for _, claims := range open {
		for _, c := range claims {
			runs[c.run] = true
			age := r.cfg.Now().Sub(time.UnixMilli(c.at))
			fresh = fresh || age < recentClaim
		}
	}
	if fresh && !r.cfg.DeadLetters.DryRun {
		if r.cfg.Progress != nil {
			fmt.Fprintf(r.cfg.Progress, "a replay has ended early: waiting %s, in case it runs still\n", r.lease())
		}
		if err := r.pause(ctx, r.lease()); err != nil {
			return err
		}
		alive := func(_ string, c receipt) error {
			if runs[c.Run] {
				return errAnother
			}
			return nil
		}
		if err := r.catchUp(ctx, slices.Sorted(maps.Keys(r.end)), alive); err != nil {
			return err
		}
		open = r.log.open()
	}
	found, err := copies(ctx, r.target, from(open), func(id deadletter.ID, mac string) bool {
		return slices.ContainsFunc(open[id], func(c claim) bool { return copyKey{c.secret, r.cfg.Topic}.proves(id, mac) })
	})
	if err != nil {
		return err
	}
	for id := range open {
		delete(r.log.claims, id) // they are published, or will not be by the run that claimed them
	}
	return r.recordDone(ctx, slices.Collect(maps.Keys(found)))
}

// catchUp reads on what was written among the dead letters of some partitions.
func (r *deadLetterReplay) catchUp(ctx context.Context, partitions []int, f func(kind string, c receipt) error) error {
	for _, p := range partitions {
		_, end, err := r.dead.Bounds(ctx, p)
		if err != nil {
			return err
		}
		if err := r.log.follow(ctx, r.dead, p, end, f, nil); err != nil {
			return err
		}
	}
	return nil
}

// recordDone notes dead letters as published.
func (r *deadLetterReplay) recordDone(ctx context.Context, ids []deadletter.ID) error {
	byPartition := map[int][]deadletter.ID{}
	for _, id := range ids {
		p := r.log.deadLetters[id].partition
		byPartition[p] = append(byPartition[p], id)
		r.log.done[id] = true
	}
	if r.cfg.DeadLetters.DryRun {
		return nil
	}
	for p, of := range byPartition {
		for part := range slices.Chunk(of, maxClaim) {
			if err := r.appendReceipt(ctx, p, doneKind, part); err != nil {
				return err
			}
		}
	}
	return nil
}

// appendReceipt appends a receipt. It does so until it is there: one that stands twice says the same.
func (r *deadLetterReplay) appendReceipt(ctx context.Context, partition int, kind string, ids []deadletter.ID) error {
	m := r.receipt(ids).record(kind, r.cfg.Topic)
	return persist(ctx, patience, func(ctx context.Context) error {
		_, err := r.produce(ctx, r.dead, partition, []kafka.Message{m})
		return err
	})
}

func (r *deadLetterReplay) receipt(ids []deadletter.ID) receipt {
	c := receipt{Run: r.run}
	for _, id := range ids {
		c.IDs = append(c.IDs, id.String())
	}
	return c
}

// claimTimeout returns how long a run may take from its claim to the end of its publication, and lease how long another
// one waits for a sign of life.
func (r *deadLetterReplay) claimTimeout() time.Duration { return r.client.RequestTimeout() }
func (r *deadLetterReplay) lease() time.Duration        { return r.claimTimeout() + inFlightMax }

// grant gets leave for the readings that will be published.
func (r *deadLetterReplay) grant(ctx context.Context) error {
	spans := map[string]telemetry.Range{}
	err := r.pending(ctx, &DeadLetterSummary{}, func(_ int, m repaired) error {
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
