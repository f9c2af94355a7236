package ops_test

import (
	"log/slog"
	"testing"
	"time"

	"binnacle/internal/charges"
	"binnacle/internal/heat/heatlog"
	"binnacle/internal/ops"
	"binnacle/internal/retry"

	"github.com/stretchr/testify/require"
)

// A bill has the bytes that a tenant has stored in a container since the container's month began.
func TestStorageOfEarlierMonths(t *testing.T) {
	now := time.Now().UTC()
	last := charges.MonthOf(charges.MonthOf(now).Begin().Add(-time.Hour))
	of := last.Begin().Add(-time.Hour)
	client, _ := copyAccount(t, of)
	counter := charges.NewCounter("ingest-one")
	counter.Count(last.Begin(), charges.Charge{Tenant: "acme", Container: of.Format("chunks-2006-01"),
		Kind: charges.Backfill, RUs: 5, Bytes: 1000})
	writer := heatlog.NewChargesWriter(counter, client.Heat(), retry.Trouble{Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, writer.Store(t.Context()))
	bill, err := ops.NewCosts(client).Cost(t.Context(), "acme", charges.MonthOf(now))
	require.NoError(t, err)
	require.Len(t, bill.Stored, 1)
	require.Equal(t, of.Format("chunks-2006-01"), bill.Stored[0].Container)
}
