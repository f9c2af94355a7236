package cosmos_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/lab/emulator/fault"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/stretchr/testify/require"
)

// The emulator charges by the model that an examination compares with, so each factor is 1.
func TestExamineEmulator(t *testing.T) {
	for _, model := range []ru.Model{ru.Stepped, ru.Sloped} {
		_, c := openEmulator(t, emulator.Config{Model: model, Unlimited: true}, nil)
		var measured []cosmos.Measurement
		found, err := c.Examine(t.Context(), model, func(m cosmos.Measurement) { measured = append(measured, m) })
		require.NoError(t, err)
		require.Equal(t, measured, found.Measured)
		require.Len(t, measured, 31)
		require.Zero(t, found.Skew)
		for _, m := range measured {
			require.Empty(t, m.Problem, m.Operation)
			require.InDelta(t, 1, m.Factor(), 0.01, "%s: %.2f RU, modelled %.2f", m.Operation, m.Charged, m.Modelled)
		}
		verdict, ok := cosmos.VerdictOf(measured)
		require.True(t, ok)
		require.Equal(t, cosmos.Verdict{Sizes: model.String(), Writes: model.String(), Reads: model.String(),
			Tolerance: 0.03}, verdict)
		names, err := c.Containers().List(t.Context())
		require.NoError(t, err)
		require.NotContains(t, names, "doctor")
	}
}

// An examination of an account that throttles finds the same: an attempt that is made again is of what the first one
// was.
func TestExamineWhileThrottled(t *testing.T) {
	server, c := openEmulator(t, emulator.Config{Model: ru.Stepped, Unlimited: true}, nil)
	require.NoError(t, server.Faults().Replace(1, fault.Rule{Probability: 0.4, Status: 429, Substatus: 3200,
		RetryAfterMs: 1, Operations: []string{fault.Create, fault.Upsert, fault.Batch, fault.Delete, fault.Replace}}))
	found, err := c.Examine(t.Context(), ru.Stepped, func(cosmos.Measurement) {})
	require.NoError(t, err)
	require.Len(t, found.Measured, 31)
	for _, m := range found.Measured {
		require.Empty(t, m.Problem, m.Operation)
	}
}

// An account that charges all of it otherwise has a verdict; one that goes by no model, or by one for writes and the
// other for reads, has none; where a size was refused there is no verdict.
func TestVerdictOfOtherAccounts(t *testing.T) {
	_, c := openEmulator(t, emulator.Config{Model: ru.Sloped, Factors: ru.Factors{Write: 2, Read: 0.7},
		Unlimited: true}, nil)
	found, err := c.Examine(t.Context(), ru.Stepped, func(cosmos.Measurement) {})
	require.NoError(t, err)
	verdict, ok := cosmos.VerdictOf(found.Measured)
	require.True(t, ok)
	require.Equal(t, "slope", verdict.Sizes)
	change := func(operation string, f func(*cosmos.Measurement)) []cosmos.Measurement {
		out := slices.Clone(found.Measured)
		for i := range out {
			if out[i].Operation == operation {
				f(&out[i])
			}
		}
		return out
	}
	verdict, _ = cosmos.VerdictOf(change("read, 36 KB", func(m *cosmos.Measurement) { m.Charged *= 1.2 }))
	require.Equal(t, "neither", verdict.Sizes)
	require.Equal(t, "slope", verdict.Writes)
	require.Equal(t, "neither", verdict.Reads)
	verdict, _ = cosmos.VerdictOf(change("read, 36 KB", func(m *cosmos.Measurement) { m.Charged *= 1.02 }))
	require.Equal(t, "slope", verdict.Sizes)
	_, ok = cosmos.VerdictOf(change("create, 65 KB", func(m *cosmos.Measurement) { m.Problem = "403" }))
	require.False(t, ok)
}

// An account that charges something else, or refuses a kind of request, is shown to do so, and the container goes all
// the same.
func TestExamineReportsDifferentCharges(t *testing.T) {
	_, c := openEmulator(t, emulator.Config{Model: ru.Sloped, Unlimited: true}, nil)
	found, err := c.Examine(t.Context(), ru.Stepped, func(cosmos.Measurement) {})
	require.NoError(t, err)
	for _, m := range found.Measured {
		if m.Operation == "create, 36 KB" {
			require.InDelta(t, 78.0/130, m.Factor(), 0.01, "it is charged by its size, not as 64 KB")
		}
	}

	server, c := openEmulator(t, emulator.Config{Unlimited: true}, nil)
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
		_, c := openEmulator(t, emulator.Config{Unlimited: true, Now: clock}, func(cfg *cosmos.Config) {
			cfg.Transport = dated{cfg.Transport, func() time.Time { return noon.Add(off) }}
		})
		found, err := c.Examine(t.Context(), ru.Stepped, func(cosmos.Measurement) {})
		require.NoError(t, err)
		require.Equal(t, want, found.Skew, off)
	}
}
