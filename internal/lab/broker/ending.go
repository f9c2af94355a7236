package broker

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
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
