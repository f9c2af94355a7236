package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"binnacle/internal/charges/ru"

	"github.com/stretchr/testify/require"
)

// The doctor reports what is missing; of an emulator that has all he finds that it charges by the model.
func TestDoctor(t *testing.T) {
	t.Parallel()
	emulator := start(t, "emulator", "--cosmos=127.0.0.1:0", "--data-dir", t.TempDir())
	at := "--cosmos=" + emulator.printed(`(?m)^ +endpoint +http://([^/\s]+)`)
	p := run(t, time.Minute, "doctor", at)
	require.Equal(t, 1, p.code)
	require.Regexp(t, `find control .*binnacle provision creates it`, p.stdout.String())
	require.Zero(t, run(t, time.Minute, "provision", "--once", at).code)
	p = run(t, time.Minute, "doctor", at)
	require.Zero(t, p.code, p.stderr.String())
	require.Regexp(t, `chunks-\d{4}-\d\d +\d+ auto +1 `, p.stdout.String())
	require.NotContains(t, p.stdout.String(), "modelled", "nothing is measured unasked")
	p = run(t, time.Minute, "doctor", at, "--measure", "--json")
	require.Zero(t, p.code, p.stderr.String())
	var found struct {
		Measured []struct {
			Operation string
			Charged   float64
			Factor    float64
		}
		Verdict struct{ Sizes string }
	}
	require.NoError(t, json.Unmarshal([]byte(p.stdout.String()), &found))
	require.Equal(t, "step", found.Verdict.Sizes)
	require.NotEmpty(t, found.Measured)
	for _, m := range found.Measured {
		require.Positive(t, m.Charged, m.Operation)
		require.InDelta(t, 1, m.Factor, 0.01, m.Operation)
	}
	require.NotContains(t, run(t, time.Minute, "doctor", at).stdout.String(), "doctor ", "what it made is gone")
	theRoundTripOfFactors(t)
	require.Contains(t, run(t, time.Minute, "actions", at).stdout.String(), "doctor measure")
}

// An account that charges otherwise than the model is measured, and the model corrected by what was found charges as
// the account does.
func theRoundTripOfFactors(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "account.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"factors":{"read":1.5,"write":0.8,"query":2}}`), 0o600))
	account := start(t, "emulator", "--cosmos=127.0.0.1:0", "--data-dir", t.TempDir(), "--ru-factors", file)
	at := "--cosmos=" + account.printed(`(?m)^ +endpoint +http://([^/\s]+)`)
	require.Zero(t, run(t, time.Minute, "provision", "--once", at).code)
	p := run(t, time.Minute, "doctor", at, "--target", "--yes", "--json")
	require.Zero(t, p.code, p.stderr.String())
	found, err := ru.ParseFactors([]byte(p.stdout.String()))
	require.NoError(t, err)
	require.InDelta(t, 1.5, found.Read, 0.02)
	require.InDelta(t, 0.8, found.Write, 0.02)
	require.InDelta(t, 2, found.Query, 0.02)
	require.NoError(t, os.WriteFile(file, []byte(p.stdout.String()), 0o600))
	p = run(t, time.Minute, "doctor", at, "--measure", "--ru-factors", file, "--json")
	require.Zero(t, p.code, p.stderr.String())
	var corrected struct {
		Measured []struct {
			Operation string
			Factor    float64
		}
	}
	require.NoError(t, json.Unmarshal([]byte(p.stdout.String()), &corrected))
	for _, m := range corrected.Measured {
		require.InDelta(t, 1, m.Factor, 0.03, m.Operation)
	}
	require.NoError(t, os.WriteFile(file, []byte(`{}`), 0o600))
	refused(t, []string{"loadtest", "--ru-factors", file}, "it has no factors")
}
