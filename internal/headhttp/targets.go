package headhttp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"binnacle/internal/settings"
)

// Resolver looks names up. *net.Resolver is one.
type Resolver interface {
	LookupHost(ctx context.Context, host string) ([]string, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// TargetsConfig is how ingesters are found.
type TargetsConfig struct {
	// Names are host:port, where every address of the host is one process (a headless service), or
	// srv+_service._proto.name, where every record is one. A literal address is one target.
	Names  []string
	Scheme string        // http or https
	Every  time.Duration `default:"5s"` // how often names are looked up
	Now    func() time.Time
	Resolver
}

// NewTargets returns Targets that look names up now and then, and keep what was found last when that fails. It fails
// when a name has neither form.
func NewTargets(cfg TargetsConfig) (Targets, error) {
	settings.Defaults(&cfg)
	if cfg.Resolver == nil {
		cfg.Resolver = net.DefaultResolver
	}
	if cfg.Scheme != "http" && cfg.Scheme != "https" {
		return nil, fmt.Errorf("heads: the scheme is %q, not http or https", cfg.Scheme)
	}
	var faults settings.Faults
	f := &targetFinder{cfg: cfg}
	for _, name := range cfg.Names {
		l, err := parseName(name)
		faults.Add(err)
		f.names = append(f.names, l)
	}
	faults.Check(len(cfg.Names) > 0, "heads: no ingester is named")
	return f.targets, faults.Err()
}

// targetName is a name to be looked up.
type targetName struct {
	srv        string // name of an SRV record; else
	host, port string
}

const srvPrefix = "srv+"

func parseName(name string) (targetName, error) {
	if srv, ok := strings.CutPrefix(name, srvPrefix); ok {
		if srv == "" {
			return targetName{}, fmt.Errorf("heads: %q names no SRV record", name)
		}
		return targetName{srv: srv}, nil
	}
	host, port, err := net.SplitHostPort(name)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || host == "" || bad != nil || n == 0 {
		return targetName{}, fmt.Errorf("heads: %q is neither host:port nor %s_service._proto.name", name, srvPrefix)
	}
	return targetName{host: host, port: port}, nil
}

// targetFinder looks up processes and keeps what it found.
type targetFinder struct {
	cfg   TargetsConfig
	names []targetName

	mu sync.Mutex // guards below
	// at is when the last successful look-up ended.
	at    time.Time
	found []string
}

// targets implements Targets. A name that can't be looked up is an error, with the addresses that were found before.
func (f *targetFinder) targets(ctx context.Context) ([]string, error) {
	now := f.cfg.Now()
	f.mu.Lock()
	before, fresh := f.found, !f.at.IsZero() && now.Sub(f.at) < f.cfg.Every
	f.mu.Unlock()
	if fresh {
		return before, nil
	}
	var found []string
	var errs []error
	for _, l := range f.names {
		addresses, err := f.resolve(ctx, l)
		errs = append(errs, err)
		for _, a := range addresses {
			found = append(found, (&url.URL{Scheme: f.cfg.Scheme, Host: a}).String())
		}
	}
	err := errors.Join(errs...)
	if err != nil {
		found = append(found, before...)
	}
	slices.Sort(found)
	found = slices.Compact(found)
	if err == nil {
		f.mu.Lock()
		f.at, f.found = now, found
		f.mu.Unlock()
	}
	return found, err
}

// resolve returns the addresses, host:port, of a name.
func (f *targetFinder) resolve(ctx context.Context, l targetName) (out []string, err error) {
	if l.srv == "" {
		hosts, err := f.cfg.LookupHost(ctx, l.host)
		for _, h := range hosts {
			out = append(out, net.JoinHostPort(h, l.port))
		}
		return out, err
	}
	_, records, err := f.cfg.LookupSRV(ctx, "", "", l.srv)
	for _, r := range records {
		out = append(out, net.JoinHostPort(strings.TrimSuffix(r.Target, "."), strconv.Itoa(int(r.Port))))
	}
	return out, err
}
