package store

import (
	"errors"
	"fmt"
	"time"
)

// Facts that callers branch on.
var (
	ErrExists      = errors.New("a document with this id exists")
	ErrNotFound    = errors.New("no such document")
	ErrNoContainer = errors.New("no such container")
	ErrTooLarge    = errors.New("the document is larger than the store takes")
)

// The adapter alone decides what a response means. ErrTooLarge and these are the final errors; after any other error
// the outcome is unknown: the write may have happened, and the caller repeats the request (rule W6).
var (
	// ErrBusy: nothing happened, and it may be asked again later; a *BusyError says when.
	ErrBusy = errors.New("the store is busy")
	// ErrKeyFull: nothing happened, and nothing will until the partition key holds less.
	ErrKeyFull = errors.New("the partition key holds as much as the store allows")
	// ErrRejected: nothing happened, and never will: the store takes no such request. The caller has a bug.
	ErrRejected = errors.New("the store rejects the request")
	// ErrDenied: nothing happened, and won't before this process gets the right credentials or rights.
	ErrDenied = errors.New("the store denies access")
)

// BusyError is ErrBusy with the time that the store asks to be left alone for.
type BusyError struct{ RetryAfter time.Duration }

// Error implements error.
func (e *BusyError) Error() string { return fmt.Sprintf("%v: again in %s", ErrBusy, e.RetryAfter) }

// Is makes errors.Is(err, ErrBusy) true.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// ExistsError is ErrExists with what is needed to read the stored document on any replica.
type ExistsError struct{ Session string }

// Error implements error.
func (e *ExistsError) Error() string { return ErrExists.Error() }

// Is makes errors.Is(err, ErrExists) true.
func (e *ExistsError) Is(target error) bool { return target == ErrExists }

// FailingError says that the store has failed at each attempt, until the request could not be sent again. The outcome
// is unknown.
type FailingError struct {
	Attempts int
	// Status is that of the last answer, such as 503 or 410/1007; "" without one.
	Status string
	// Last is the error of the last attempt.
	Last error
}

// Error says how the last attempt failed, and how many there were.
func (e *FailingError) Error() string { return fmt.Sprintf("%v (attempt %d)", e.Last, e.Attempts) }

// Unwrap returns the error of the last attempt.
func (e *FailingError) Unwrap() error { return e.Last }

// Answer returns the last answer of the store, in words for users.
func (e *FailingError) Answer() string {
	if e.Status == "" {
		return "the connection is lost"
	}
	return "the store answers " + e.Status
}
