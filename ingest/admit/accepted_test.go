package admit_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"binnacle/ingest/admit"
	"binnacle/ingest/ingesttest"
	"binnacle/internal/control"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

const (
	start = 1795183200123 // 2026-11-20 14:00 UTC
	day   = 24 * time.Hour
)

// What was judged before never shows in a verdict: readings of tenants with terms of their own, around all bounds of
// time, in records with any timestamp or none, by snapshots of any age.
func TestEarlierReadingsDoNotShowInVerdicts(t *testing.T) {
	const seed, unbounded = 11, tenant.Period(tenant.Unbounded)
	rnd := rand.New(rand.NewPCG(seed, 0))
	t.Log("seed", seed)
	stores := ingesttest.NewStores(t, "2026-10", "2026-11")
	began := time.UnixMilli(start)
	var snapshots []*control.Snapshot
	for _, c := range []struct {
		name      string
		retention time.Duration
		ingest    tenant.Ingest
	}{
		{"plain", 0, tenant.Ingest{}},
		{"kept", 3 * day, tenant.Ingest{}},
		{"near", 0, tenant.Ingest{Past: tenant.PeriodOf(day), Future: tenant.PeriodOf(time.Hour)}},
		{"far", 2 * day, tenant.Ingest{Past: unbounded, Future: unbounded}},
	} {
		dir := control.NewDirectory(control.DirectoryConfig{Documents: stores.Docs, Retention: c.retention,
			Now: func() time.Time { return began }})
		_, err := dir.Register(t.Context(), c.name)
		require.NoError(t, err)
		require.NoError(t, tenant.NewTenants(stores.Docs).Set(t.Context(), c.name, c.ingest.Changes()...))
		require.NoError(t, dir.AskMonth(t.Context(), "chunks-2026-11", ""))
		s, err := dir.Refresh(t.Context())
		require.NoError(t, err)
		snapshots = append(snapshots, s)
		began = began.Add(time.Minute)
	}
	for _, cfg := range []admit.Config{
		{Future: time.Hour, Past: 0}, {Future: 2 * day, Past: day}, {Future: day, Past: -1}, {Future: day, Past: 3 * day},
	} {
		judge := admit.NewJudge(cfg)
		quick, refused, needy := 0, 0, 0
		s, tenant := snapshots[len(snapshots)-1], "plain"
		for range 30_000 {
			if rnd.IntN(8) == 0 {
				s = snapshots[rnd.IntN(len(snapshots))]
			}
			if rnd.IntN(20) == 0 {
				tenant = []string{"plain", "kept", "near", "far", "none"}[rnd.IntN(5)]
			}
			near := func(t time.Time) int64 {
				steps := []time.Duration{0, time.Hour, day, 2 * day, 3 * day, -time.Hour, -day, -2 * day, -3 * day, -400 * day}
				return t.Add(steps[rnd.IntN(len(steps))]).UnixMilli() + rnd.Int64N(3) - 1
			}
			now := s.ReadAt.Add(time.Duration(rnd.Int64N(int64(time.Hour))))
			rec := admit.Record{Time: now.UnixMilli()}
			switch rnd.IntN(8) {
			case 0:
				rec.Time = -1
			case 1:
				rec.Time = near(now)
			}
			r := telemetry.Reading{Tenant: tenant, Device: "d", Time: near(time.UnixMilli(rec.Time))}
			if rnd.IntN(2) == 0 {
				r.Time = now.UnixMilli() - rnd.Int64N(2*telemetry.DayMillis)
			}
			bad, known, needs := judge.Judge(rec, r, s, now)
			want, _, wantNeeds := admit.NewJudge(cfg).Judge(rec, r, s, now)
			require.Equal(t, wantNeeds, needs, "%+v in %+v", r, rec)
			require.Equal(t, want, bad, "%+v in %+v", r, rec)
			if known {
				quick++
			}
			if bad != nil {
				refused++
			}
			if needs != nil {
				needy++
			}
		}
		require.Greater(t, quick, 1000)
		require.Greater(t, refused, 1000)
		require.Greater(t, needy, 1000)
	}
}
