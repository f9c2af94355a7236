package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"binnacle/internal/retry"
)

// stage is a part of a process: it runs until its context ends or it fails.
type stage struct {
	name string
	run  func(context.Context) error
}

// lifecycle runs stages together and ends them one after another, the last one started first, so that no stage loses
// what it depends on.
type lifecycle struct {
	log    *slog.Logger
	failed chan error
	// pace makes the pauses of stages that are started from now on; nil leaves them as they are.
	pace    func(time.Duration) time.Duration
	mu      sync.Mutex
	running []running
}

type running struct {
	name string
	stop context.CancelFunc
	done chan struct{}
}

func newLifecycle(log *slog.Logger) *lifecycle {
	return &lifecycle{log: log, failed: make(chan error, 1)}
}

// start runs a stage in the background. wait returns its error.
func (l *lifecycle) start(s stage) {
	ctx, stop := context.WithCancel(context.Background())
	if l.pace != nil {
		ctx = retry.WithPace(ctx, l.pace)
	}
	r := running{s.name, stop, make(chan struct{})}
	l.mu.Lock()
	l.running = append(l.running, r)
	l.mu.Unlock()
	go func() {
		defer close(r.done)
		if err := s.run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			select {
			case l.failed <- fmt.Errorf("%s: %w", s.name, err):
			default:
			}
		}
	}()
}

// wait returns nil when ctx ends, or the error of the first stage that fails.
func (l *lifecycle) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-l.failed:
		return err
	}
}

// stop ends all stages in reverse order, each when the one before has ended.
func (l *lifecycle) stop() {
	l.mu.Lock()
	stages := l.running
	l.running = nil
	l.mu.Unlock()
	for i := len(stages) - 1; i >= 0; i-- {
		l.log.Debug("stopping", "stage", stages[i].name)
		stages[i].stop()
		<-stages[i].done
	}
}
