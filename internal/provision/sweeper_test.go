package provision_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/control"
	"binnacle/internal/provision"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

// sweepWorld is a store with a chain of three chunks for each device and day, of two tenants.
type sweepWorld struct {
	t      *testing.T
	memory *storetest.Memory
	docs   *storetest.Documents
	dir    *control.Directory
	today  telemetry.Day
}

const sweptDays = 40 // before today

func newSweepWorld(t *testing.T) *sweepWorld {
	w := &sweepWorld{t: t, docs: storetest.NewDocuments(t), today: telemetry.DayOf(time.Now().UnixMilli())}
	w.dir = control.NewDirectory(control.DirectoryConfig{Documents: w.docs, Retention: 400 * 24 * time.Hour})
	w.memory = storetest.NewMemory(t)
	for _, tenant := range []string{"acme", "globex"} {
		_, err := w.dir.Register(t.Context(), tenant)
		require.NoError(t, err)
	}
	for day := w.today - sweptDays; day < w.today; day++ {
		for n := range uint32(3) {
			w.create("acme", "pump-1", chunk.ID{Day: day, Number: n})
			w.create("acme", "meter-1", chunk.ID{Day: day, Number: n})
			w.create("globex", "pump-1", chunk.ID{Day: day, Number: n})
		}
	}
	return w
}

func (w *sweepWorld) tenant(name string) tenant.Tenant {
	v, err := w.dir.Refresh(context.Background())
	require.NoError(w.t, err)
	t, ok := v.Tenant(name)
	require.True(w.t, ok)
	return t
}

func (w *sweepWorld) create(tenant, device string, id chunk.ID) {
	id.Stream = 1
	key := w.tenant(tenant).Placement.Key(device, id.Day, id.Number)
	if !w.dir.Snapshot().HasContainer(key.Container) {
		require.NoError(w.t, w.dir.AskMonth(context.Background(), key.Container, ""))
		w.memory.CreateContainer(key.Container)
	}
	after := int64(id.Number)*10 - 1
	doc, err := chunk.Encode(chunk.Header{ID: id, TenantShard: key.TenantShard, Device: device, First: after + 1,
		Through: after + 10, After: after, TTL: 1000, Readings: 1}, chunk.Frame{Groups: []chunk.Group{{
		Times:   []int64{id.Day.Start() + int64(id.Number)},
		Columns: []chunk.Column{{Metric: "v", Kind: telemetry.Float, Bits: []uint64{1}}},
	}}})
	require.NoError(w.t, err)
	_, err = w.memory.Create(context.Background(), key, id.String(), doc)
	require.NoError(w.t, err)
}

func (w *sweepWorld) set(retention string, found ...tenant.Tagged) {
	change, err := tenant.RetentionChange(retention, time.Now, found...)
	require.NoError(w.t, err)
	require.NoError(w.t, tenant.NewTenants(w.docs).Set(w.t.Context(), "acme", change))
}

func (w *sweepWorld) sweeper() *provision.Sweeper {
	return provision.NewSweeper(provision.SweeperConfig{Chunks: w.memory, Documents: w.docs, Snapshot: w.dir.Refresh,
		RUs: 1e9, Lease: control.NewLeases(w.docs, "test", time.Now),
		Actions: control.NewActions(w.docs, "test", quiet, time.Now)})
}

// stored returns the numbers that are stored of each chain of a device, by day.
func (w *sweepWorld) stored(tenant, device string) map[telemetry.Day][]uint32 {
	out := make(map[telemetry.Day][]uint32)
	for _, d := range w.memory.Documents() {
		id, err := chunk.ParseID(d.ID)
		require.NoError(w.t, err)
		if d.Key.Device == device && strings.HasPrefix(d.Key.TenantShard, tenant+"~") {
			out[id.Day] = append(out[id.Day], id.Number)
		}
	}
	return out
}

// requireKept requires that of a device the days from one on are stored whole, and none before.
func (w *sweepWorld) requireKept(tenant, device string, from telemetry.Day) {
	w.t.Helper()
	all := w.stored(tenant, device)
	require.Len(w.t, all, int(w.today-max(from, w.today-sweptDays)), "%s %s", tenant, device)
	for day, numbers := range all {
		require.GreaterOrEqual(w.t, day, from)
		require.Equal(w.t, []uint32{0, 1, 2}, numbers, "%s %s %s", tenant, device, day)
	}
}

// rounds returns a function that makes a round of a sweeper after a time.
func (w *sweepWorld) rounds() func(after time.Duration) {
	s := w.sweeper()
	return func(after time.Duration) {
		w.t.Helper()
		time.Sleep(after)
		require.NoError(w.t, s.Round(w.t.Context()))
	}
}

func TestHiddenDaysAreSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSweepWorld(t)
		round := w.rounds()
		first := w.today - sweptDays
		round(time.Hour)
		w.set("default=30d,meter-*=10y")
		round(time.Hour)
		w.requireKept("acme", "pump-1", first) // it may be taken back
		round(2 * time.Hour)
		w.requireKept("acme", "pump-1", first) // a reader may not know it
		round(time.Hour + time.Minute)
		w.requireKept("acme", "pump-1", w.today-30)
		scans := w.memory.Calls(storetest.Headers)
		round(10 * time.Minute)
		require.Equal(t, scans, w.memory.Calls(storetest.Headers), "what is swept costs nothing")
		round(24 * time.Hour)
		w.requireKept("acme", "pump-1", w.today-29)
		require.Equal(t, scans+1, w.memory.Calls(storetest.Headers), "a day became hidden")
		w.create("acme", "pump-1", chunk.ID{Day: w.today + 3}) // under the new retention
		round(60 * 24 * time.Hour)
		require.Equal(t, map[telemetry.Day][]uint32{w.today + 3: {0}}, w.stored("acme", "pump-1"), "its time to live will do")
		w.requireKept("acme", "meter-1", first)
		w.requireKept("globex", "pump-1", first)

		actions, err := control.NewActions(w.docs, "", quiet, time.Now).List(t.Context(), time.Time{})
		require.NoError(t, err)
		require.Len(t, actions, 3)
		require.Equal(t, "retention sweep", actions[0].Verb)
		require.Equal(t, map[string]string{"days": "31", "from": "19991101", "to": (first + 9).String()}, actions[0].Detail)
		require.Equal(t, control.OutcomeDone, actions[2].Outcome)
		progress, err := tenant.ReadSweep(t.Context(), w.docs, "acme")
		require.NoError(t, err)
		require.EqualValues(t, 3*sweptDays, progress.Chunks)
	})
}

// A sweep deletes the days that a device's tag hides two hours after the tag hides them: all days up to then.
func TestDaysHiddenByTagAreSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSweepWorld(t)
		round := w.rounds()
		first := w.today - sweptDays
		tag := tenant.RetentionTag{Name: "site", Value: "oslo"}
		w.set("{site=oslo}=5d,default=10y", tenant.Tagged{tag: nil})
		round(24 * time.Hour)
		w.requireKept("acme", "pump-1", first)
		change, differs := w.tenant("acme").ConfirmTagged(tenant.Tagged{tag: {"pump-1"}}, time.Now, []string{"pump-1"})
		require.True(t, differs)
		require.NoError(t, tenant.NewTenants(w.docs).Set(t.Context(), "acme", change))
		round(4*time.Hour - time.Minute)
		require.True(t, w.tenant("acme").Hides("pump-1", first, time.Now().UnixMilli()))
		w.requireKept("acme", "pump-1", first) // a reader may not know it
		round(2 * time.Minute)
		w.requireKept("acme", "pump-1", w.today-4)
		w.requireKept("acme", "meter-1", first)
		scans := w.memory.Calls(storetest.Headers)
		round(10 * time.Minute)
		require.Equal(t, scans, w.memory.Calls(storetest.Headers), "what is swept costs nothing")
	})
}

// A retention that is set when a day has just been hidden does not let a pass delete that day early.
func TestNewRetentionDeletesNothingEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSweepWorld(t)
		round := w.rounds()
		w.set("default=30d")
		round(24*time.Hour - time.Minute)
		w.requireKept("acme", "pump-1", w.today-30)
		round(30 * time.Minute)
		w.set("default=20d")
		round(time.Hour)
		w.requireKept("acme", "pump-1", w.today-30) // hidden for 89 minutes
		w.set("default=30d")                        // which takes the other one back
		round(30 * time.Minute)
		w.requireKept("acme", "pump-1", w.today-30)
		round(2 * time.Minute)
		w.requireKept("acme", "pump-1", w.today-29)
	})
}

// A pass ends where no container of the tenant is left, as provision has dropped them meanwhile.
func TestSweepWithoutContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSweepWorld(t)
		w.set("default=1d")
		time.Sleep(5 * time.Hour)
		w.memory.Fault = func(op storetest.Op) *storetest.Fault {
			if op.Kind == storetest.Headers && w.memory.Calls(storetest.Delete) > 0 { // behind the first day with chunks
				return &storetest.Fault{Err: errors.New("busy")}
			}
			return nil
		}
		s := w.sweeper()
		require.ErrorContains(t, s.Round(t.Context()), "busy")
		for _, m := range w.dir.Snapshot().Containers() {
			_, err := w.dir.Mark(t.Context(), m, control.MonthExpired)
			require.NoError(t, err)
		}
		was, err := tenant.ReadSweep(t.Context(), w.docs, "acme")
		require.NoError(t, err)
		require.NotZero(t, was.UpTo)
		require.NoError(t, s.Round(t.Context()))
		now, err := tenant.ReadSweep(t.Context(), w.docs, "acme")
		require.NoError(t, err)
		require.Equal(t, was.UpTo, now.Done)
		require.Zero(t, now.UpTo)
	})
}
