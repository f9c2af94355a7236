package ingest

import (
	"context"
	"net"
	"sync"

	"github.com/segmentio/kafka-go"
)

// lifeline makes the connections of the consumer group, whose calls take no context, and cuts them all at once: whoever
// waits for an answer then gets an error. It is safe for any number of callers.
type lifeline struct {
	over context.Context
	end  context.CancelFunc

	mu    sync.Mutex // guards below
	conns map[*lifelineConn]bool
}

func newLifeline() *lifeline {
	l := &lifeline{conns: map[*lifelineConn]bool{}}
	l.over, l.end = context.WithCancel(context.Background())
	return l
}

// cut ends all connections, and those that somebody tries to make from now on.
func (l *lifeline) cut() {
	l.end()
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		c.Conn.Close()
	}
	clear(l.conns)
}

// dialer is like d, which says how to dial, but its connections end with the lifeline.
func (l *lifeline) dialer(d *kafka.Dialer) *kafka.Dialer {
	out, dial := *d, d.DialFunc
	out.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(l.over, cancel)()
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return l.hold(conn)
	}
	return &out
}

func (l *lifeline) hold(conn net.Conn) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over.Err() != nil {
		conn.Close()
		return nil, net.ErrClosed
	}
	c := &lifelineConn{conn, l}
	l.conns[c] = true
	return c, nil
}

type lifelineConn struct {
	net.Conn
	line *lifeline
}

// Close is net.Conn.
func (c *lifelineConn) Close() error {
	c.line.mu.Lock()
	delete(c.line.conns, c)
	c.line.mu.Unlock()
	return c.Conn.Close()
}
