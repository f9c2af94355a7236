package ops_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"binnacle/internal/lab/emulator"
	"binnacle/internal/ops"

	"github.com/stretchr/testify/require"
)

// doctor returns the checks of an account that have failed, by name, and how many there were.
func doctor(t *testing.T, addr string) (wrong map[string]string, checks int) {
	var out bytes.Buffer
	cfg := ops.DoctorConfig{Account: ops.AccountConfig{Cosmos: addr}, JSON: true, Measure: true, Yes: true}
	err := cfg.Run(t.Context(), ops.Env{Stdout: &out, Logger: slog.New(slog.DiscardHandler)})
	var found struct {
		Checks []struct{ What, Wrong string }
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &found))
	wrong = map[string]string{}
	for _, c := range found.Checks {
		if c.Wrong != "" {
			wrong[c.What] = c.Wrong
		}
	}
	require.Equal(t, len(wrong) > 0, err != nil)
	return wrong, len(found.Checks)
}

// Of an account that does not answer doctor says that, and nothing of what it may lack.
func TestDoctorWithoutAccount(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	}))
	defer refusing.Close()
	wrong, checks := doctor(t, refusing.URL)
	require.Equal(t, 1, checks)
	require.Contains(t, wrong["list containers"], "403")
}

// An account without a database lacks its containers, and no more.
func TestDoctorOfEmptyAccount(t *testing.T) {
	server, err := emulator.Open(emulator.Config{InMemory: true, Unlimited: true})
	require.NoError(t, err)
	at := httptest.NewServer(server)
	defer func() {
		at.Close()
		require.NoError(t, server.Close())
	}()
	wrong, _ := doctor(t, at.URL)
	for _, name := range []string{"control", "catalog", "heat"} {
		require.Contains(t, wrong["find "+name], "binnacle provision")
		delete(wrong, "find "+name)
	}
	delete(wrong, "measure") // the database for its container is missing too
	require.Empty(t, wrong)
}
