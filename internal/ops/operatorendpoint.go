package ops

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"binnacle/internal/ops/erase"
	"binnacle/internal/provision"
	"binnacle/internal/store"
	"binnacle/internal/tenant"
	"binnacle/query/httpapi"
)

// Endpoint answers a request at the admin listener with a status and a body for JSON, or with an error.
type Endpoint func(r *http.Request) (status int, body any, err error)

// ServeHTTP implements http.Handler. It says in a header what the requests of the answer to the account cost.
func (serve Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var meter store.Meter
	status, body, err := serve(r.WithContext(store.WithMeter(r.Context(), &meter)))
	w.Header().Set("Binnacle-Request-Units", strconv.FormatFloat(meter.Read().RUs, 'f', 2, 64))
	if err != nil {
		httpapi.Refuse(w, statusOf(err), err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store") // a new token's secret may be in it
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// unfitError says what is wrong with a request, whatever is stored.
type unfitError struct{ error }

// Unwrap returns the cause.
func (e unfitError) Unwrap() error { return e.error }

func unfit(format string, args ...any) error { return unfitError{fmt.Errorf(format, args...)} }

// statusOf returns the status of an error. What is left is the store's.
func statusOf(err error) int {
	var unfit unfitError
	switch {
	case errors.As(err, &unfit):
		return http.StatusBadRequest
	case errors.Is(err, tenant.ErrNoTenant), errors.Is(err, tenant.ErrNoToken), errors.Is(err, errNoOrder),
		errors.Is(err, store.ErrNoContainer):
		return http.StatusNotFound
	case errors.Is(err, errRegistered), errors.Is(err, provision.ErrPeriod), errors.Is(err, tenant.ErrTooMany),
		errors.Is(err, errOldIngester), errors.Is(err, erase.ErrNotCleared):
		return http.StatusConflict
	}
	return http.StatusBadGateway
}
