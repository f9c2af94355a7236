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
	actions   *control.Actions
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
	return &Backfills{dir, actionsOf(client, "", log), lasts, client.Close}, nil
}

// Allow returns the id of a new grant for a tenant and a range of event times.
func (b *Backfills) Allow(ctx context.Context, tenant string, r telemetry.Range) (string, error) {
	var granted control.Backfill
	err := b.actions.Do(ctx, control.Action{Verb: "backfill grant", Tenant: tenant, Detail: map[string]string{
		"from": instant(r.From), "to": instant(r.To), "for": b.lasts.String(),
	}}, func(a *control.Action) (err error) {
		granted, err = b.directory.GrantBackfill(ctx, tenant, r, b.lasts)
		a.Object = granted.ID
		return err
	})
	return granted.ID, err
}

func instant(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// Close ends the connection.
func (b *Backfills) Close() { b.close() }
