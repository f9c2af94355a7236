package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

// listener is an open address and the stage that serves there.
type listener struct {
	p    *process
	name string
	l    net.Listener
}

// listen takes the TCP address that a flag sets; port 0 takes a free one.
func (p *process) listen(name, flag, addr string) (listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return listener{}, fmt.Errorf("listen on %s %s: %w", flag, addr, innermostCause(err))
	}
	p.onClose(name, func() error {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) { // serve closes it, if it came to that
			return err
		}
		return nil
	})
	return listener{p, name, l}, nil
}

// addr returns an address of this machine that reaches the listener: loopback for the unspecified address.
func (d listener) addr() string {
	if at, ok := d.l.Addr().(*net.TCPAddr); ok && at.IP.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(at.Port))
	}
	return d.l.Addr().String()
}

// encryptAs returns the listener with a TLS configuration, or as it is with nil.
func (d listener) encryptAs(cfg *tls.Config) listener {
	if cfg != nil {
		d.l = tls.NewListener(d.l, cfg)
	}
	return d
}

// loopback reports whether only this machine reaches the listener.
func (d listener) loopback() bool {
	at, ok := d.l.Addr().(*net.TCPAddr)
	return ok && at.IP.IsLoopback()
}

func (d listener) serve(h http.Handler) { d.p.add(d.name, serve(d.l, h)) }

// innermostCause returns the innermost reason of a network error: the caller names the attempt and the address.
func innermostCause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	var call *os.SyscallError
	if errors.As(err, &call) {
		err = call.Err
	}
	return err
}

// httpGrace bounds the time of open requests at shutdown.
const httpGrace = 2 * time.Second

// serve answers requests on l until the context ends; requests under way get a moment to finish.
func serve(l net.Listener, h http.Handler) func(context.Context) error {
	return func(ctx context.Context) error {
		s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
		failed := make(chan error, 1)
		go func() { failed <- s.Serve(l) }()
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
		}
		grace, cancel := context.WithTimeout(context.Background(), httpGrace)
		defer cancel()
		if err := s.Shutdown(grace); err != nil {
			s.Close()
		}
		<-failed
		return nil
	}
}
