// Package refusal has the answers other than success: a status, a substatus, words for the client, and the charge.
// Every package of the emulator refuses with an *Error of this package; Of makes one of any error. It must not know the
// caller, nor how an answer is written.
package refusal

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"binnacle/internal/lab/emulator/jsonvalue"
	"binnacle/internal/lab/emulator/sql"
)

// Error is an answer other than success: the message for the client, and the charge.
type Error struct {
	Status     int
	Substatus  int        // 0: none
	Info       string     // for clients that go on by it: a plan
	Query      *sql.Error // the query is not one
	Message    string
	Charge     float64
	RetryAfter time.Duration // 429 only
	Range      string        // id of the physical partition that answered, if one did
	LSN        uint64        // with Range: of its last write
	Account    bool          // the partition that knows databases and containers answered
	Validation bool          // the request is not valid before anything is looked up
}

// Error returns the status, its code and the message.
func (e *Error) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Code(), e.Message) }

// Substatus codes (azcosmos and azure_data_cosmos, cosmos_status.rs).
const (
	subKeyMismatch    = 1001 // with 400: the key differs from the item's, or has too few levels
	subRangeGone      = 1002 // with 410: no such partition key range any more
	subCrossPartition = 1004 // with 400: the gateway cannot serve this query over several partitions
	subOtherContainer = 1024 // with 400: a new container has replaced this one under its name
	SubLogicalFull    = 1014 // with 403: the logical partition holds as much as it may
	SubAutoscaleOffer = 1015 // with 403: an autoscale offer cannot be replaced by a manual one
	SubSharedFull     = 1019 // with 403: as many containers share the database's throughput as may
	SubBudgetExceeded = 3200 // with 429: the physical partition's second has no request units left
	SubMetadataBudget = 3210 // with 429: the account's second has none left for metadata
)

// Code returns the word for the status in an error's body.
func (e *Error) Code() string { return strings.ReplaceAll(http.StatusText(e.Status), " ", "") }

// Malformed reports whether the request itself was at fault.
func (e *Error) Malformed() bool { return e.Status == http.StatusBadRequest }

// Conflicts reports whether what was to be made exists.
func (e *Error) Conflicts() bool { return e.Status == http.StatusConflict }

// Throttled reports whether the request was refused for want of request units.
func (e *Error) Throttled() bool { return e.Status == http.StatusTooManyRequests }

func newError(status, substatus int, format string, args ...any) *Error {
	return &Error{Status: status, Substatus: substatus, Message: fmt.Sprintf(format, args...)}
}

// BadRequest refuses what is malformed or not allowed.
func BadRequest(format string, args ...any) *Error {
	return newError(http.StatusBadRequest, 0, format, args...)
}

// CrossDisabled refuses a query over several partition keys that the client has not allowed to be one.
func CrossDisabled() *Error {
	return BadRequest("Cross partition query is required but disabled: " +
		"set x-ms-documentdb-query-enablecrosspartition to true, or give the partition key.")
}

// KeyMismatch refuses a partition key that differs from the item's, or has too few levels.
func KeyMismatch(format string, args ...any) *Error {
	return newError(http.StatusBadRequest, subKeyMismatch, format, args...)
}

// CrossPartition refuses a query that the gateway cannot serve over several physical partitions. A client may go on by
// the plan.
func CrossPartition(plan []byte, format string, args ...any) *Error {
	e := newError(http.StatusBadRequest, subCrossPartition, format, args...)
	e.Info = string(plan)
	return e
}

// AnotherContainer refuses a request for a container that has been deleted and created again.
func AnotherContainer(rid string) *Error {
	return newError(http.StatusBadRequest, subOtherContainer, "the container of this name has another _rid than %s", rid)
}

// NotAllowed refuses a method.
func NotAllowed(method, path string) *Error {
	return newError(http.StatusMethodNotAllowed, 0, "the method %s is not allowed on %s", method, path)
}

// Invalid refuses a request by what it says of itself, before anything is looked up.
func Invalid(format string, args ...any) *Error {
	e := BadRequest(format, args...)
	e.Validation = true
	return e
}

// Unauthorized refuses a request that is not signed as it should be.
func Unauthorized(reason string) *Error {
	return newError(http.StatusUnauthorized, 0, "%s", reason)
}

// Forbidden refuses what a quota or a rule of the service does not allow.
func Forbidden(substatus int, format string, args ...any) *Error {
	return newError(http.StatusForbidden, substatus, format, args...)
}

// NotFound refuses a request for a resource that does not exist.
func NotFound(format string, args ...any) *Error {
	return newError(http.StatusNotFound, 0, format, args...)
}

// Conflict refuses to make what exists.
func Conflict(format string, args ...any) *Error {
	return newError(http.StatusConflict, 0, format, args...)
}

// FailedDependency says that an operation was not done because one before it failed.
func FailedDependency() *Error {
	return newError(http.StatusFailedDependency, 0, "an operation before this one failed")
}

// RangeGone says that a partition key range is no more.
func RangeGone(id string) *Error {
	return newError(http.StatusGone, subRangeGone, "the partition key range %s does not exist", id)
}

// PreconditionFailed returns the refusal of a write with a condition that does not hold.
func PreconditionFailed() *Error {
	return newError(http.StatusPreconditionFailed, 0, "the condition of If-Match or If-None-Match does not hold")
}

// TooLarge refuses an item, a request or an answer above its limit.
func TooLarge(format string, args ...any) *Error {
	e := newError(http.StatusRequestEntityTooLarge, 0, format, args...)
	e.Validation = true
	return e
}

// Locked refuses a change while another is under way.
func Locked(format string, args ...any) *Error {
	return newError(http.StatusLocked, 0, format, args...)
}

// TooMany refuses a request until some time has passed.
func TooMany(retry time.Duration, substatus int, format string, args ...any) *Error {
	e := newError(http.StatusTooManyRequests, substatus, format, args...)
	e.RetryAfter = retry
	return e
}

// Unsupported refuses a construct of the service that the emulator does not have.
func Unsupported(format string, args ...any) *Error {
	return newError(http.StatusNotImplemented, 0, format+" is not supported by this emulator", args...)
}

// Unavailable says that the emulator does not serve any more.
func Unavailable(reason string) *Error {
	return newError(http.StatusServiceUnavailable, 0, "%s", reason)
}

// Of turns any error into an answer: what is no refusal is an internal error.
func Of(err error) *Error {
	var e *Error
	var q *sql.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &q):
		f := BadRequest("the query is not accepted: %s", q.Error())
		f.Query = q
		return f
	case errors.Is(err, jsonvalue.ErrInvalid):
		return BadRequest("the body is not valid JSON")
	}
	return newError(http.StatusInternalServerError, 0, "%s", err.Error())
}

// Is reports whether an error is an answer to the client, and not a failure of the emulator.
func Is(err error) bool { return Of(err).Status != http.StatusInternalServerError }
