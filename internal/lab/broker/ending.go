// Package broker is the embedded Kafka broker: franz-go's kfake with a data directory, behind a
// listener that keeps hostile bytes away from it. Any Kafka client may use it. It is for one machine:
// one broker, no replicas, no authentication.
//
// kfake is made for tests. docs/internals/adr/0003-embedded-broker.md has the reasons for using it, the hazards
// that this package removes, and the hazards that remain.
//
// The package knows nothing of telemetry: it holds records.
package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

// fatalOnce ends the process when the broker's directory cannot be written. kfake would go on: it acknowledges
// commits and topics that are not on disk, takes a refused batch that is sent again for a duplicate, and appends
// behind torn entries. As after kill -9, everything acknowledged is in the directory. The goroutine that fails never
// returns, so that nothing more is acknowledged.
type fatalOnce struct {
	dir   string
	fatal func(error)

	mu     sync.Mutex // guards below
	opened bool       // before, a failure is an error of Open
	early  error      // the first one of those
	begun  bool
}

func (e *fatalOnce) trigger(err error) {
	e.mu.Lock()
	if !e.opened {
		e.early = errors.Join(e.early, err)
		e.mu.Unlock()
		return
	}
	first := !e.begun
	e.begun = true
	e.mu.Unlock()
	if first {
		e.fatal(fmt.Errorf("data directory %s cannot be written: %w; acknowledged records are stored: start again when it "+
			"can be", e.dir, err))
	}
	select {} // nothing is answered any more
}

// open makes later failures end the process. It returns the failures so far.
func (e *fatalOnce) open() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.opened = e.early == nil
	return e.early
}

// unwritten returns the error in a line of kfake's log about a failed write, and nil for other lines.
func unwritten(format string, args []any) error {
	for _, a := range args {
		err, ok := a.(error)
		if ok && (full(err) || strings.HasPrefix(format, "persist ")) {
			return err
		}
	}
	return nil
}

// full reports whether an operation failed because the disk is full.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) ||
		errors.Is(err, syscall.EROFS)
}

// logger passes kfake's log on. kfake logs each request as Info, which is Debug here. It reports a failed write in
// its log only, before it answers.
type logger struct {
	to  *slog.Logger
	end *fatalOnce
}

func (l logger) Logf(level kfake.LogLevel, format string, args ...any) {
	to := slog.LevelDebug
	switch level {
	case kfake.LogLevelError:
		to = slog.LevelError
	case kfake.LogLevelWarn:
		to = slog.LevelWarn
	}
	ctx := context.Background()
	if l.to.Enabled(ctx, to) {
		l.to.Log(ctx, to, "kfake: "+fmt.Sprintf(format, args...))
	}
	if level <= kfake.LogLevelWarn {
		if err := unwritten(format, args); err != nil {
			l.end.trigger(err)
		}
	}
}
