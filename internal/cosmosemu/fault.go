package cosmosemu

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"binnacle/internal/cosmosemu/sql"
)

// fault is an answer other than success: what the client is told, and what it is charged.
type fault struct {
	status     int
	substatus  int // 0: none
	message    string
	charge     float64
	retryAfter time.Duration // 429 only
	partition  string        // id of the physical partition that answered, if one did
}

func (f *fault) Error() string { return fmt.Sprintf("%d %s: %s", f.status, f.code(), f.message) }

// Substatus codes (azcosmos and azure_data_cosmos, cosmos_status.rs).
const (
	subKeyMismatch    = 1001 // with 400: the key is not that of the item, or has too few levels
	subRangeGone      = 1002 // with 410: no such partition key range any more
	subCrossPartition = 1004 // with 400: the gateway cannot serve this query over several partitions
	subLogicalFull    = 1014 // with 403: the logical partition holds as much as it may
	subAutoscaleOffer = 1015 // with 403: an autoscale offer cannot be replaced by a manual one
	subSharedFull     = 1019 // with 403: as many containers share the database's throughput as may
	subBudgetExceeded = 3200 // with 429: the physical partition's second has no request units left
	subMetadataBudget = 3210 // with 429: the account's second has none left for metadata
)

// code is the word for the status in an error's body.
func (f *fault) code() string {
	switch f.status {
	case http.StatusBadRequest:
		return "BadRequest"
	case http.StatusRequestEntityTooLarge:
		return "RequestEntityTooLarge"
	case http.StatusTooManyRequests:
		return "429"
	case http.StatusPreconditionFailed:
		return "PreconditionFailed"
	case http.StatusNotFound:
		return "NotFound"
	case http.StatusNotImplemented:
		return "NotImplemented"
	default:
		return http.StatusText(f.status)
	}
}

func badRequest(format string, args ...any) *fault {
	return &fault{status: http.StatusBadRequest, message: fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) *fault {
	return &fault{status: http.StatusNotFound, message: fmt.Sprintf(format, args...)}
}

func conflict(format string, args ...any) *fault {
	return &fault{status: http.StatusConflict, message: fmt.Sprintf(format, args...)}
}

// unsupported refuses a construct of the service that the emulator does not have.
func unsupported(format string, args ...any) *fault {
	return &fault{status: http.StatusNotImplemented, message: fmt.Sprintf(format, args...) + " is not supported by this emulator"}
}

func keyMismatch(format string, args ...any) *fault {
	return &fault{status: http.StatusBadRequest, substatus: subKeyMismatch, message: fmt.Sprintf(format, args...)}
}

func preconditionFailed() *fault {
	return &fault{status: http.StatusPreconditionFailed, message: "the condition of If-Match or If-None-Match does not hold"}
}

// asFault turns any error of a handler into an answer.
func asFault(err error) *fault {
	var f *fault
	if errors.As(err, &f) {
		return f
	}
	var q *sql.Error
	if errors.As(err, &q) {
		return badRequest("the query is not accepted: %s", q.Error())
	}
	return &fault{status: http.StatusInternalServerError, message: err.Error()}
}
