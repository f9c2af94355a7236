package cosmos_test

import (
	"net/http"
	"testing"
	"time"

	"binnacle/internal/cosmos"
	"binnacle/internal/cosmosemu"
	"binnacle/internal/cosmosemu/fault"
	"binnacle/internal/ru"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/stretchr/testify/require"
)

// The emulator charges by the model that an examination compares with, so each factor is 1.
func TestExamineEmulator(t *testing.T) {
	for _, model := range []ru.Model{ru.Stepped, ru.Sloped} {
		_, c := emulator(t, cosmosemu.Config{Model: model, Unlimited: true}, nil)
		var measured []cosmos.Measurement
		found, err := c.Examine(t.Context(), model, func(m cosmos.Measurement) { measured = append(measured, m) })
		require.NoError(t, err)
		require.Equal(t, measured, found.Measured)
		require.Len(t, measured, 36)
		require.Zero(t, found.Skew)
		for _, m := range measured {
			require.Empty(t, m.Problem, m.Operation)
			require.InDelta(t, 1, m.Factor(), 0.01, "%s: %.2f RU, modelled %.2f", m.Operation, m.Charged, m.Modelled)
		}
		names, err := c.Containers().List(t.Context())
		require.NoError(t, err)
		require.NotContains(t, names, "doctor")
	}
}

// An account that charges something else, or refuses a kind of request, is shown to do so, and the container goes all
// the same.
func TestExamineReportsDifferentCharges(t *testing.T) {
	_, c := emulator(t, cosmosemu.Config{Model: ru.Sloped, Unlimited: true}, nil)
	found, err := c.Examine(t.Context(), ru.Stepped, func(cosmos.Measurement) {})
	require.NoError(t, err)
	for _, m := range found.Measured {
		if m.Operation == "create, 36 KB" {
			require.InDelta(t, 78.0/130, m.Factor(), 0.01, "it is charged by its size, not as 64 KB")
		}
	}

	server, c := emulator(t, cosmosemu.Config{Unlimited: true}, nil)
	require.NoError(t, server.Faults().Replace(1, fault.Rule{Operations: []string{fault.Replace}, Status: 403}))
	found, err = c.Examine(t.Context(), ru.Stepped, func(cosmos.Measurement) {})
	require.NoError(t, err)
	var problems []string
	for _, m := range found.Measured {
		if m.Problem != "" {
			problems = append(problems, m.Operation)
			require.Contains(t, m.Problem, "403")
		}
	}
	require.Equal(t, []string{"replace, 1 KB", "replace by ETag, 1 KB"}, problems)
	names, err := c.Containers().List(t.Context())
	require.NoError(t, err)
	require.NotContains(t, names, "doctor")
}

// dated has the service's clock go wrong.
type dated struct {
	policy.Transporter
	now func() time.Time
}

func (d dated) Do(r *http.Request) (*http.Response, error) {
	resp, err := d.Transporter.Do(r)
	if err == nil {
		resp.Header.Set("Date", d.now().UTC().Format(http.TimeFormat))
	}
	return resp, err
}

func TestExamineReportsClockSkew(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 300e6, time.UTC)
	for off, want := range map[time.Duration]time.Duration{
		0: 0, 400 * time.Millisecond: 0, time.Minute: 59700 * time.Millisecond, -time.Minute: -59300 * time.Millisecond,
	} {
		clock := func() time.Time { return noon }
		_, c := emulator(t, cosmosemu.Config{Unlimited: true, Now: clock}, func(cfg *cosmos.Config) {
			cfg.Transport = dated{cfg.Transport, func() time.Time { return noon.Add(off) }}
		})
		found, err := c.Examine(t.Context(), ru.Stepped, func(cosmos.Measurement) {})
		require.NoError(t, err)
		require.Equal(t, want, found.Skew, off)
	}
}
