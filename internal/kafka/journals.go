package kafka

import (
	"context"
	"errors"
	"time"
)

// Journals are the journals of all topics of a set.
type Journals struct {
	Sources *Sources
	Keep    time.Duration
}

// All returns the journals of the topics that exist, by the topics' names. The error lists the topics that do not.
func (j Journals) All(ctx context.Context) (all []Journal, err error) {
	l, err := j.Sources.Layout(ctx)
	if err != nil {
		return nil, err
	}
	client := j.Sources.client
	for _, name := range l.Names() {
		all = append(all, Journal{Source: client.Topic(name), Topic: client.Topic(JournalOf(name)), Keep: j.Keep})
	}
	return all, errors.Join(l.Faults...)
}

// Ensure calls Journal.Ensure for each of them, whether others fail or not.
func (j Journals) Ensure(ctx context.Context) (done []string, err error) {
	all, err := j.All(ctx)
	faults := []error{err}
	for _, one := range all {
		own, err := one.Ensure(ctx)
		done, faults = append(done, own...), append(faults, err)
	}
	return done, errors.Join(faults...)
}
