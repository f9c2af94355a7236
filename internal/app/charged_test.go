package app_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"binnacle/internal/app"
	"binnacle/internal/store"

	"github.com/stretchr/testify/require"
)

// An answer of the admin listener says in a header what its requests to the account cost, whatever its status.
func TestChargedAnswers(t *testing.T) {
	for _, status := range []int{0, http.StatusBadGateway} {
		h := app.Charged(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			store.Charge(r.Context(), 2.5, false)
			store.Charge(r.Context(), 1, true)
			if status != 0 {
				w.WriteHeader(status)
			}
			_, _ = io.WriteString(w, "answer")
			_, _ = io.WriteString(w, "ed")
		}))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		require.Equal(t, max(status, 200), w.Code)
		require.Equal(t, "3.50", w.Header().Get("Binnacle-Request-Units"))
		require.Equal(t, "answered", w.Body.String())
	}
}
