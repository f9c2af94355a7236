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

	"binnacle/ingest"
	"binnacle/internal/headhttp"
	"binnacle/internal/ops"
	"binnacle/internal/store"
)

// HeadsListener sets where an ingester serves its open bins to queriers.
type HeadsListener struct {
	Listen string `name:"heads-listen" help:"Address at which queriers read open bins. Only queriers should reach it." default:"127.0.0.1:7072"`

	HeadsTrust `kong:"embed"`
}

// HeadsConfig sets how a querier finds the ingesters.
type HeadsConfig struct {
	Names []string `name:"heads" help:"Ingesters: host:port, where each address of the host is an ingester, or srv+_service._proto.name for DNS SRV records." default:"127.0.0.1:7072"`

	HeadsTrust `kong:"embed"`
}

// HeadsTrust sets how queriers and ingesters authenticate each other.
type HeadsTrust struct {
	SecretFile string `name:"heads-secret-file" help:"File with the secret that queriers send to ingesters. It is read again when it changes. Default: none." placeholder:"FILE"`
	Cert       string `name:"heads-tls-cert" help:"File with the TLS certificate for both ends between queriers and ingesters, PEM. Default: no TLS." placeholder:"FILE"`
	Key        string `name:"heads-tls-key" help:"File with the key of that certificate, PEM." placeholder:"FILE"`
	CA         string `name:"heads-tls-ca" help:"File with the certificates that sign the other end's certificate, PEM." placeholder:"FILE"`
	Name       string `name:"heads-tls-name" help:"Name in the ingesters' certificate. Default: the host of the connection." placeholder:"NAME"`
}

func (f *faults) heads(t HeadsTrust) {
	set := t.Cert != "" || t.Key != "" || t.CA != ""
	f.Check(!set || t.Cert != "" && t.Key != "" && t.CA != "",
		"--heads-tls-cert, --heads-tls-key and --heads-tls-ca are given together, or none")
	f.Check(t.Name == "" || set, "--heads-tls-name needs --heads-tls-cert")
}

func (t HeadsTrust) encrypted() bool { return t.Cert != "" }

// secret returns a function for the present secret, which must exist at the start; nil without one.
func (t HeadsTrust) secret() (func() string, error) {
	if t.SecretFile == "" {
		return nil, nil
	}
	f, err := ops.WatchSecret(t.SecretFile)
	if err != nil {
		return nil, err
	}
	return f.Get, nil
}

// tls returns the TLS configuration of both ends: each presents a certificate that the CA has signed.
func (t HeadsTrust) tls() (*tls.Config, error) {
	if !t.encrypted() {
		return nil, nil
	}
	pair, err := ops.WatchKeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, err
	}
	pool, err := ops.Certificates(t.CA)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: t.Name,
		RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Get(), nil },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair.Get(), nil },
	}, nil
}

// openHeads opens the listener of heads. It refuses one that other machines reach without a secret.
func (p *process) openHeads(cfg HeadsListener) (listener, error) {
	d, err := p.listen("heads", "--heads-listen", cfg.Listen)
	if err != nil {
		return listener{}, err
	}
	if !d.loopback() && cfg.SecretFile == "" && !cfg.encrypted() {
		return listener{}, errors.New("--heads-listen " + cfg.Listen +
			" can be reached from other machines: it needs --heads-secret-file or --heads-tls-cert, " +
			"because it serves the readings of all tenants")
	}
	encryption, err := cfg.tls()
	if err != nil {
		return listener{}, err
	}
	return d.encryptAs(encryption), nil
}

func (p *process) serveHeads(cfg HeadsListener, in *ingest.Ingester, at listener) error {
	secret, err := cfg.secret()
	if err != nil {
		return err
	}
	at.serve(headhttp.Handler(headhttp.HandlerConfig{Heads: in, Bins: ops.ServeBins(in), Secret: secret,
		Logger: p.partLogger("heads")}))
	return nil
}

func (p *process) findHeads(cfg HeadsConfig) (store.Heads, error) {
	scheme := "http"
	if cfg.encrypted() {
		scheme = "https"
	}
	targets, err := headhttp.NewTargets(headhttp.TargetsConfig{Names: cfg.Names, Scheme: scheme})
	if err != nil {
		return nil, err
	}
	secret, err := cfg.secret()
	if err != nil {
		return nil, err
	}
	encryption, err := cfg.tls()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		TLSClientConfig: encryption, ForceAttemptHTTP2: false, // HTTP/1: an answer's own connection can be broken off
		MaxIdleConnsPerHost: 16, IdleConnTimeout: 90 * time.Second,
	}
	p.onClose("the connections to heads", func() error { transport.CloseIdleConnections(); return nil })
	return headhttp.NewClient(headhttp.ClientConfig{Targets: targets, HTTP: &http.Client{Transport: transport},
		Secret: secret}), nil
}

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
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
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
