package ingest

import (
	"context"
	"net"
	"sync"

	"github.com/segmentio/kafka-go"
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
func (l *groupConns) dialer(d *kafka.Dialer) *kafka.Dialer {
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
