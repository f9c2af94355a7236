package control_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func newDirectory(t *testing.T) (*control.Directory, *storetest.Documents, *atomic.Pointer[time.Time]) {
	docs := storetest.NewDocuments(t)
	var now atomic.Pointer[time.Time]
	now.Store(&noon)
	return control.NewDirectory(control.DirectoryConfig{
		Documents: docs, Now: func() time.Time { return *now.Load() },
		Lead: 2 * time.Hour, Margin: 15 * time.Minute, Retention: 90 * 24 * time.Hour,
	}), docs, &now
}

func TestFirstSnapshotIsEmptyAndPlacesNothing(t *testing.T) {
	d, _, _ := newDirectory(t)
	v := d.Snapshot()
	require.True(t, v.ReadAt.IsZero())
	require.False(t, v.CanPlace(0))
	require.Empty(t, v.Tenants())
	require.False(t, v.HasContainer("chunks-2026-11"))
}

// Rule W1: a copy places event times up to the lead minus the margin after it was read.
func TestSnapshotPlacesOnlyWithinLead(t *testing.T) {
	d, _, _ := newDirectory(t)
	v, err := d.Refresh(t.Context())
	require.NoError(t, err)
	bound := noon.Add(2*time.Hour - 15*time.Minute).UnixMilli()
	require.True(t, v.CanPlace(0))
	require.True(t, v.CanPlace(bound-1))
	require.False(t, v.CanPlace(bound))
}

// The clock is ahead until the store answers: a copy is no younger than its read.
func TestSnapshotIsReadWhileTheClockIsCorrected(t *testing.T) {
	d, docs, now := newDirectory(t)
	ahead := noon.Add(time.Hour)
	now.Store(&ahead)
	docs.Fault = func(string, string, string) *storetest.Fault {
		now.Store(&noon)
		return nil
	}
	v, err := d.Refresh(t.Context())
	require.NoError(t, err)
	require.False(t, v.ReadAt.After(noon), v.ReadAt)
}

func TestRegister(t *testing.T) {
	d, docs, _ := newDirectory(t)
	v, err := d.Register(t.Context(), "acme")
	require.NoError(t, err)
	require.Same(t, v, d.Snapshot())
	acme, ok := v.Tenant("acme")
	require.True(t, ok)
	require.Equal(t, noon, acme.Created)
	require.Equal(t, 90*24*time.Hour, acme.Retention)
	require.Equal(t, "acme~4r", acme.Placement.Key("m1", 1, 0).TenantShard, "the first epoch covers all days")

	var creates int
	docs.Fault = func(op, _, _ string) *storetest.Fault {
		if op == storetest.OpCreate {
			creates++
		}
		return nil
	}
	_, err = d.Register(t.Context(), "acme")
	require.NoError(t, err)
	require.Zero(t, creates, "a known tenant costs nothing")

	// Another process knows other defaults; the tenant stays as it is.
	other := control.NewDirectory(control.DirectoryConfig{Documents: docs, Slots: 16})
	v, err = other.Register(t.Context(), "acme")
	require.NoError(t, err)
	acme, _ = v.Tenant("acme")
	require.Equal(t, 90*24*time.Hour, acme.Retention)
	require.Len(t, acme.Placement.Visits(nil, telemetry.Range{From: 0, To: 1}), sharding.DefaultSlots)

	_, err = d.Register(t.Context(), "dlq")
	require.ErrorContains(t, err, "reserved")
}

// A create with a lost answer is an error for the caller; a second call finds the tenant.
func TestRegisterAfterAnUnknownOutcome(t *testing.T) {
	for _, applied := range []bool{true, false} {
		d, docs, _ := newDirectory(t)
		broken := errors.New("connection reset")
		docs.Fault = func(op, _, _ string) *storetest.Fault {
			if op == storetest.OpCreate {
				return &storetest.Fault{Applied: applied, Err: broken}
			}
			return nil
		}
		_, err := d.Register(t.Context(), "acme")
		require.ErrorIs(t, err, broken)
		docs.Fault = nil
		v, err := d.Register(t.Context(), "acme")
		require.NoError(t, err)
		require.Len(t, v.Tenants(), 1)
	}
}

func TestWritesWaitForLaggingReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, docs, _ := newDirectory(t)
		var lags atomic.Int32
		docs.Lagging = func(kind string) bool { return kind != tenant.KindEpoch && lags.Add(-1) >= 0 }
		lags.Store(8)
		v, err := d.Register(t.Context(), "acme")
		require.NoError(t, err)
		require.Len(t, v.Tenants(), 1)
		lags.Store(6)
		require.NoError(t, d.AskMonth(t.Context(), "chunks-2026-11", ""))
		require.True(t, d.Snapshot().HasContainer("chunks-2026-11"))
	})
}

func TestAddEpoch(t *testing.T) {
	d, _, now := newDirectory(t)
	ctx := t.Context()
	tomorrow := telemetry.DayOf(noon.UnixMilli()) + 1
	e := sharding.Epoch{From: tomorrow, Slots: sharding.Spread("acme", 8), Dedicated: true}
	require.ErrorContains(t, d.AddEpoch(ctx, "acme", e), "no such tenant")
	_, err := d.Register(ctx, "acme")
	require.NoError(t, err)

	late := noon.Add(10*time.Hour + time.Second)
	now.Store(&late)
	err = d.AddEpoch(ctx, "acme", e)
	require.ErrorContains(t, err, "2026-11-21T00:00:00Z")
	require.ErrorContains(t, err, "2026-11-20T22:00:01Z")

	now.Store(&noon)
	require.Error(t, d.AddEpoch(ctx, "acme", sharding.Epoch{From: tomorrow}), "no slots")
	require.NoError(t, d.AddEpoch(ctx, "acme", e))
	require.ErrorIs(t, d.AddEpoch(ctx, "acme", e), store.ErrExists)
	v, err := d.Refresh(ctx)
	require.NoError(t, err)
	acme, _ := v.Tenant("acme")
	require.Equal(t, "chunks-2026-11", acme.Placement.Key("m1", tomorrow-1, 0).Container)
	require.Equal(t, "chunks-acme-2026-11", acme.Placement.Key("m1", tomorrow, 0).Container)
}

// An epoch that appears while the tenants are being read belongs to a tenant that the copy may not have.
func TestEpochWithoutTenantIsIgnored(t *testing.T) {
	d, docs, _ := newDirectory(t)
	_, err := docs.Create(t.Context(), store.Document{Kind: tenant.KindEpoch, ID: "globex.20270101",
		Body: []byte(`{"tenant":"globex","epoch":{"from":20819,"slots":[1]}}`)})
	require.NoError(t, err)
	v, err := d.Refresh(t.Context())
	require.NoError(t, err)
	require.Empty(t, v.Tenants())
}

func TestMonthStates(t *testing.T) {
	d, docs, now := newDirectory(t)
	ctx := t.Context()
	const name = "chunks-2026-11"
	require.Error(t, d.AskMonth(ctx, "catalog", ""))
	require.NoError(t, d.AskMonth(ctx, name, ""))
	require.True(t, d.Snapshot().HasContainer(name))

	var ops int
	docs.Fault = func(string, string, string) *storetest.Fault { ops++; return nil }
	require.NoError(t, d.AskMonth(ctx, name, ""))
	require.Zero(t, ops, "it is remembered")

	state := func() control.MonthState {
		v, err := d.Refresh(ctx)
		require.NoError(t, err)
		require.Len(t, v.Containers(), 1)
		require.Equal(t, v.Containers()[0].State == control.MonthAsked, v.HasContainer(name))
		return v.Containers()[0].State
	}
	require.False(t, d.Snapshot().Expired(name))
	require.False(t, d.Snapshot().Expired("chunks-2026-12"), "one that nobody asked for is not expired")
	mark := func(m control.Month, state control.MonthState) control.Month {
		m, err := d.Mark(ctx, m, state)
		require.NoError(t, err)
		return m
	}
	asked := d.Snapshot().Month(name)
	expired := mark(asked, control.MonthExpired)
	require.Equal(t, control.MonthExpired, state())
	require.True(t, d.Snapshot().Expired(name))
	require.NoError(t, d.AskMonth(ctx, name, ""))
	require.Equal(t, control.MonthExpired, state(), "only provision takes it back")
	again := mark(expired, control.MonthAsked)
	require.Equal(t, control.MonthAsked, state())

	_, err := d.Mark(ctx, expired, control.MonthDropping)
	require.ErrorIs(t, err, store.ErrChanged, "it was decided by what is no longer stored")
	require.ErrorIs(t, d.CheckUnchanged(ctx, expired), store.ErrChanged)
	dropping := mark(mark(again, control.MonthExpired), control.MonthDropping)
	require.NoError(t, d.CheckUnchanged(ctx, dropping))
	require.True(t, d.Snapshot().Expired(name))
	require.NoError(t, d.AskMonth(ctx, name, ""))
	require.Equal(t, control.MonthDropping, state(), "there is no way back")
	mark(dropping, control.MonthDropped)
	require.Equal(t, control.MonthDropped, state())

	later := noon.Add(time.Hour)
	now.Store(&later)
	require.NoError(t, d.AskMonth(ctx, name, ""))
	require.Equal(t, control.MonthAsked, state())
	require.Equal(t, later, d.Snapshot().Containers()[0].Asked)
	require.Equal(t, noon, d.Snapshot().Month(name).Dropped, "it is not made again at once")
}

// A snapshot that has grown old says no longer that chunks may be stored in a container (rule X4).
func TestOldSnapshotLetsNobodyWrite(t *testing.T) {
	d, docs, now := newDirectory(t)
	ctx := t.Context()
	const name = "chunks-2026-05"
	require.NoError(t, d.AskMonth(ctx, name, ""))
	other := control.NewDirectory(control.DirectoryConfig{Documents: docs, Now: func() time.Time { return *now.Load() }})
	v, err := other.Refresh(ctx)
	require.NoError(t, err)
	_, err = other.Mark(ctx, v.Month(name), control.MonthExpired)
	require.NoError(t, err)

	passes := func(d time.Duration) {
		later := now.Load().Add(d)
		now.Store(&later)
	}
	passes(control.SnapshotLife - time.Second)
	require.NoError(t, d.AskMonth(ctx, name, ""))
	require.True(t, d.Snapshot().HasContainer(name), "it may be as old as that")
	passes(time.Second)
	require.NoError(t, d.AskMonth(ctx, name, ""))
	require.True(t, d.Snapshot().Expired(name))
}

// Thousands of bins may wait for one month: it is asked for once.
func TestConcurrentAskMonthWritesOnce(t *testing.T) {
	d, docs, _ := newDirectory(t)
	var creates atomic.Int32
	docs.Fault = func(op, _, _ string) *storetest.Fault {
		if op == storetest.OpCreate {
			creates.Add(1)
		}
		return nil
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if err := d.AskMonth(t.Context(), "chunks-2026-11", ""); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, creates.Load())
}

// Callers that come while a read is under way share the next one; none gets an answer that began before it asked.
func TestConcurrentRefreshesShareOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := storetest.NewDocuments(t)
		gate := make(chan struct{})
		var lists int
		docs.Fault = func(_, kind, _ string) *storetest.Fault {
			if kind == tenant.Kind {
				lists++
				<-gate
			}
			return nil
		}
		d := control.NewDirectory(control.DirectoryConfig{Documents: docs})
		views := make(chan *control.Snapshot, 9)
		refresh := func() {
			v, err := d.Refresh(t.Context())
			if err != nil {
				t.Error(err)
			}
			views <- v
		}
		go refresh()
		synctest.Wait()
		time.Sleep(time.Minute)
		asked := time.Now()
		for range 8 {
			go refresh()
		}
		synctest.Wait()
		close(gate)
		first := <-views
		second := <-views
		require.True(t, first.ReadAt.Before(asked))
		require.False(t, second.ReadAt.Before(asked))
		for range 7 {
			require.Same(t, second, <-views)
		}
		require.Equal(t, 2, lists)
	})
}

// The caller who does the shared read may give up; those who joined read again.
func TestRefreshSurvivesReaderCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := storetest.NewDocuments(t)
		ctx, cancel := context.WithCancel(t.Context())
		docs.Fault = func(_, kind, _ string) *storetest.Fault {
			if err := ctx.Err(); err == nil {
				<-ctx.Done()
				return &storetest.Fault{Err: ctx.Err()}
			}
			return nil
		}
		d := control.NewDirectory(control.DirectoryConfig{Documents: docs})
		results := make(chan error, 3)
		go func() { _, err := d.Refresh(ctx); results <- err }() // reads
		synctest.Wait()
		go func() { _, err := d.Refresh(ctx); results <- err }() // leads the next one
		synctest.Wait()
		go func() { _, err := d.Refresh(t.Context()); results <- err }() // joins it
		synctest.Wait()
		cancel()
		var failed int
		for range 3 {
			if err := <-results; err != nil {
				require.ErrorIs(t, err, context.Canceled)
				failed++
			}
		}
		require.Equal(t, 2, failed)
	})
}

func TestRunRefreshesSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := storetest.NewDocuments(t)
		var down atomic.Bool
		docs.Fault = func(string, string, string) *storetest.Fault {
			if down.Load() {
				return &storetest.Fault{Err: errors.New("no connection")}
			}
			return nil
		}
		d := control.NewDirectory(control.DirectoryConfig{Documents: docs, Every: 30 * time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		synctest.Wait()
		require.Equal(t, time.Now(), d.Snapshot().ReadAt)
		down.Store(true)
		old := d.Snapshot()
		time.Sleep(45 * time.Second)
		synctest.Wait()
		require.Same(t, old, d.Snapshot(), "a failed refresh leaves the copy as it is")
		down.Store(false)
		time.Sleep(15 * time.Second)
		synctest.Wait()
		require.Equal(t, time.Now(), d.Snapshot().ReadAt)
		cancel()
		require.NoError(t, <-done)
	})
}

func TestRetention(t *testing.T) {
	day := telemetry.DayOf(noon.UnixMilli())
	for _, c := range []struct {
		retention time.Duration
		after     int64 // of the day's end, ms
		expired   bool
		ttl       int
	}{
		{0, 1 << 40, false, 0},
		{time.Hour, -1000, false, 3601},
		{time.Hour, 0, false, 3600},
		{time.Hour, 1, false, 3600},
		{time.Hour, 3_599_999, false, 1},
		{time.Hour, 3_600_000, true, 1},
		{time.Hour, 9_999_999, true, 1},
		{100 * 365 * 24 * time.Hour, 0, false, 1<<31 - 1},
	} {
		tenant := tenant.Tenant{Retention: c.retention}
		name := fmt.Sprintf("%s, %d", c.retention, c.after)
		require.Equal(t, c.expired, tenant.Expired(day, day.End()+c.after), name)
		require.Equal(t, c.ttl, tenant.TTL(day, day.End()+c.after), name)
	}
}

// A producer that makes up times can't have a container made for each month there ever was.
func TestMonthsAskedByReadingsAreBounded(t *testing.T) {
	docs := storetest.NewDocuments(t)
	now := noon
	d := control.NewDirectory(control.DirectoryConfig{Documents: docs, Now: func() time.Time { return now }, MaxMonths: 3})
	ctx := t.Context()
	month := func(i int) string {
		m := telemetry.MonthOf(noon.UnixMilli()) - telemetry.Month(i)
		return sharding.Container("", sharding.Month.Of(m.FirstDay()))
	}
	for i := range 3 {
		require.NoError(t, d.AskMonth(ctx, month(i), "acme"))
	}
	require.NoError(t, d.AskMonth(ctx, month(2), "acme"), "it is there")
	require.ErrorIs(t, d.AskMonth(ctx, month(3), "acme"), control.ErrMonthLimit)
	require.False(t, d.Snapshot().MayServe(month(3)))
	require.False(t, d.Snapshot().MayAsk("acme", now))

	require.NoError(t, d.AskMonth(ctx, month(3), "globex"), "one tenant's bound is not another's")
	require.NoError(t, d.AskMonth(ctx, month(3), "acme"), "whoever asked")
	require.NoError(t, d.AskMonth(ctx, month(4), ""), "an operator is not bounded")
	require.True(t, d.Snapshot().MayAsk("globex", now))

	// Another process reads the same; and a month later there are new ones.
	other := control.NewDirectory(control.DirectoryConfig{Documents: docs, Now: func() time.Time { return now },
		MaxMonths: 3})
	require.ErrorIs(t, other.AskMonth(ctx, month(5), "acme"), control.ErrMonthLimit)
	now = now.Add(control.MonthLimitWindow)
	require.NoError(t, other.AskMonth(ctx, month(5), "acme"))
	require.Equal(t, "acme", other.Snapshot().Containers()[0].By)
}

func TestGrantBackfill(t *testing.T) {
	d, docs, _ := newDirectory(t)
	r := telemetry.Range{From: 1000, To: 2000}
	b, err := d.GrantBackfill(t.Context(), "acme", r, time.Hour)
	require.NoError(t, err)
	second, err := d.GrantBackfill(t.Context(), "acme", r, time.Hour)
	require.NoError(t, err)
	require.NotEqual(t, b.ID, second.ID)
	require.GreaterOrEqual(t, len(b.ID), 26, "128 bits that nobody guesses")

	v, err := control.NewDirectory(control.DirectoryConfig{Documents: docs}).Refresh(t.Context())
	require.NoError(t, err)
	got, ok := v.Backfill(b.ID)
	require.True(t, ok)
	require.Equal(t, b, got)
	for _, c := range []struct {
		tenant string
		at     int64
		now    time.Time
		want   bool
	}{
		{"acme", 1000, noon, true},
		{"acme", 1999, noon.Add(time.Hour - 1), true},
		{"acme", 2000, noon, false},
		{"acme", 999, noon, false},
		{"globex", 1500, noon, false},
		{"acme", 1500, noon.Add(time.Hour), false},
	} {
		require.Equal(t, c.want, got.Covers(c.tenant, c.at, c.now), "%+v", c)
	}
	_, ok = v.Backfill("none such")
	require.False(t, ok)
	for _, wrong := range []struct {
		tenant string
		r      telemetry.Range
		lasts  time.Duration
	}{{"ACME", r, time.Hour}, {"acme", telemetry.Range{From: 5, To: 5}, time.Hour}, {"acme", r, 0}} {
		_, err := d.GrantBackfill(t.Context(), wrong.tenant, wrong.r, wrong.lasts)
		require.Error(t, err)
	}
}
