package app

import (
	"context"
	"log/slog"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/telemetry"
)

// Backfills gives leave for readings from long ago, in the control documents of an account.
type Backfills struct {
	directory *control.Directory
	lasts     time.Duration
	close     func()
}

// NewBackfills connects to an account. What it grants is good for so long.
func NewBackfills(account AccountConfig, lasts time.Duration, log *slog.Logger) (*Backfills, error) {
	client, err := account.Connect(log)
	if err != nil {
		return nil, err
	}
	dir := control.NewDirectory(control.DirectoryConfig{Documents: client.Documents(), Logger: log})
	return &Backfills{dir, lasts, client.Close}, nil
}

// Grant returns the id of a new grant for a tenant and a range of event times.
func (b *Backfills) Grant(ctx context.Context, tenant string, r telemetry.Range) (string, error) {
	granted, err := b.directory.GrantBackfill(ctx, tenant, r, b.lasts)
	return granted.ID, err
}

// Close ends the connection.
func (b *Backfills) Close() { b.close() }
