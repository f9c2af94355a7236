package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxFrameBytes is the longest request: Kafka's default for socket.request.max.bytes, which
	// every client stays below.
	maxFrameBytes = 100 << 20

	// minFrameBytes is the shortest request header: key, version, correlation id, length of client id.
	minFrameBytes = 10

	// gatherBytes is the frame length from which a frame is read here before kfake hears of it. kfake
	// allocates what a frame announces at once; here memory grows with what arrives.
	gatherBytes = 1 << 20

	// joinPatience bounds the wait for an answer to a member that is gone: it never comes where the member has
	// joined again over another connection.
	joinPatience = 10 * time.Minute

	// acceptRetry is the pause after an accept that did not work, for want of file descriptors say.
	acceptRetry = 50 * time.Millisecond
)

// versions are the lowest and the highest version of an API that the broker serves.
type versions struct{ low, high int16 }

// guard is the listener that kfake accepts connections from. kfake panics on unknown API keys and allocates whatever
// length a frame announces, so each connection checks the head of every frame before kfake reads it, and closes on a
// request that kfake does not serve.
type guard struct {
	net.Listener
	advertise string
	logger    *slog.Logger

	// first is the result of the first Accept, nil after it; owned by Accept.
	first  net.Conn
	served map[int16]versions
	ready  chan struct{} // closed once served is set
	closed chan struct{}

	mu      sync.Mutex
	closing bool
	conns   map[*guardedConn]struct{}
	open    sync.WaitGroup // one per connection in conns
}

// newGuard wraps a listener. Its first connection is first, which is trusted and not checked; all others wait for
// serve.
func newGuard(l net.Listener, advertise string, first net.Conn) *guard {
	return &guard{
		Listener:  l,
		advertise: advertise,
		first:     first,
		ready:     make(chan struct{}),
		closed:    make(chan struct{}),
		conns:     map[*guardedConn]struct{}{},
	}
}

// serve admits clients once the APIs of kfake are known.
func (g *guard) serve(served map[int16]versions) {
	g.served = served
	close(g.ready)
}

// Accept waits for a connection, and retries errors that may pass: the goroutine of kfake that calls it ends at the
// first error.
func (g *guard) Accept() (net.Conn, error) {
	if c := g.first; c != nil {
		g.first = nil
		return c, nil
	}
	select {
	case <-g.ready:
	case <-g.closed:
		return nil, net.ErrClosed
	}
	for {
		conn, err := g.Listener.Accept()
		if err == nil {
			if c := g.track(conn); c != nil {
				return c, nil
			}
			return nil, errors.Join(net.ErrClosed, conn.Close())
		}
		if errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		g.logger.Warn("a connection could not be accepted", "error", err)
		select {
		case <-time.After(acceptRetry):
		case <-g.closed:
			return nil, net.ErrClosed
		}
	}
}

// Close stops accepting; connections stay open. kfake calls it several times.
func (g *guard) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing {
		return nil
	}
	g.closing = true
	close(g.closed)
	return g.Listener.Close()
}

// drain closes the connections that are open after Close, and waits for them.
func (g *guard) drain() {
	g.mu.Lock()
	conns := slices.Collect(maps.Keys(g.conns))
	g.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
	g.open.Wait()
}

func (g *guard) track(conn net.Conn) *guardedConn {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing {
		return nil
	}
	c := &guardedConn{Conn: conn, guard: g, gone: make(chan struct{})}
	g.conns[c] = struct{}{}
	g.open.Add(1)
	return c
}

// Addr returns the address that kfake gives to clients.
func (g *guard) Addr() net.Addr { return advertised(g.advertise) }

type advertised string

func (advertised) Network() string  { return "tcp" }
func (a advertised) String() string { return string(a) }

// check returns the fault of a frame's head, or nil.
func (g *guard) check(length uint32, key, version int16) error {
	v, ok := g.served[key]
	switch {
	case !ok:
		return fmt.Errorf("API key %d is not served", key)
	case kmsg.Key(key) == kmsg.ApiVersions && version >= v.low:
		// Clients begin with the highest version they know. kfake answers one that is too high with
		// UNSUPPORTED_VERSION and what it serves, as Kafka does.
		return nil
	case version < v.low || version > v.high:
		return fmt.Errorf("version %d of %s is not served, %d to %d are", version, kmsg.NameForKey(key), v.low, v.high)
	}
	return nil
}

// guardedConn passes on whole frames after the guard has checked their head. Read is called by one goroutine.
type guardedConn struct {
	net.Conn
	guard  *guard
	closed sync.Once

	head [12]byte // length, key, version, correlation id
	// pending is the part of the frame that was read and not yet passed on.
	pending []byte
	// rest is the length of the frame's unread part.
	rest int

	gone chan struct{} // closed with the connection

	mu sync.Mutex
	// joining is closed once a member's joining is answered; nil without a joining member.
	joining chan struct{}
	id      uint32 // the correlation id of that request
}

func (c *guardedConn) Read(p []byte) (int, error) {
	if len(c.pending) == 0 && c.rest == 0 {
		if err := c.next(); err != nil {
			c.answered()
			return 0, err
		}
	}
	if len(c.pending) > 0 {
		n := copy(p, c.pending)
		c.pending = c.pending[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p[:min(len(p), c.rest)])
	c.rest -= n
	return n, err
}

// next reads the head of a frame. It checks the length at once: the rest of an invalid frame may never come.
func (c *guardedConn) next() error {
	n, err := io.ReadAtLeast(c.Conn, c.head[:], 4)
	if err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(c.head[:4])
	if length < minFrameBytes || length > maxFrameBytes {
		return c.refuse(fmt.Errorf("a frame of %d bytes, %d to %d are accepted", length, minFrameBytes, maxFrameBytes))
	}
	if _, err := io.ReadFull(c.Conn, c.head[n:]); err != nil {
		return err
	}
	key, version := int16(binary.BigEndian.Uint16(c.head[4:])), int16(binary.BigEndian.Uint16(c.head[6:]))
	if err := c.guard.check(length, key, version); err != nil {
		return c.refuse(err)
	}
	if k := kmsg.Key(key); k == kmsg.JoinGroup || k == kmsg.SyncGroup {
		c.mu.Lock()
		c.joining, c.id = make(chan struct{}), binary.BigEndian.Uint32(c.head[8:])
		c.mu.Unlock()
	}
	c.pending, c.rest = c.head[:], int(length)-(len(c.head)-4)
	if length < gatherBytes {
		return nil
	}
	whole := bytes.NewBuffer(append(make([]byte, 0, gatherBytes), c.head[:]...))
	if _, err := io.CopyN(whole, c.Conn, int64(c.rest)); err != nil {
		return err
	}
	c.pending, c.rest = whole.Bytes(), 0
	return nil
}

// answered returns once no answer is pending that makes a consumer a member of its group. kfake starts the
// session timer of a member with that answer, but not over a connection that it knows to be gone: the member
// would stay, and no consumer would read its partitions. So kfake learns of a connection's end only afterwards.
func (c *guardedConn) answered() {
	c.mu.Lock()
	joining := c.joining
	c.mu.Unlock()
	if joining == nil {
		return
	}
	patience := time.NewTimer(joinPatience)
	defer patience.Stop()
	select {
	case <-joining:
	case <-c.gone:
	case <-patience.C:
	}
}

// Write passes one answer on. One goroutine calls it.
func (c *guardedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.joining != nil && len(p) >= 8 && binary.BigEndian.Uint32(p[4:]) == c.id {
		close(c.joining)
		c.joining = nil
	}
	return n, err
}

func (c *guardedConn) refuse(reason error) error {
	c.guard.logger.Warn("a Kafka client was refused", "client", c.RemoteAddr().String(), "error", reason)
	return reason
}

// Close closes the connection. Both goroutines that kfake has per connection call it.
func (c *guardedConn) Close() error {
	err := c.Conn.Close()
	c.closed.Do(func() {
		close(c.gone)
		c.guard.mu.Lock()
		delete(c.guard.conns, c)
		c.guard.mu.Unlock()
		c.guard.open.Done()
	})
	return err
}
