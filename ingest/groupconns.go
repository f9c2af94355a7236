package ingest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"binnacle/internal/kafka"

	kafkago "github.com/segmentio/kafka-go"
)

// groupConns tracks the connections of the consumer group, because calls of the group take no context, and closes them
// all at once: calls that wait for an answer then fail. It is safe for any number of callers.
type groupConns struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu    sync.Mutex // guards below
	conns map[*groupConn]bool
}

func newGroupConns() *groupConns {
	l := &groupConns{conns: map[*groupConn]bool{}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// closeAll closes all connections, also connections opened later.
func (l *groupConns) closeAll() {
	l.cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		c.Conn.Close()
	}
	clear(l.conns)
}

// dialer returns a copy of d that tracks its connections.
func (l *groupConns) dialer(d *kafkago.Dialer) *kafkago.Dialer {
	out, dial := *d, d.DialFunc
	out.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(l.ctx, cancel)()
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return l.track(conn)
	}
	return &out
}

func (l *groupConns) track(conn net.Conn) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		conn.Close()
		return nil, net.ErrClosed
	}
	c := &groupConn{conn, l}
	l.conns[c] = true
	return c, nil
}

type groupConn struct {
	net.Conn
	conns *groupConns
}

// Close implements net.Conn.
func (c *groupConn) Close() error {
	c.conns.mu.Lock()
	delete(c.conns.conns, c)
	c.conns.mu.Unlock()
	return c.Conn.Close()
}

// generation is the partitions of a process from one assignment to the next, and the identity by which it commits
// them: a generation of the group, or none where partitions are assigned by ordinal.
type generation struct {
	cluster    *kafka.Client
	group      string
	id         int32
	member     string
	partitions []topicPartition
	conns      *groupConns // commits end with it
}

func (t *generation) commit(of topicPartition, offset int64, metadata string) error {
	err := t.cluster.Topic(of.topic).Commit(t.conns.ctx, kafka.Commit{
		Group: t.group, Generation: t.id, Member: t.member, Partition: of.partition, Offset: offset,
		Metadata: metadata,
	})
	if t.assigned() && errors.Is(err, kafkago.UnknownMemberId) {
		return fmt.Errorf("group %s has members, which commit alone: %w", t.group, err)
	}
	return err
}

// lost reports whether a commit's error means that another process has the partition. Without a group it never does:
// members left over go.
func (t *generation) lost(err error) bool {
	return !t.assigned() && (errors.Is(err, kafkago.IllegalGeneration) || errors.Is(err, kafkago.UnknownMemberId) ||
		errors.Is(err, kafkago.RebalanceInProgress) || errors.Is(err, kafkago.FencedInstanceID))
}

func (t *generation) assigned() bool { return t.id == kafka.NoGeneration }

// generationBackoff is the least time from the begin of a generation to the next.
const generationBackoff = 500 * time.Millisecond
