package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// listen takes a TCP address; port 0 takes a free one. The error names the address.
func listen(what, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s can't listen on %s: %w", what, addr, cause(err))
	}
	return l, nil
}

// reachable is an address of this machine at which a listener is reached: the unspecified one is none to connect to.
func reachable(l net.Listener) string {
	if at, ok := l.Addr().(*net.TCPAddr); ok && at.IP.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(at.Port))
	}
	return l.Addr().String()
}

// cause is the innermost reason of a network error, without the address that the caller names anyway.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// httpGrace bounds how long open requests may take at shutdown.
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
