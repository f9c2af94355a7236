package ops_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"binnacle/internal/ops"
	"binnacle/internal/store"

	"github.com/stretchr/testify/require"
)

// An answer of the admin listener says in a header what its requests to the account cost, whatever its status.
func TestChargedAnswers(t *testing.T) {
	for err, status := range map[error]int{nil: http.StatusOK, io.ErrUnexpectedEOF: http.StatusBadGateway} {
		h := ops.Endpoint(func(r *http.Request) (int, any, error) {
			store.Charge(r.Context(), 2.5, false)
			store.Charge(r.Context(), 1, true)
			return http.StatusOK, "answered", err
		})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		require.Equal(t, status, w.Code)
		require.Equal(t, "3.50", w.Header().Get("Binnacle-Request-Units"))
		require.Regexp(t, `^"answered"|unexpected EOF`, w.Body.String())
	}
}
