package provision_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/control"
	"binnacle/internal/heat"
	"binnacle/internal/provision"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

// load is the heat of one minute, in one container.
type load struct {
	container string
	rus       float64 // a second
}

func (l *load) Frames(_ context.Context, span heat.Span) ([]heat.Frame, error) {
	var a heat.Amount
	a.RUs[heat.ChunkWrites] = 60 * l.rus / 2
	cell := heat.Cell{Key: heat.KeyOf(l.container, "acme~x"), Amount: a}
	at := heat.Frame{From: span.To - heat.Minute, To: span.To, Cells: []heat.Cell{cell}}
	return []heat.Frame{at, at}, nil // of two writers
}

func (l *load) Weights(context.Context, telemetry.Day) ([]heat.Weights, error) { return nil, nil }

// newSmall is a bench over a database with throughput to share.
func newSmall(t *testing.T, now func() time.Time, l *load, profile provision.Profile) *bench {
	b := newBench(t, now, func(pc *provision.Config, dc *control.DirectoryConfig) {
		pc.Profile, pc.Heat, pc.Policy = profile, l, provision.DefaultPolicy()
		pc.Policy.RollupsRUs = 2000
		pc.Base = []store.ContainerState{{Name: store.ControlContainer, Throughput: store.Throughput{RUs: 400}}}
		dc.Retention = 400 * day
	})
	b.containers[store.Database] = seen(store.Database, 400)
	for _, name := range store.BaseContainers() {
		b.containers[name] = store.ContainerState{Name: name, Throughput: store.Throughput{Shared: true}}
	}
	return b
}

// bill is the list price of a month of throughput, and of a GB for each container, which is the least.
func (b *bench) bill() (dollars float64) {
	for _, s := range b.containers {
		dollars += ru.Price(provision.Priced(s)).Most
	}
	return dollars
}

// A small fleet pays for the least that is sold, two years long, with the next container standing when a year begins.
func TestSmallBill(t *testing.T) {
	now := at("2026-11-23 12:00")
	b := newSmall(t, func() time.Time { return now }, &load{"chunks-2026", 20}, provision.Small)
	b.once(t)
	_, err := b.directory.Register(t.Context(), "acme")
	require.NoError(t, err)
	for month := range 26 {
		b.once(t)
		b.once(t)
		require.LessOrEqual(t, b.bill(), 50.0, "month %d", month)
		acme, _ := b.directory.Snapshot().Tenant("acme")
		for _, ahead := range []time.Duration{0, 71 * time.Hour} {
			require.Contains(t, b.containers, acme.Placement.ContainerOn(telemetry.DayOf(now.Add(ahead).UnixMilli())))
		}
		if month == 13 {
			now = at("2027-12-30 12:00")
			b.once(t)
			require.Contains(t, b.containers, "chunks-2028")
			require.InDelta(t, 25.61, b.bill(), 0.005, "%v", b.rus())
		}
		now = now.AddDate(0, 1, 0)
	}
	require.NotContains(t, b.containers, "chunks-2026", "nobody keeps it")
	require.NotContains(t, b.containers, "rollups-2026")
	for name, s := range b.containers {
		require.Equal(t, name != store.Database, s.Throughput.Shared, name)
	}
}

// What is shared follows the load: up at once, and down where it saves a fifth.
func TestSharedThroughputFollowsTheLoad(t *testing.T) {
	now := at("2026-11-23 12:00")
	l := &load{"chunks-2026", 20}
	b := newSmall(t, func() time.Time { return now }, l, provision.Small)
	b.once(t)
	b.once(t)
	for _, c := range []struct {
		rus  float64
		want int
	}{{390, 600}, {530, 800}, {480, 800}, {300, 500}, {1, 400}} {
		l.rus = c.rus
		now = now.Add(11 * time.Minute)
		b.once(t)
		b.once(t)
		require.Equal(t, c.want, b.rus()[store.Database], "%v", c)
	}
	l.container, l.rus = "chunks-elsewhere", 9000
	now = now.Add(11 * time.Minute)
	b.once(t)
	require.Equal(t, 400, b.rus()[store.Database], "it has throughput of its own")
}

// Auto begins small and becomes large from a day on, where that costs less; nothing is copied, and it stays so.
func TestAutoChangesToLarge(t *testing.T) {
	now := at("2026-11-23 12:00")
	l := &load{"chunks-2026", 20}
	b := newSmall(t, func() time.Time { return now }, l, provision.Auto)
	b.once(t)
	_, err := b.directory.Register(t.Context(), "acme")
	require.NoError(t, err)
	c, err := b.Compare(t.Context())
	require.NoError(t, err)
	require.Equal(t, 400, c.SharedRUs)
	require.InDelta(t, 924.63, c.Large.Least, 0.005, "916.88 of throughput, and a GB of 31 containers")
	require.Equal(t, 10_000.0, c.BreakEvenRUs, "it would be 15,700: that is more than a physical partition serves")
	for _, rus := range []float64{c.BreakEvenRUs / 1.5 * 0.99, c.BreakEvenRUs/1.5 + 1, 1} {
		l.rus = rus
		now = now.Add(time.Hour)
		b.once(t)
		b.once(t)
	}
	require.Equal(t, []sharding.PeriodEpoch{
		{From: telemetry.DayOf(now.UnixMilli()) + 1, Period: sharding.Year, Shared: true},
		{From: telemetry.DayOf(now.UnixMilli()) + 2, Period: sharding.Month},
	}, b.directory.Snapshot().Periods())
	acme, _ := b.directory.Snapshot().Tenant("acme")
	today := telemetry.DayOf(now.UnixMilli())
	require.Equal(t, "chunks-2026", acme.Placement.ContainerOn(today+1))
	require.Equal(t, "chunks-2026-11", acme.Placement.ContainerOn(today+2))
	require.True(t, b.containers["chunks-2026"].Throughput.Shared, "it stays where it is")
	require.Equal(t, 4000, b.rus()["chunks-2026-11"])
}

// An account whose database has nothing to share stays as it is.
func TestProfileOfAnOlderAccount(t *testing.T) {
	now := func() time.Time { return at("2026-11-23 12:00") }
	for _, profile := range []provision.Profile{provision.Small, provision.Auto, provision.Large, ""} {
		b := newSmall(t, now, &load{}, profile)
		delete(b.containers, store.Database)
		b.containers["chunks-2026-11"] = seen("chunks-2026-11", 400)
		_, err := b.Once(t.Context())
		require.Equal(t, profile == provision.Small, err != nil, "%v", err)
		_, err = b.Once(t.Context())
		require.Equal(t, profile == provision.Small, err != nil, "%v", err)
		if err != nil {
			require.ErrorIs(t, err, provision.ErrPeriod)
		}
		require.Empty(t, b.directory.Snapshot().Periods())
		require.Equal(t, 4000, b.rus()["chunks-2026-11"])
	}
}

// No more containers share throughput than may: others get their own.
func TestSharingIsBounded(t *testing.T) {
	found := provision.Found{Periods: []sharding.PeriodEpoch{{Period: sharding.Year, Shared: true}}}
	found.Containers = append(found.Containers, seen(store.Database, 400))
	for i := range 30 {
		found.Months = append(found.Months, asked(fmt.Sprint("chunks-", 1990+i)))
	}
	shared := 0
	for _, s := range provision.DefaultPolicy().Plan(at("2019-11-23 12:00"), found) {
		if s.Wanted.Shared {
			shared++
		} else if s.Action == provision.Create {
			require.Positive(t, s.Wanted.RUs)
		}
	}
	require.Equal(t, 25, shared)
}
