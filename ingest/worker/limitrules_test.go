package worker_test

import (
	"fmt"
	"testing"
	"time"

	"binnacle/binning"
	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/worker"
	"binnacle/internal/store"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

// A producer that sets timestamps ahead does not get tomorrow's share today.
func TestFutureTimestampsEarnNoTokens(t *testing.T) {
	w := newWorld(t, nil)
	l := w.limited(tenant.IngestLimits{Readings: 1, Burst: 10}, nil)
	for i := range 100 {
		w.publish("acme", "d", w.now, 1)
		w.log[i].Time = w.now.Add(time.Duration(i) * time.Minute).UnixMilli()
	}
	w.read(l)
	require.Equal(t, 11, has(l, "acme"))
}

// Timestamps that go back, as those of several producers do, take nothing away that was paid for.
func TestBackwardTimestampsCostNoTokens(t *testing.T) {
	w := newWorld(t, nil)
	l := w.limited(tenant.IngestLimits{Readings: 1, Burst: 1}, nil)
	w.now = w.now.Add(time.Minute)
	for i, back := range []time.Duration{10 * time.Second, 0, 10 * time.Second} {
		w.publish("acme", "d", w.now, 1)
		w.log[i].Time = w.now.Add(-back).UnixMilli()
	}
	w.read(l)
	require.Equal(t, 3, has(l, "acme"))
	require.Zero(t, l.Counts.Deferred, "not even for a moment")
}

// Of two rates the one that is passed is named.
func TestExceededRateIsNamed(t *testing.T) {
	for limit, values := range map[string]int{"values": 20, "readings": 1} {
		w := newWorld(t, nil)
		l := w.limited(tenant.IngestLimits{Readings: 10, Values: 100, Burst: 1}, nil)
		for range 30 {
			w.publish("acme", "d", w.now, values)
		}
		w.read(l)
		require.Equal(t, limit, l.Deferred().Deferrals("")[0].Limit)
		require.Equal(t, limit, l.Deferred().Excesses("")[0].Limit)
	}
}

// A topic that has grown lets a tenant have less in each partition from then on, also one that is known already.
func TestLimitSharesFollowPartitionCount(t *testing.T) {
	w := newWorld(t, nil)
	l := w.limited(tenant.IngestLimits{Readings: 1000, Burst: 1}, nil)
	w.publish("acme", "d", w.now, 1)
	w.read(l)
	l.Resume(worker.Assignment{Stream: 1, Position: 1, Partitions: 8})
	w.now = w.now.Add(time.Minute)
	taken := has(l, "acme")
	for range 2000 {
		w.publish("acme", "d", w.now, 1)
	}
	w.read(l)
	require.Equal(t, 501, has(l, "acme")-taken)
}

// A head shows deferrals to those who ask for them, and to nobody else.
func TestHeadReadListsDeferrals(t *testing.T) {
	w := newWorld(t, nil)
	l := w.limited(tenant.IngestLimits{DeviceReadings: 1, Burst: 1}, nil)
	for range 10 {
		w.publish("acme", "loud", w.now, 1)
	}
	w.publish("acme", "calm", w.now, 1)
	w.publish("globex", "calm", w.now, 1)
	w.read(l)
	for _, c := range []struct {
		tenant  string
		devices []string
		want    int
	}{{"acme", nil, 1}, {"acme", []string{"loud"}, 1}, {"acme", []string{"calm"}, 0}, {"globex", nil, 0}} {
		head := l.HeadRead(store.HeadRequest{Tenant: c.tenant, Devices: c.devices, Range: binning.All})
		require.Len(t, head.Deferrals, c.want, fmt.Sprint(c))
		for _, x := range head.Deferrals {
			require.Equal(t, "loud", x.Device)
		}
	}
}

// Series are counted by the day, also where readings have the metrics of the one before, or as many others.
func TestSeriesPerDayCount(t *testing.T) {
	w := newWorld(t, nil)
	l := w.limited(tenant.IngestLimits{Series: 3}, nil)
	for i, c := range []struct {
		ago    time.Duration
		values string
	}{
		{24 * time.Hour, `"a":1,"b":1`}, {0, `"a":1,"b":1`}, {0, `"c":1,"d":1`}, {24 * time.Hour, `"c":1,"d":1`},
		{0, `"a":1,"b":1,"c":1`},
	} {
		at := w.now.Add(-c.ago).UnixMilli()
		value := fmt.Sprintf(`{"tenant":"acme","device":"d","ts":%d,"values":{%s}}`, at, c.values)
		w.log = append(w.log, admit.Record{Offset: int64(i), Time: w.now.UnixMilli(), Value: []byte(value)})
	}
	w.read(l)
	var refused []int64
	for _, deadLetter := range w.deadLetters {
		refused = append(refused, deadLetter.Record.Offset)
	}
	require.Equal(t, []int64{2, 3}, refused)
}

// A dead letter of what had waited says which element of its record it is about.
func TestDeferredDeadLettersNameElement(t *testing.T) {
	w := newWorld(t, nil)
	l := w.limited(tenant.IngestLimits{DeviceReadings: 1, Burst: 1}, func(c *ingest.Config) { c.HeldFor = time.Second })
	for i := range 10 {
		at := w.now.UnixMilli() + int64(i)
		one := `{"tenant":"acme","device":%q,"ts":%d,"values":{"a":1}}`
		w.log = append(w.log, admit.Record{Offset: int64(i), Time: w.now.UnixMilli(), Value: fmt.Appendf(nil,
			"["+one+","+one+"]", fmt.Sprint("calm", i), at, "loud", at)})
	}
	w.read(l)
	w.now = w.now.Add(3 * time.Second)
	w.read(l)
	require.NotEmpty(t, w.deadLetters)
	for _, deadLetter := range w.deadLetters {
		require.Equal(t, 1, deadLetter.Bad.Index)
	}
}

// A record may have as many bytes as the limit says, and not one more.
func TestPayloadLimitIsInclusive(t *testing.T) {
	w := newWorld(t, nil)
	w.publish("acme", "d", w.now, 1)
	w.publish("acme", "dd", w.now, 1)
	l := w.limited(tenant.IngestLimits{Payload: tenant.Limit(len(w.log[0].Value))}, nil)
	w.read(l)
	require.Equal(t, 1, has(l, "acme"))
	require.Len(t, w.deadLetters, 1)
	require.Equal(t, int64(1), w.deadLetters[0].Record.Offset)
}

// The device that exceeds a limit most is named however many others did before.
func TestTopDeviceIsNamedAfterManyOthers(t *testing.T) {
	w := newWorld(t, nil)
	l := w.limited(tenant.IngestLimits{Labels: 1, Payload: 1}, nil)
	for i := range 50 {
		w.publish("acme", fmt.Sprintf("other%d", i), w.now, 1)
		w.publish("acme", "loud", w.now, 1)
	}
	for range 50 {
		w.publish("acme", "late", w.now, 1)
	}
	w.read(l)
	var named []string
	for _, c := range l.Deferred().Excesses("acme")[0].TopDevices {
		named = append(named, c.Device)
	}
	require.Subset(t, named, []string{"loud", "late"})
}

// A limit that is set while a process runs holds from the next record on, and what waits for one that is lifted goes on
// at once, however long it would have had to wait.
func TestLimitsChangeAtRunTime(t *testing.T) {
	w := newWorld(t, nil)
	l := w.worker(func(c *ingest.Config) { c.Hold = time.Hour })
	set := func(readings tenant.Limit) {
		said := tenant.Ingest{IngestLimits: tenant.IngestLimits{Readings: readings, Burst: 1}}
		require.NoError(t, tenant.NewTenants(w.Docs).Set(t.Context(), "acme", said.Changes()...))
		_, err := w.dir.Refresh(t.Context())
		require.NoError(t, err)
	}
	publish := func(n int) {
		for range n {
			w.publish("acme", "d", w.now, 1)
		}
		w.read(l)
	}
	publish(20)
	require.Equal(t, 20, has(l, "acme"))
	set(0.001)
	publish(20)
	require.Equal(t, 21, has(l, "acme"))
	set(tenant.Unset)
	publish(1)
	w.now = w.now.Add(time.Second)
	w.read(l)
	require.Equal(t, 41, has(l, "acme"))
	require.Empty(t, l.Deferred().Deferrals(""))
}

// What the log is about to lose is taken at once, however long it would have had to wait.
func TestDeferredBelowRetentionIsTakenAtOnce(t *testing.T) {
	w := newWorld(t, nil)
	l := w.limited(tenant.IngestLimits{Readings: 0.001, Burst: 1}, func(c *ingest.Config) { c.HeldFor = 24 * time.Hour })
	for range 20 {
		w.publish("acme", "d", w.now, 1)
	}
	w.read(l)
	l.CutBelow(10, w.now)
	at, ok := l.Deferred().DueAt()
	require.True(t, ok)
	require.False(t, at.After(w.now))
	w.read(l)
	require.Equal(t, int64(10), l.Deferred().Deferrals("")[0].From)
}

// While rows of a chain are about to be cut nothing of it is refused that has waited for too long: the cut would wait
// for the dead letters of what comes behind it, and for ever more of them.
func TestNoRefusalWhileChainIsBeingCut(t *testing.T) {
	w := newWorld(t, nil)
	once := tenant.IngestLimits{Readings: 1e-6, Burst: 1}
	l := w.limited(once, func(c *ingest.Config) { c.HeldFor, c.Hold = 30*time.Second, 10*time.Second })
	l.Resume(worker.Assignment{Stream: 1, Unmarked: true}) // nothing is created before the mark
	for range 20 {
		w.publish("loud", "l", w.now, 1)
	}
	w.read(l)
	from := l.Deferred().Deferrals("")[0].From
	w.now = w.now.Add(time.Minute)
	require.NoError(t, l.Step(t.Context())) // the bin is due
	for range 5 {
		w.takeDeferred(l)
		require.NoError(t, l.Step(t.Context()))
		require.Equal(t, from, l.Deferred().Deferrals("")[0].From)
		require.Zero(t, l.Counts.Refused)
		w.now = w.now.Add(time.Second)
	}
	require.NoError(t, l.Do(t.Context(), l.Committed(l.Floor(), w.now)))
	require.NoError(t, l.Step(t.Context()))
	require.Equal(t, int(from), w.storedReadings())
	w.takeDeferred(l)
	require.NoError(t, l.Step(t.Context()))
	require.Empty(t, l.Deferred().Deferrals(""))
	require.Len(t, w.deadLetters, 20-int(from))
	require.Equal(t, int64(20), l.Floor())
}

// What is read again is judged by the limits of now, also when nothing else came since they have changed.
func TestDeferredIsJudgedByCurrentLimits(t *testing.T) {
	w := newWorld(t, nil)
	l := w.worker(func(c *ingest.Config) { c.Hold = time.Hour })
	set := func(readings tenant.Limit) {
		said := tenant.Ingest{IngestLimits: tenant.IngestLimits{Readings: readings, Burst: 1}}
		require.NoError(t, tenant.NewTenants(w.Docs).Set(t.Context(), "acme", said.Changes()...))
		_, err := w.dir.Refresh(t.Context())
		require.NoError(t, err)
	}
	w.publish("acme", "d", w.now, 1)
	w.read(l) // it is registered
	set(0.1)
	for range 20 {
		w.publish("acme", "d", w.now, 1)
	}
	w.read(l)
	taken := has(l, "acme")
	require.Len(t, l.Deferred().Deferrals(""), 1)
	set(1000)
	w.now = w.now.Add(15 * time.Second) // one is paid for
	w.takeDeferred(l)
	require.Equal(t, 21, has(l, "acme"), "%d before", taken)
	require.Empty(t, l.Deferred().Deferrals(""))
}
