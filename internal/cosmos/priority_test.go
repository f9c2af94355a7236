package cosmos_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"binnacle/internal/cosmos"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

// A client with low priority sends it in every request; others send nothing, so that an account without priorities sees
// none.
func TestPriorityHeader(t *testing.T) {
	day := telemetry.DayOf(time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC).UnixMilli())
	late := cosmos.Priority{LowAfter: 48 * time.Hour}
	low := cosmos.Priority{Low: true}
	create := func(p cosmos.Priority, day telemetry.Day) func(context.Context, *cosmos.Client) {
		return func(ctx context.Context, c *cosmos.Client) {
			_, _ = c.Chunks().At(p).Create(ctx, key, fmt.Sprintf("%s.1.00003.000017", day), []byte(`{}`))
		}
	}
	for name, c := range map[string]struct {
		ask  func(ctx context.Context, c *cosmos.Client)
		want string
	}{
		"a create":                     {create(cosmos.Priority{}, day), ""},
		"a late one, two days ago":     {create(late, day), "Low"},
		"one of a day ago":             {create(late, day+1), ""},
		"a late one that is not asked": {create(cosmos.Priority{}, day-100), ""},
		"a scan": {func(ctx context.Context, c *cosmos.Client) {
			_, _ = c.Chunks().At(low).Scan(ctx, store.Scan{Key: key}, func([]byte) error { return nil })
		}, "Low"},
		"headers": {func(ctx context.Context, c *cosmos.Client) {
			_, _ = c.Chunks().At(low).Headers(ctx, store.HeaderScan{Container: key.Container}, func([]byte) error { return nil })
		}, "Low"},
		"a list of devices": {func(ctx context.Context, c *cosmos.Client) {
			_, _ = c.CatalogAt(low).Pages(ctx, "acme", 0)
		}, "Low"},
		"the last chunk": {func(ctx context.Context, c *cosmos.Client) {
			_, _, _ = c.Chunks().At(late).Last(ctx, key, store.Chain{Day: day, Stream: 1})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			s := &script{answers: []answer{{status: 400}}, seen: func(r *http.Request) {
				got = append(got, r.Header.Get("x-ms-cosmos-priority-level"))
			}}
			now := (day + 3).Start() // two days after the day's end
			client, _ := client(t, s, func(cfg *cosmos.Config) {
				cfg.Now = func() time.Time { return time.UnixMilli(now) }
			})
			c.ask(t.Context(), client)
			require.Equal(t, []string{c.want}, got)
		})
	}
}

// A query at low priority waits while writes take all there is, and takes nothing from them; what it is refused says
// nothing to them either.
func TestLowPriorityScanYields(t *testing.T) {
	p := newPacing(t, 1)
	k := p.in("0")
	const seconds = 5
	busy := p.exhaust(k)
	p.server.ResetStats()
	for range seconds {
		require.NoError(t, p.clock.Sleep(t.Context(), busy.RetryAfter))
		require.ErrorIs(t, p.scanLow(k), context.DeadlineExceeded, "writes have wanted more than all of the second before")
		require.NoError(t, p.create(k))
		busy = p.exhaust(k)
	}
	parts, err := p.server.Partitions(store.Database, key.Container)
	require.NoError(t, err)
	require.InDelta(t, 400*seconds, parts[0].RUs, 10)
	require.NoError(t, p.clock.Sleep(t.Context(), 2*time.Second))
	require.NoError(t, p.scanLow(k), "when the writes have ended")
}

// scanLow asks at low priority and gives up rather than wait.
func (p *pacing) scanLow(k sharding.Key) error {
	ctx := context.WithValue(p.t.Context(), impatient{}, true)
	_, err := p.client.Chunks().At(cosmos.Priority{Low: true}).Scan(ctx, store.Scan{Key: k},
		func([]byte) error { return nil })
	return err
}
