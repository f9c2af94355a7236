package headhttp_test

import (
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"binnacle/internal/headhttp"
	"binnacle/internal/store/storetest"
	"binnacle/query/querytest"
)

// Heads over HTTP keep the contract of store.Heads that they keep without.
func TestHeadsContract(t *testing.T) {
	storetest.RunHeads(t, func(t *testing.T) storetest.HeadFixture {
		w := querytest.New(t, time.Date(2024, 10, 28, 12, 0, 0, 0, time.UTC))
		f := w.HeadFixture()
		server := httptest.NewServer(headhttp.Handler(headhttp.HandlerConfig{
			Heads: f.Heads, Secret: func() string { return "secret" }, Logger: slog.New(slog.DiscardHandler),
		}))
		t.Cleanup(server.Close)
		f.Heads = client("secret", server.URL)
		return f
	})
}
