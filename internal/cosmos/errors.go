package cosmos

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"binnacle/internal/store"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	azruntime "github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// Error is an answer of the service other than success.
type Error struct {
	Status     int           // HTTP status
	Substatus  int           // 0 without one
	Message    string        // the first line of what the service says
	RetryAfter time.Duration // wait that a 429 asks for; 0 when it asks for none
	Session    string        // session token that the answer came with
	Unsure     bool          // an earlier attempt at the same write may have been carried out

	raw *http.Response
}

// Substatus codes (azure_data_cosmos, cosmos_status.rs).
const (
	subSessionNotAvailable = 1002 // with 404: the replica has not seen the session yet
	subOwnerNotFound       = 1003 // with 404: the container or the database is missing

	subStaleName = 1024 // with 400: the name is of another container since the client looked it up

	subWriteForbidden  = 3    // with 403: another region takes the writes now
	subAccountNotFound = 1008 // with 403: the region has left the account, or is about to
	subKeyFull         = 1014 // with 403: the logical partition holds as much as it may

	subRangeBudget = 3200 // with 429: of the physical partition
	subRangeGone   = 1002 // with 410: the physical partition was split
	subSplitting   = 1007 // with 410: it is being split
	subMigrating   = 1008 // with 410: it is moving
)

// Unwrap returns what the answer means for the caller, in the words of the contract; nil while the outcome is
// unknown, or where it depends on the request, as with 404 and 409. No other place decides that.
func (e *Error) Unwrap() error {
	switch e.Status {
	case http.StatusTooManyRequests:
		return &store.BusyError{RetryAfter: e.RetryAfter}
	case http.StatusRequestEntityTooLarge:
		return store.ErrTooLarge
	case http.StatusUnauthorized:
		return store.ErrDenied
	case http.StatusBadRequest:
		if e.Substatus != subStaleName {
			return store.ErrRejected
		}
	case http.StatusForbidden:
		switch e.Substatus {
		case subKeyFull:
			return store.ErrKeyFull
		case subWriteForbidden, subAccountNotFound: // for the moment
		default:
			return store.ErrDenied
		}
	}
	return nil
}

// Error names status, substatus and the service's message in one line.
func (e *Error) Error() string {
	return fmt.Sprintf("cosmos answered %s: %s", e.status(), e.Message)
}

func (e *Error) status() string {
	status := strconv.Itoa(e.Status)
	if e.Substatus != 0 {
		status += "/" + strconv.Itoa(e.Substatus)
	}
	return status
}

// maxMessage bounds the message of an Error: the service repeats whole requests.
const maxMessage = 300

func asError(err error) *Error {
	var r *azcore.ResponseError
	if err == nil || !errors.As(err, &r) || r.RawResponse == nil {
		return nil
	}
	e := &Error{Status: r.StatusCode, raw: r.RawResponse, Message: http.StatusText(r.StatusCode)}
	h := r.RawResponse.Header
	e.Substatus, _ = strconv.Atoi(h.Get("x-ms-substatus")) // absent is 0
	e.Session = h.Get("x-ms-session-token")
	if ms, err := strconv.ParseFloat(h.Get("x-ms-retry-after-ms"), 64); err == nil && ms > 0 {
		e.RetryAfter = time.Duration(ms * float64(time.Millisecond))
	}
	if body, err := azruntime.Payload(r.RawResponse); err == nil {
		var said struct{ Message string }
		if json.Unmarshal(body, &said) == nil && said.Message != "" {
			e.Message, _, _ = strings.Cut(strings.TrimSpace(said.Message), "\n")
			e.Message = strings.TrimSpace(e.Message[:min(len(e.Message), maxMessage)])
		}
	}
	return e
}

func is(err error, status int) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == status
}

// isServerless reports whether the service refused throughput because the account is serverless. It has no code for
// that: all refusals of this kind, which public issues quote, end with these words.
func isServerless(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusBadRequest && isServerlessText(e.Message)
}

func isServerlessText(message string) bool {
	return strings.Contains(message, "not supported for serverless accounts")
}

func substatus(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Substatus
	}
	return 0
}

// dateOf returns the time of the service's clock in an answer, to a second; zero if it has none.
func dateOf(raw *http.Response, err error) time.Time {
	var answer *Error
	if raw == nil && errors.As(err, &answer) {
		raw = answer.raw
	}
	if raw == nil {
		return time.Time{}
	}
	now, err := http.ParseTime(raw.Header.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return now
}
