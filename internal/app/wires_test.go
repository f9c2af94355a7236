package app_test

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// wires is a network in memory, on which a bubble's clock does not wait for a system.
type wires struct {
	mu   sync.Mutex // guards below
	ends map[string]*wireEnd
}

type wireEnd struct {
	at     net.Addr
	come   chan net.Conn
	closed chan struct{}
	close  func()
}

func (w *wires) listen(_, address string) (net.Listener, error) {
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	e := &wireEnd{at: at, come: make(chan net.Conn), closed: make(chan struct{})}
	e.close = sync.OnceFunc(func() { close(e.closed) })
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ends == nil {
		w.ends = make(map[string]*wireEnd)
	}
	w.ends[address] = e
	return e, nil
}

func (w *wires) dial(ctx context.Context, _, address string) (net.Conn, error) {
	w.mu.Lock()
	e := w.ends[address]
	w.mu.Unlock()
	if e == nil {
		return nil, fmt.Errorf("nobody listens at %s", address)
	}
	here, there := net.Pipe()
	select {
	case e.come <- there:
		return here, nil
	case <-e.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (e *wireEnd) Accept() (net.Conn, error) {
	select {
	case c := <-e.come:
		return c, nil
	case <-e.closed:
		return nil, net.ErrClosed
	}
}

func (e *wireEnd) Close() error   { e.close(); return nil }
func (e *wireEnd) Addr() net.Addr { return e.at }
