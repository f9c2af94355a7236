package kafkaemu

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
)

// fatalOnce is how a broker ends when its directory cannot be written: with the process, at once. kfake would go on: it
// acknowledges commits and topics that are not on disk, takes a batch that it refused for one that it has when it is
// sent again, and appends behind entries that are torn. What was acknowledged is in the directory, as after kill -9,
// and what was not is not acknowledged: whoever comes here does not return.
type fatalOnce struct {
	dir   string
	fatal func(error)

	mu     sync.Mutex // guards below
	opened bool       // before, a failure is an error of Open
	early  error      // the first one of those
	begun  bool
}

// trigger ends the process.
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
		e.fatal(fmt.Errorf("data directory %s cannot be written: %w; what was acknowledged is stored: start again when it "+
			"can be", e.dir, err))
	}
	select {} // nothing is answered any more
}

// open has failures end the process from now on. It returns those that there were before.
func (e *fatalOnce) open() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.opened = e.early == nil
	return e.early
}

// unwritten is the error of what kfake logs if it was not able to write something.
func unwritten(format string, args []any) error {
	for _, a := range args {
		err, ok := a.(error)
		if ok && (full(err) || strings.HasPrefix(format, "persist ")) {
			return err
		}
	}
	return nil
}

// full reports that an operation failed for want of room.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) ||
		errors.Is(err, syscall.EROFS)
}
