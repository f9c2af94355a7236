package kafka_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"binnacle/internal/kafka"

	"github.com/stretchr/testify/require"
)

// lateLayout dials connections of which the first loses all that is sent after the negotiation of versions: the first
// question of a client for the layout of the cluster gets no answer.
type lateLayout struct{ dialed atomic.Bool }

func (l *lateLayout) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil || l.dialed.Swap(true) {
		return conn, err
	}
	return &deafConn{Conn: conn}, nil
}

// deafConn is a connection that loses all writes after the first.
type deafConn struct {
	net.Conn
	written bool
}

func (c *deafConn) Write(p []byte) (int, error) {
	if c.written {
		return len(p), nil
	}
	c.written = true
	return c.Conn.Write(p)
}

// A cluster whose first answer is late fails no request: not those for the controller, for a leader or for a
// coordinator.
func TestRequestsWaitForTheLayout(t *testing.T) {
	b := embeddedBroker(t)
	for name, ask := range map[string]func(context.Context, *kafka.Client) error{
		"metadata": func(ctx context.Context, c *kafka.Client) error {
			_, _, err := c.Topic(topic).Describe(ctx)
			return err
		},
		"create a topic": func(ctx context.Context, c *kafka.Client) error { return c.Topic("other").Create(ctx, 1) },
		"produce": func(ctx context.Context, c *kafka.Client) error {
			_, err := c.Topic(topic).Append(ctx, 0, []kafka.Message{message("k", "v")})
			return err
		},
		"fetch": func(ctx context.Context, c *kafka.Client) error {
			got, err := c.Topic(topic).Fetch(ctx, 0, 0)
			got.Release()
			return err
		},
		"list offsets": func(ctx context.Context, c *kafka.Client) error {
			_, _, err := c.Topic(topic).Bounds(ctx, 0)
			return err
		},
		"commit": func(ctx context.Context, c *kafka.Client) error {
			return c.Topic(topic).Commit(ctx, kafka.Commit{Group: "late", Generation: kafka.NoGeneration, Offset: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, kafka.Config{Brokers: []string{b.Addr()}, Dial: (&lateLayout{}).dial})
			require.NoError(t, ask(t.Context(), c))
		})
	}
}
