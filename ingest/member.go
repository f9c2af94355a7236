package ingest

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"binnacle/internal/retry"

	kafkago "github.com/segmentio/kafka-go"
	"golang.org/x/time/rate"
)

// runMember reads what the consumer group assigns, until the context ends and every partition is handed over.
func (in *Ingester) runMember(ctx context.Context, line *groupConns) error {
	m := &member{in: in, conns: line, shares: &stickyBalancer{reads: in.set.String()}, refusals: joinFailures{log: in.log}}
	for ctx.Err() == nil {
		l := in.layout.Load()
		if len(l.topics) == 0 {
			in.setAssigned(nil)
			select {
			case <-l.changed:
			case <-ctx.Done():
			}
			continue
		}
		if err := m.subscribe(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// member is this process in the consumer group.
type member struct {
	in       *Ingester
	conns    *groupConns
	shares   *stickyBalancer
	refusals joinFailures
}

// subscribe joins the group for the topics of a layout, until there are others or the context ends.
func (m *member) subscribe(ctx context.Context, l *layout) error {
	in, names := m.in, l.names()
	ctx, stop := in.whileLayout(ctx, l, func(l *layout) bool { return slices.Equal(l.names(), names) })
	defer stop()
	group, err := kafkago.NewConsumerGroup(kafkago.ConsumerGroupConfig{
		ID: in.cfg.Group, Brokers: in.cfg.Kafka.Brokers(), Topics: names,
		Dialer:            m.conns.dialer(in.cfg.Kafka.Dialer()),
		HeartbeatInterval: time.Second, SessionTimeout: in.cfg.Session, RebalanceTimeout: in.cfg.Session,
		JoinGroupBackoff: generationBackoff, Timeout: max(30*time.Second, in.cfg.Kafka.RequestTimeout()),
		StartOffset: kafkago.FirstOffset,
		// What a member that does not know the first one has in common with the others is the second.
		GroupBalancers: []kafkago.GroupBalancer{m.shares, kafkago.RangeGroupBalancer{}, kafkago.RoundRobinGroupBalancer{}},
	})
	if err != nil {
		return err
	}
	defer func() { _ = group.Close() }()
	defer context.AfterFunc(ctx, func() { _ = group.Close() })() // a member that leaves is not waited for
	for ctx.Err() == nil {
		m.shares.setTopics(in.layout.Load().topics)
		generation, err := group.Next(ctx)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			in.metrics.retries.WithLabelValues("join").Inc()
			m.refusals.warn("not in the consumer group yet", err)
			continue // the group backs off on its own
		}
		m.refusals.clear()
		began := in.cfg.Now()
		over := make(chan struct{})
		generation.Start(func(ends context.Context) {
			defer close(over)
			reading, stop := context.WithCancel(ctx) // ends carries no values of the process
			defer stop()
			defer context.AfterFunc(ends, stop)()
			m.runGeneration(reading, generation)
			if ctx.Err() != nil { // a member that finds its generation over before the group is closed joins once more
				_, _ = group.Next(context.Background())
			}
		})
		<-over
		if in.cfg.Now().Sub(began) < generationBackoff {
			_ = retry.Pause(ctx, generationBackoff) // such as while there is no topic
		}
	}
	return nil
}

// runGeneration runs a generation until a topic has other partitions, which must be assigned too, or had them before it
// began.
func (m *member) runGeneration(ctx context.Context, g *kafkago.Generation) {
	l := m.in.layout.Load()
	ctx, stop := m.in.whileLayout(ctx, l, func(n *layout) bool { return n.is(l.topics) && !m.shares.missed(n.topics) })
	defer stop()
	defer func() { m.shares.setTopics(m.in.layout.Load().topics) }() // the next joining follows at once
	t := &generation{cluster: m.in.cfg.Kafka, group: m.in.cfg.Group, id: g.ID, member: g.MemberID, conns: m.conns}
	for topic, partitions := range g.Assignments {
		for _, p := range partitions {
			t.partitions = append(t.partitions, topicPartition{topic, p.ID})
		}
	}
	slices.SortFunc(t.partitions, compareTopicPartitions)
	m.shares.setOwn(t.id, t.partitions)
	m.in.runGeneration(ctx, t)
}

// joinFailures logs why the group does not accept the process: once, again when the reason changes, and every minute.
type joinFailures struct {
	log      *slog.Logger
	why      kafkago.Error // 0 is no answer, whatever the reason
	reminder rate.Sometimes
	any      bool
}

func (r *joinFailures) warn(what string, err error) {
	var why kafkago.Error
	_ = errors.As(err, &why)
	if !r.any || why != r.why {
		r.any, r.why, r.reminder = true, why, rate.Sometimes{Interval: time.Minute}
	}
	r.reminder.Do(func() { r.log.Warn(what, "error", err) })
}

// clear records that the group has accepted the process.
func (r *joinFailures) clear() {
	if r.any {
		r.log.Info("joined the consumer group")
	}
	r.any = false
}
