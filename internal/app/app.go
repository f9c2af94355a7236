// Package app builds the roles from their configuration and runs them: it is the one place that knows which
// implementation serves which contract. It has no rules of its own.
//
// A role is a file here: the struct of its settings, and methods of process that open what it needs and add its
// stages. A subcommand is one role or several of them: Dev is all, with the embedded servers.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"binnacle/internal/charges"
	"binnacle/internal/heat/heatlog"
	"binnacle/internal/ops"
	"binnacle/internal/retry"
	"binnacle/query/console"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// process is a subcommand that runs until it is stopped: the stages of its roles, and what they have opened.
type process struct {
	ops.Env
	metrics *prometheus.Registry
	// adminMux handles what the admin listener serves to operators only; roles add to it.
	adminMux *http.ServeMux
	page     *console.Handler // nil until a role serves the page of operators
	life     *lifecycle
	heat     *heatlog.Collector // counts requests of the process's client
	charges  *charges.Counter   // counts charges of the same client
	dataDir  string             // the process's; empty: none
	began    time.Time          // time of the first stage
	added    []stage
	opened   []func() // gives back what was opened

	mu       sync.Mutex     // guards below
	notReady []func() error // each says why the process is not ready yet
}

// run builds a process and runs it until the context ends, and returns nil then, or until a stage fails. build opens
// directories and addresses first, so that their faults show before anything runs.
func run(ctx context.Context, env ops.Env, build func(ctx context.Context, p *process) error) error {
	p := newProcess(env)
	defer p.close()
	defer p.life.stop()
	err := build(ctx, p)
	if ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err())) {
		err = nil // it was stopped while it started
	} else if err == nil {
		p.start()
		err = p.life.wait(ctx)
	}
	if !p.began.IsZero() {
		p.life.stop()
		p.Logger.Info("binnacle stopped", "command", p.Command, "reason", cmp.Or(err, context.Cause(ctx)),
			"uptime", time.Since(p.began).Round(time.Millisecond))
	}
	return err
}

func newProcess(env ops.Env) *process {
	p := &process{Env: env, metrics: prometheus.NewRegistry(), adminMux: http.NewServeMux(),
		life: newLifecycle(env.Logger)}
	p.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return p
}

func (p *process) partLogger(name string) *slog.Logger { return p.Logger.With("part", name) }

// add adds a stage; start begins it.
func (p *process) add(name string, run func(context.Context) error) {
	p.added = append(p.added, stage{name, run})
}

// start begins the stages that were added, in that order. It may be called again after further ones.
func (p *process) start() {
	if p.began.IsZero() {
		p.began = time.Now()
		v := ops.ThisVersion()
		p.Logger.Info("binnacle starts", "command", p.Command, "version", v.Release, "revision", v.Revision, "go", v.Go)
	}
	for _, s := range p.added {
		p.life.start(s)
	}
	p.added = nil
}

// onClose adds a function that closes what was opened. They run after all stages have ended, the last first.
func (p *process) onClose(what string, close func() error) {
	p.opened = append(p.opened, func() {
		if err := close(); err != nil {
			p.Logger.Error("cannot close cleanly", "what", what, "error", err)
		}
	})
}

func (p *process) close() {
	for i := len(p.opened) - 1; i >= 0; i-- {
		p.opened[i]()
	}
}

// readyWhen adds a condition of readiness: why returns what is missing, or nil.
func (p *process) readyWhen(why func() error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notReady = append(p.notReady, why)
}

func (p *process) Ready() error {
	p.mu.Lock()
	waits := slices.Clone(p.notReady)
	p.mu.Unlock()
	for _, why := range waits {
		if err := why(); err != nil {
			return err
		}
	}
	return nil
}

// startRetries are the pauses between attempts to reach a server at the start.
var startRetries = retry.Policy{First: 100 * time.Millisecond, Max: 10 * time.Second}

// untilDone calls attempt, which needs a server, until it succeeds or ctx ends. The process is not ready before.
func (p *process) untilDone(ctx context.Context, what string, attempt func() error) error {
	var failed atomic.Pointer[error]
	p.readyWhen(func() error {
		if err := failed.Load(); err != nil {
			return *err
		}
		return nil
	})
	starting := fmt.Errorf("waiting for %s", what)
	failed.Store(&starting)
	pauses := startRetries.Begin()
	trouble := retry.Trouble{Log: p.Logger, Failing: "waiting for " + what, Over: what + " answers"}
	for {
		err := attempt()
		if ctx.Err() != nil && err != nil {
			return ctx.Err()
		}
		trouble.Report(err)
		if err == nil {
			failed.Store(nil)
			return nil
		}
		err = fmt.Errorf("waiting for %s: %w", what, err)
		failed.Store(&err)
		if err := pauses.Wait(ctx); err != nil {
			return err
		}
	}
}
