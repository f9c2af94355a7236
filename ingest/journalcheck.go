package ingest

import (
	"context"
	"errors"
	"time"

	"binnacle/internal/kafka"
	"binnacle/internal/retry"
)

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
