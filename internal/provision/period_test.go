package provision_test

import (
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/provision"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

// A period counts from the day on that was decided: until then containers are as before, those of the next period
// stand before they are needed, with the physical partitions of their hot time, and old ones go when they expire.
func TestPeriodIsChanged(t *testing.T) {
	now := at("2026-11-23 12:00") // a Monday
	var actions *control.Actions
	b := newBench(t, func() time.Time { return now }, func(pc *provision.Config, dc *control.DirectoryConfig) {
		actions = control.NewActions(dc.Documents, "provision@pod", slog.New(slog.DiscardHandler), dc.Now)
		pc.Actions, pc.Period, pc.Policy.HotRUs = actions, sharding.Week, 12_000
		dc.Retention = 20 * day
	})
	_, err := b.directory.Register(t.Context(), "acme")
	require.NoError(t, err)
	e, changes, err := b.NextPeriod(t.Context())
	require.NoError(t, err)
	require.True(t, changes)
	require.Equal(t, "20261124", e.From.String())
	require.Empty(t, b.directory.Snapshot().Periods(), "to look at it changes nothing")

	for range 60 {
		_, err := b.Once(t.Context())
		require.NoError(t, err)
		acme, _ := b.directory.Snapshot().Tenant("acme")
		for _, ahead := range []time.Duration{0, 71 * time.Hour} {
			name := acme.Placement.ContainerOn(telemetry.DayOf(now.Add(ahead).UnixMilli()))
			require.Contains(t, b.rus(), name, "at %s", now)
			require.True(t, b.directory.Snapshot().HasContainer(name))
		}
		if now.Equal(at("2026-11-27 12:00")) {
			require.Equal(t, 6100, b.rus()["chunks-2026-W49"], "two partitions for when it is hot")
		}
		if now.Equal(at("2026-11-28 12:00")) {
			require.Equal(t, 400, b.rus()["chunks-2026-W49"], "and the throughput of its tier until then")
		}
		now = now.Add(24 * time.Hour)
	}
	require.Equal(t, []string{"chunks-2026-W53", "chunks-2027-W01", "chunks-2027-W02", "chunks-2027-W03"},
		slices.Sorted(maps.Keys(b.rus())), "those of months are gone")
	all, err := actions.List(t.Context(), time.Time{})
	require.NoError(t, err)
	set := all[slices.IndexFunc(all, func(a control.Action) bool { return a.Verb == "period set" })]
	require.Equal(t, "period set 20261124 period=week shared=false: done",
		set.Verb+" "+set.Object+" "+set.Details()+": "+set.Outcome)
}

// A period is refused whose containers the account will have no room for, and containers are made all the same.
func TestPeriodThatNeedsTooManyContainersIsRefused(t *testing.T) {
	own := sharding.Epoch{From: 20000, Slots: []sharding.Slot{1}, Dedicated: true}
	p := provision.DefaultPolicy()
	for _, c := range []struct {
		period  sharding.Period
		rollups int
		tenants []tenant.Tenant
		fits    bool
	}{
		{sharding.Day, 2000, nil, true},
		{sharding.Day, 2000, []tenant.Tenant{newTenant(t, "a", 90*day)}, true},
		{sharding.Day, 2000, []tenant.Tenant{newTenant(t, "a", 400*day)}, false},
		{sharding.Day, 0, []tenant.Tenant{newTenant(t, "a", 400*day)}, true},
		{sharding.Day, 0, []tenant.Tenant{newTenant(t, "a", 400*day), newTenant(t, "b", 100*day, own)}, false},
		{sharding.Week, 2000, []tenant.Tenant{newTenant(t, "a", 400*day), newTenant(t, "b", 400*day)}, true},
		{sharding.Week, 2000, []tenant.Tenant{newTenant(t, "a", 0)}, false},
		{sharding.Month, 2000, []tenant.Tenant{newTenant(t, "a", 0)}, true},
		{sharding.Month, 2000, []tenant.Tenant{newTenant(t, "a", 0), newTenant(t, "b", 0, own)}, false},
		{sharding.Quarter, 2000, []tenant.Tenant{newTenant(t, "a", 0), newTenant(t, "b", 0, own)}, true},
	} {
		p.RollupsRUs = c.rollups
		err := p.CheckPeriod(c.period, c.tenants, 5)
		require.Equal(t, c.fits, err == nil, "%v: %v", c, err)
	}

	comes := newTenant(t, "new", 400*day)
	empty := newBench(t, func() time.Time { return at("2026-11-23 12:00") },
		func(pc *provision.Config, _ *control.DirectoryConfig) {
			pc.Period, pc.Comes, pc.Policy.RollupsRUs = sharding.Day, &comes, 1000
		})
	require.ErrorIs(t, empty.SetPeriod(t.Context()), provision.ErrPeriod, "tenants that come count")
	b := newBench(t, func() time.Time { return at("2026-11-23 12:00") },
		func(pc *provision.Config, _ *control.DirectoryConfig) { pc.Period = sharding.Day })
	_, err := b.directory.Register(t.Context(), "acme")
	require.NoError(t, err)
	_, err = b.Once(t.Context())
	require.ErrorIs(t, err, provision.ErrPeriod)
	require.ErrorContains(t, err, "would be 3654")
	require.Empty(t, b.directory.Snapshot().Periods())
	require.Contains(t, b.rus(), "chunks-2026-11")
}

// Spans of all periods are in the plan as months are, with their rollups.
func TestPlanOfOtherPeriods(t *testing.T) {
	p := provision.DevPolicy()
	p.RollupsRUs = 1000
	steps := p.Plan(at("2026-12-31 12:00"), provision.Found{Periods: []sharding.PeriodEpoch{{Period: sharding.Quarter}},
		Containers: []store.ContainerState{seen("chunks-2026-Q4", 2000), seen("rollups-2026-Q4", 1000)},
		Months:     []control.Month{asked("chunks-2026-Q4")}})
	require.Equal(t, []string{"chunks-2026-Q4 hot - 2000->2000", "rollups-2026-Q4 base - 1000->1000",
		"chunks-2027-Q1 next create 0->400", "rollups-2027-Q1 base create 0->1000"}, lines(steps))
}
