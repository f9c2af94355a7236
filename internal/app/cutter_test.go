package app_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"
)

// cutter makes connections to a broker that break at some requests: those with a key of the protocol, so many of them.
type cutter struct {
	key     int16
	applied bool // the broker has answered, and the answer is lost

	mu    sync.Mutex
	count int // how many more; mu guards it and met
	met   int
}

var errCut = errors.New("the connection was cut on purpose")

func (c *cutter) hits() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.met
}

// hit reports whether a request is one to fail, and counts it.
func (c *cutter) hit(key int16) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if key != c.key || c.count == 0 {
		return false
	}
	c.count--
	c.met++
	return true
}

func (c *cutter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &cutConn{Conn: conn, cutter: c}, nil
}

// cutConn follows the requests of one connection, each of which is its length in four bytes, its key in two, and so
// on.
type cutConn struct {
	net.Conn
	cutter *cutter

	mu   sync.Mutex
	head []byte // of the request that is being written, up to its key; mu guards it, left and cut
	left int    // bytes of the request after that
	cut  bool   // the next answer is lost
}

func (c *cutConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	cut := false
	for rest := b; len(rest) > 0; {
		if c.left > 0 {
			n := min(c.left, len(rest))
			c.left, rest = c.left-n, rest[n:]
			continue
		}
		n := min(6-len(c.head), len(rest))
		c.head, rest = append(c.head, rest[:n]...), rest[n:]
		if len(c.head) == 6 {
			c.left = int(binary.BigEndian.Uint32(c.head)) - 2
			cut = c.cutter.hit(int16(binary.BigEndian.Uint16(c.head[4:]))) || cut
			c.head = c.head[:0]
		}
	}
	c.cut = c.cut || cut && c.cutter.applied
	c.mu.Unlock()
	if cut && !c.cutter.applied {
		c.Conn.Close()
		return 0, errCut
	}
	return c.Conn.Write(b)
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		c.Conn.Close()
		return 0, errCut
	}
	return n, err
}
