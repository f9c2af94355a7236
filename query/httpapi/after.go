package httpapi

import (
	"net/http"

	"binnacle/query"
)

// AfterHeader names records that an answer must include, as topic/partition/offset.
const AfterHeader = "X-Binnacle-After"

// maxAfter is how many records a request may name.
const maxAfter = 1000

// After returns the request with a context in which queries include the records that its header names.
func After(r *http.Request) (*http.Request, error) {
	values := r.Header.Values(AfterHeader)
	if len(values) == 0 {
		return r, nil
	}
	ends, err := query.ParsePositions(values, maxAfter)
	if err != nil {
		return r, &parameterError{AfterHeader, err.Error()}
	}
	return r.WithContext(query.WithAfter(r.Context(), ends)), nil
}
