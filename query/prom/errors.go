package prom

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"binnacle/internal/store"
	"binnacle/internal/tenant/access"
	"binnacle/query"
	"binnacle/query/httpapi"

	"github.com/prometheus/prometheus/promql"
)

// badData is the type of errors that are in the request itself.
const badData = "bad_data"

// statusCanceled is what Prometheus answers when the client has gone.
const statusCanceled = 499

// apiError is an error as clients of Prometheus know it.
type apiError struct {
	kind   string // errorType
	status int
	detail string
}

func (e *apiError) Error() string { return e.detail }

func badRequest(format string, args ...any) *apiError {
	return &apiError{badData, http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// errorOf returns the error that a client gets. Errors of the store are not shown: they may name what is not the
// client's.
func errorOf(err error) *apiError {
	if stored, ok := errors.AsType[promql.ErrStorage](err); ok {
		err = stored.Err
	}
	var (
		shown    *apiError
		denied   *access.Denied
		limit    *query.LimitError
		quota    *query.QuotaError
		canceled promql.ErrQueryCanceled
		timeout  promql.ErrQueryTimeout
		many     promql.ErrTooManySamples
		late     *query.NotYetError
		unknown  *query.UnknownPartitionError
		damaged  *store.DamagedError
	)
	switch {
	case errors.As(err, &late):
		return &apiError{"timeout", http.StatusGatewayTimeout, late.Error()}
	case errors.As(err, &unknown):
		return badRequest("header %s: %v", httpapi.AfterHeader, unknown)
	case errors.As(err, &shown):
		return shown
	case errors.As(err, &denied) && denied.Status == http.StatusUnauthorized:
		return &apiError{"unauthorized", denied.Status, denied.Detail}
	case errors.As(err, &denied):
		return &apiError{"forbidden", denied.Status, denied.Detail}
	case errors.As(err, &limit):
		return &apiError{"execution", http.StatusUnprocessableEntity, limit.Error()}
	case errors.As(err, &quota): // Prometheus has no such error; this is what Mimir, which has, calls it
		return &apiError{"too_many_requests", http.StatusTooManyRequests, quota.Error()}
	case errors.As(err, &many):
		return &apiError{"execution", http.StatusUnprocessableEntity, many.Error()}
	case errors.As(err, &canceled):
		return &apiError{"canceled", statusCanceled, canceled.Error()}
	case errors.As(err, &timeout):
		return &apiError{"timeout", http.StatusServiceUnavailable, timeout.Error()}
	case errors.Is(err, context.Canceled):
		return &apiError{"canceled", statusCanceled, "the query was canceled"}
	case errors.Is(err, context.DeadlineExceeded):
		return &apiError{"timeout", http.StatusServiceUnavailable, "the query timed out while it read" + query.FailureOf(err)}
	case errors.Is(err, query.ErrBusy):
		return &apiError{"unavailable", http.StatusServiceUnavailable,
			"too many queries are running or waiting; try again"}
	case errors.As(err, &damaged):
		return &apiError{"internal", http.StatusInternalServerError, httpapi.DamagedDetail(damaged)}
	case errors.Is(err, query.ErrUnavailable):
		return &apiError{"unavailable", http.StatusServiceUnavailable,
			fmt.Sprintf("the store can't be read now%s; try again", query.FailureOf(err))}
	}
	return &apiError{"internal", http.StatusInternalServerError, "the query failed; the service's log says why"}
}

// engineError returns the error of an evaluation. Any other error than the store's or a limit's is a mistake in the
// query that shows only with the data, as in Prometheus.
func engineError(err error) error {
	var stored promql.ErrStorage
	if shown := errorOf(err); shown.kind != "internal" || errors.As(err, &stored) {
		return err
	}
	return &apiError{"execution", http.StatusUnprocessableEntity, err.Error()}
}
