// Package app builds the roles from their configuration and runs them: it is the one place that knows which
// implementation stands behind which contract. It has no rules of its own.
//
// A role is a file here: the struct of its settings, and methods of process that open what it needs and add its stages.
// A subcommand is one role or several of them: Dev is all, with the embedded servers.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"binnacle/internal/retry"
	"binnacle/internal/topics"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/time/rate"
)

// The topics that roles have by default.
const (
	Topic       = topics.Default
	DeadLetters = "telemetry.dlq"
)

// Env is what a subcommand has besides its settings.
type Env struct {
	Stdout io.Writer
	Logger *slog.Logger
	// Fatal ends the process at once, for a reason: what was acknowledged cannot be kept any longer. Nil: it panics.
	Fatal func(error)
}

// process is a subcommand that runs until it is stopped: the stages of its roles, and what they have opened.
type process struct {
	Env
	metrics *prometheus.Registry
	// operators handles what the admin listener serves to operators only; roles add to it.
	operators *http.ServeMux
	life      *lifecycle
	added     []stage
	opened    []func() // gives back what was opened

	mu    sync.Mutex     // guards below
	waits []func() error // each says why the process is not ready yet
}

// run builds a process and runs it until the context ends, and returns nil then, or until a stage fails. build opens
// what may be refused first, directories and addresses, so that whatever is wrong with them is found before anything
// runs.
func run(ctx context.Context, env Env, build func(ctx context.Context, p *process) error) error {
	p := newProcess(env)
	defer p.close()
	defer p.life.stop()
	err := build(ctx, p)
	if ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err())) {
		return nil // it was stopped while it started
	}
	if err != nil {
		return err
	}
	p.start()
	return p.life.wait(ctx)
}

func newProcess(env Env) *process {
	p := &process{Env: env, metrics: prometheus.NewRegistry(), operators: http.NewServeMux(),
		life: newLifecycle(env.Logger)}
	p.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return p
}

// part is a logger for one part of the process.
func (p *process) part(name string) *slog.Logger { return p.Logger.With("part", name) }

// add notes a stage; start begins it.
func (p *process) add(name string, run func(context.Context) error) {
	p.added = append(p.added, stage{name, run})
}

// start begins the stages that were added, in that order. It is called again when there are more.
func (p *process) start() {
	for _, s := range p.added {
		p.life.start(s)
	}
	p.added = nil
}

// onClose notes how to give back what was opened. Everything is given back when all stages have ended, the last first.
func (p *process) onClose(what string, close func() error) {
	p.opened = append(p.opened, func() {
		if err := close(); err != nil {
			p.Logger.Error("not closed cleanly", "what", what, "err", err)
		}
	})
}

func (p *process) close() {
	for i := len(p.opened) - 1; i >= 0; i-- {
		p.opened[i]()
	}
}

// readyWhen adds something that must be so for the process to be ready: why says what is missing, nil when it is.
func (p *process) readyWhen(why func() error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits = append(p.waits, why)
}

// Ready says why the process is not ready yet, nil when it is.
func (p *process) Ready() error {
	p.mu.Lock()
	waits := slices.Clone(p.waits)
	p.mu.Unlock()
	for _, why := range waits {
		if err := why(); err != nil {
			return err
		}
	}
	return nil
}

// patience is how long pauses are between attempts to reach a server that roles stand on.
var patience = retry.Policy{First: 100 * time.Millisecond, Max: 10 * time.Second}

// patiently does something that needs a server until it works or the context ends. The process is not ready before.
// What is wrong is said once, again when it is something else, and every minute.
func (p *process) patiently(ctx context.Context, what string, attempt func() error) error {
	var failed atomic.Pointer[error]
	p.readyWhen(func() error {
		if err := failed.Load(); err != nil {
			return *err
		}
		return nil
	})
	starting := fmt.Errorf("waiting for %s", what)
	failed.Store(&starting)
	pauses, reminder, said := patience.Begin(), rate.Sometimes{Interval: time.Minute}, ""
	for {
		err := attempt()
		if err == nil {
			failed.Store(nil)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		say := func() { p.Logger.Warn("waiting for "+what, "err", err) }
		if text := err.Error(); text != said {
			said, reminder = text, rate.Sometimes{Interval: time.Minute}
			reminder.Do(say)
		} else {
			reminder.Do(say)
		}
		err = fmt.Errorf("waiting for %s: %w", what, err)
		failed.Store(&err)
		if err := pauses.Wait(ctx); err != nil {
			return err
		}
	}
}
