package catalogupdates_test

import (
	"testing"
	"time"

	"binnacle/ingest/catalogupdates"
	"binnacle/internal/catalog"
	"binnacle/internal/retry"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

const (
	hour   = int64(time.Hour / time.Millisecond)
	week   = 7 * 24 * time.Hour
	linger = time.Minute
)

// fleet is Updates of one tenant's devices, with a clock.
type fleet struct {
	*catalogupdates.Updates
	tenant  *catalogupdates.Tenant
	devices map[string]*catalogupdates.Device
	now     time.Time
}

func newFleet(every time.Duration) *fleet {
	u := catalogupdates.New(catalogupdates.Config{Every: every, Wait: time.Second, Linger: linger,
		Retry: func(least time.Duration) retry.Schedule { return retry.Schedule{First: time.Second, Least: least} }})
	return &fleet{&u, &catalogupdates.Tenant{Name: "acme"}, map[string]*catalogupdates.Device{},
		time.UnixMilli(100 * hour)}
}

func (f *fleet) device(id string) *catalogupdates.Device {
	if f.devices[id] == nil {
		d := catalogupdates.NewDevice(f.tenant, id)
		d.InUse = true
		f.devices[id] = &d
	}
	return f.devices[id]
}

// observe observes a reading of a metric, and reports whether it has a new name.
func (f *fleet) observe(id, metric string, offset, at int64) bool {
	return f.Observe(f.device(id), catalogupdates.Shown{Offset: offset, Reading: &telemetry.Reading{
		Tenant: "acme", Device: id, Time: at, Fields: []telemetry.Field{{Metric: metric, Value: telemetry.FloatValue(1)}}}})
}

// next returns the updates that are due after a pause.
func (f *fleet) next(pause time.Duration) []*catalogupdates.Update {
	f.now = f.now.Add(pause)
	due := f.Next(f.now, false)
	f.Show(func(_, _ string) {})
	return due
}

// done ends an update as the catalog does that has its times now.
func (f *fleet) done(u *catalogupdates.Update) {
	for _, e := range u.Entries {
		u.Visible = append(u.Visible, catalogupdates.Times{First: e.First, Last: e.Last})
	}
	f.Done(u, f.now)
}

// A name holds back the floor until the catalog has it; heads list the device until every reader sees that.
func TestNamesComeSoon(t *testing.T) {
	f := newFleet(week)
	require.True(t, f.observe("d1", "a", 5, hour))
	require.False(t, f.observe("d1", "a", 6, hour))
	require.True(t, f.observe("d2", "b", 7, hour))
	floor, ok := f.Floor()
	require.True(t, ok)
	require.EqualValues(t, 5, floor)
	due := f.next(0)
	require.Len(t, due, 1, "devices of a tenant share an update")
	require.Len(t, due[0].Entries, 2)
	require.Equal(t, []catalog.Metric{{Name: "a", Kind: telemetry.Float}}, due[0].Entries[0].Metrics)

	require.True(t, f.observe("d1", "c", 9, hour), "while the update is in flight")
	require.Empty(t, f.next(10*time.Second), "one update of a device at a time")
	f.done(due[0])
	floor, ok = f.Floor()
	require.True(t, ok)
	require.EqualValues(t, 9, floor)
	due = f.next(time.Second)
	require.Len(t, due, 1)
	require.Len(t, due[0].Entries, 1)
	f.done(due[0])
	_, ok = f.Floor()
	require.False(t, ok)
	require.False(t, f.Busy())

	require.Len(t, f.tenant.Unseen(), 2)
	version := f.tenant.Version
	f.next(linger + time.Second)
	require.Empty(t, f.tenant.Unseen())
	require.Greater(t, f.tenant.Version, version)
}

// Later times are written once a period, and an earlier one at once.
func TestTimesComeNowAndThen(t *testing.T) {
	f := newFleet(week)
	f.observe("d", "a", 1, 50*hour)
	f.done(f.next(0)[0])
	f.observe("d", "a", 2, 51*hour)
	require.True(t, f.device("d").TimesPending())
	require.Empty(t, f.next(time.Hour))
	_, ok := f.Floor()
	require.False(t, ok, "a time holds nothing back")

	f.observe("d", "a", 3, 49*hour)
	due := f.next(time.Hour)
	require.Len(t, due, 1)
	require.Equal(t, 49*hour, due[0].Entries[0].First)
	f.done(due[0])

	f.observe("d", "a", 4, 52*hour)
	due = f.next(2 * week)
	require.Len(t, due, 1)
	require.Equal(t, []bool{true}, due[0].Times)
	require.Len(t, f.tenant.Unseen(), 1, "heads list the times until every reader sees them")
	f.done(due[0])
	f.next(linger + time.Second)
	require.Empty(t, f.tenant.Unseen())
}

// With every chunk: what was stored must be listed before it is committed.
func TestTimesComeWithEachChunk(t *testing.T) {
	f := newFleet(-1)
	f.observe("d", "a", 1, 50*hour)
	f.done(f.next(0)[0])
	f.observe("d", "a", 2, 51*hour)
	require.Empty(t, f.next(time.Hour))
	f.ObserveStored(f.device("d"), 2)
	floor, ok := f.Floor()
	require.True(t, ok)
	require.EqualValues(t, 2, floor)
	require.Equal(t, 51*hour, f.next(time.Second)[0].Entries[0].Last)
}

// An update that fails is made again after a pause, and holds back what it held back.
func TestFailedUpdates(t *testing.T) {
	f := newFleet(week)
	f.observe("d", "a", 5, hour)
	f.Failed(f.next(0)[0], 10*time.Second, f.now)
	floor, _ := f.Floor()
	require.EqualValues(t, 5, floor)
	require.True(t, f.Busy())
	require.Empty(t, f.next(time.Second))
	due := f.next(time.Minute)
	require.Len(t, due, 1)
	f.Done(due[0], f.now) // the catalog will never take it
	_, ok := f.Floor()
	require.False(t, ok, "the catalog only serves lists")
}

// A device that is erased or forgotten leaves nothing behind; its names are new again.
func TestForgottenDevices(t *testing.T) {
	f := newFleet(week)
	empty := f.Bytes()
	f.observe("d", "a", 5, hour)
	require.Greater(t, f.Bytes(), empty)
	f.Reset(f.device("d"))
	_, ok := f.Floor()
	require.False(t, ok)
	require.Equal(t, empty, f.Bytes())
	require.Empty(t, f.tenant.Unseen())
	require.True(t, f.observe("d", "a", 6, hour))
	f.done(f.next(0)[0])
	f.Forget(f.device("d"))
	require.Empty(t, f.tenant.Unseen())
	require.Equal(t, empty, f.Bytes())
}

// An update in flight does not count once its device is erased: its failure asks for no entry of what is gone, and its
// success does not list rows of after the order.
func TestErasedWhileUpdating(t *testing.T) {
	f := newFleet(week)
	f.observe("d", "a", 5, hour)
	u := f.next(0)[0]
	f.Reset(f.device("d"))
	f.Failed(u, 0, f.now)
	_, ok := f.Floor()
	require.False(t, ok)
	require.False(t, f.device("d").Busy())
	require.Empty(t, f.next(time.Minute))

	f.observe("d", "a", 6, hour)
	u = f.next(time.Minute)[0]
	f.Reset(f.device("d"))
	f.device("d").Spans(hour, hour)
	f.done(u)
	require.True(t, f.device("d").TimesPending())
	f.done(f.next(time.Minute)[0])
	require.False(t, f.device("d").TimesPending())
}

// What is left at a shutdown is written at once, times too.
func TestDrain(t *testing.T) {
	f := newFleet(week)
	f.observe("d", "a", 1, 50*hour)
	f.done(f.next(0)[0])
	f.Drain()
	f.observe("d", "a", 2, 51*hour)
	f.Queue(f.device("d"))
	require.Len(t, f.next(time.Second), 1)
}
