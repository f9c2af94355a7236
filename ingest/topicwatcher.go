package ingest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"binnacle/internal/kafka"
	"binnacle/internal/retry"
)

// layout is the topics that are read, and their partitions. It never changes: another one follows it.
type layout struct {
	topics  map[string][]int
	changed chan struct{} // closed when there is another one
}

func (l *layout) names() []string { return slices.Sorted(maps.Keys(l.topics)) }

func (l *layout) partitions() (all []topicPartition) {
	for topic, partitions := range l.topics {
		for _, p := range partitions {
			all = append(all, topicPartition{topic, p})
		}
	}
	slices.SortFunc(all, compareTopicPartitions)
	return all
}

func (l *layout) is(topics map[string][]int) bool {
	return maps.EqualFunc(l.topics, topics, slices.Equal)
}

// topicWatcher keeps the layout up to date. It serves one goroutine at a time.
type topicWatcher struct {
	in      *Ingester
	logged  map[string]bool      // faults that are known
	missing map[string]time.Time // topics that were read and are missing, since when
}

func (o *topicWatcher) check(ctx context.Context) error {
	found, err := o.in.sources.Layout(ctx)
	if err != nil {
		return err
	}
	o.logFaults(found.Faults)
	o.publish(found)
	o.retire()
	return nil
}

// logFaults logs each fault of the topics once, and its end.
func (o *topicWatcher) logFaults(faults []error) {
	now := map[string]bool{}
	for _, f := range faults {
		now[f.Error()] = true
		if !o.logged[f.Error()] {
			o.in.log.Error("a topic is missing or unreadable; the others are read", "error", f)
		}
	}
	for text := range o.logged {
		if !now[text] {
			o.in.log.Info("a topic fault is over", "was", text)
		}
	}
	o.logged = now
	o.in.metrics.faulty.Set(float64(len(faults)))
}

// publish makes a layout of the topics that were found, if it differs. Topics that are unclear stay as they are.
func (o *topicWatcher) publish(found kafka.Layout) {
	before := o.in.layout.Load()
	for _, topic := range found.Unclear {
		if partitions, known := before.topics[topic]; known {
			found.Partitions[topic] = partitions
		}
	}
	if before.is(found.Partitions) {
		return
	}
	var back []string
	for _, topic := range found.Names() {
		if _, was := o.missing[topic]; was {
			back = append(back, topic)
		}
		delete(o.missing, topic)
		switch now, was := len(found.Partitions[topic]), len(before.topics[topic]); {
		case was == 0:
			o.in.log.Info("reading topic", "topic", topic, "partitions", now, "tenant", found.Tenants[topic])
		case was != now:
			o.in.log.Info("topic has grown", "topic", topic, "partitions", now, "before", was)
		}
	}
	for _, topic := range before.names() {
		if found.Partitions[topic] == nil {
			o.missing[topic] = o.in.cfg.Now()
			o.in.log.Error("topic is missing: if it was deleted, its unread records are lost",
				"topic", topic)
		}
	}
	o.in.markOrphaned(back)
	o.in.layout.Store(&layout{found.Partitions, make(chan struct{})})
	close(before.changed)
}

func (o *topicWatcher) watch(ctx context.Context) {
	for retry.Pause(ctx, o.in.cfg.WatchEvery) == nil {
		if err := o.check(ctx); err != nil && ctx.Err() == nil {
			o.in.metrics.retries.WithLabelValues("metadata").Inc()
		}
	}
}

var errNoTopics = errors.New("there is no topic to read")

// await checks once, and fails if there is no topic to read.
func (o *topicWatcher) await(ctx context.Context) error {
	if err := o.check(ctx); err != nil {
		return err
	}
	if len(o.in.layout.Load().topics) > 0 {
		return nil
	}
	faults := []error{errNoTopics}
	for _, text := range slices.Sorted(maps.Keys(o.logged)) {
		faults = append(faults, errors.New(text))
	}
	return errors.Join(faults...)
}

// whileLayout returns a context that ends when same returns false for a later layout, and a function that releases it.
func (in *Ingester) whileLayout(ctx context.Context, l *layout, same func(*layout) bool) (context.Context, func()) {
	ctx, end := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for same(l) {
			select {
			case <-ctx.Done():
				return
			case <-l.changed:
				l = in.layout.Load()
			}
		}
		end()
	})
	return ctx, func() {
		end()
		watching.Wait()
	}
}

// retire makes the partitions of deleted topics write their bins: their log can't be read again. They stay in heads
// until the bins are written. A topic that is missing for a moment only is not deleted.
func (o *topicWatcher) retire() {
	in := o.in
	in.mu.Lock()
	defer in.mu.Unlock()
	for at, p := range in.partitions {
		since, missing := o.missing[at.topic]
		if !missing || in.cfg.Now().Sub(since) < in.cfg.GoneAfter || slices.Contains(in.assigned, at) {
			continue
		}
		in.metrics.retired.Inc()
		in.retire(p, "the topic is deleted")
	}
}

const journalCheckEvery = time.Minute

// journalWatch checks the journals' topics, and logs each fault once. It stops nothing: without a journal the source is
// read again (rule J5). The journal of a topic that was just found may still have to be made, so a journal that was
// never as it must be counts as faulty from the third check on.
type journalWatch struct {
	in *Ingester
	// checks counts, by topic, the checks of journals that were never as they must be; others have enoughChecks.
	checks map[string]int
	logged map[string]string // the fault that was logged for a topic
}

const enoughChecks = 2

func (in *Ingester) watchJournals(ctx context.Context) {
	w := journalWatch{in, map[string]int{}, map[string]string{}}
	for {
		for _, topic := range in.layout.Load().names() {
			w.check(ctx, topic)
		}
		if retry.Pause(ctx, journalCheckEvery) != nil {
			return
		}
	}
}

func (w *journalWatch) check(ctx context.Context, topic string) {
	const day = 24 * time.Hour // a reading waits for its day's end, and the hold
	cluster := w.in.cfg.Kafka
	j := kafka.Journal{Source: cluster.Topic(topic), Topic: cluster.Topic(kafka.JournalOf(topic)),
		Keep: day + w.in.cfg.Config.WithDefaults().Hold}
	err := j.Check(ctx)
	switch {
	case ctx.Err() != nil:
	case err == nil:
		w.checks[topic] = enoughChecks
		if w.logged[topic] != "" {
			w.in.log.Info("journal topic is set up as required again", "topic", topic)
		}
		delete(w.logged, topic)
	case !errors.Is(err, kafka.ErrJournal): // the cluster does not answer, which others say
	case w.checks[topic] < enoughChecks:
		w.checks[topic]++
		w.in.log.Info("journal topic is missing or not set up as required; checking again", "topic", topic, "error", err)
	default:
		w.in.metrics.broken.WithLabelValues("topic").Inc()
		if w.logged[topic] != err.Error() {
			w.logged[topic] = err.Error()
			w.in.log.Error("journal topic is missing or not set up as required: a restart will read the source again",
				"topic", topic, "error", err)
		}
	}
}

// markOrphaned records that topics are there that were missing: their logs may be other ones.
func (in *Ingester) markOrphaned(topics []string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for at, p := range in.partitions {
		p.orphaned = p.orphaned || slices.Contains(topics, at.topic)
	}
}
