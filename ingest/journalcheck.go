package ingest

import (
	"context"
	"errors"
	"time"

	"binnacle/internal/kafka"
)

// journalCheckEvery is how often the journals' topics are looked at.
const journalCheckEvery = time.Minute

// journalWatch looks at the journals' topics, and says what is wrong with one, once until that is something else. It
// stops nobody: without a journal the source is read again (rule J5).
//
// The journal of a topic that was found a moment ago may still have to be made: that it never was as it must be counts
// from the third look on.
type journalWatch struct {
	in     *Ingester
	checks map[string]int    // at the journals of topics that were never as they must be; enoughChecks of those that were
	logged map[string]string // what is wrong with it
}

const enoughChecks = 2

// watchJournals looks at them until the context ends.
func (in *Ingester) watchJournals(ctx context.Context) {
	w := journalWatch{in, map[string]int{}, map[string]string{}}
	ticker := time.NewTicker(journalCheckEvery)
	defer ticker.Stop()
	for {
		for _, topic := range in.layout.Load().names() {
			w.check(ctx, topic)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
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
		delete(w.logged, topic)
	case !errors.Is(err, kafka.ErrJournal): // the cluster does not answer, which others say
	case w.checks[topic] < enoughChecks:
		w.checks[topic]++
		w.in.log.Info("the journal is not there yet, or not as it must be", "topic", topic, "error", err)
	default:
		w.in.metrics.broken.WithLabelValues("topic").Inc()
		if w.logged[topic] != err.Error() {
			w.logged[topic] = err.Error()
			w.in.log.Error("a restart will read the source again", "topic", topic, "error", err)
		}
	}
}
