package worker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/bins"
	"binnacle/ingest/decode"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/worker"
	"binnacle/ingest/write"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

// limited returns a process in which tenants have limits, unless they set others.
func (w *world) limited(l tenant.IngestLimits, change func(*ingest.Config)) *ingest.Local {
	return w.worker(func(c *ingest.Config) {
		c.Limits, c.Hold, c.CatalogEvery, c.CommitEvery = l, time.Hour, 6*time.Hour, time.Second
		if change != nil {
			change(c)
		}
	})
}

// publish appends a reading of n values to the log.
func (w *world) publish(tenant, device string, at time.Time, n int) {
	values := `"v0":1`
	for i := 1; i < n; i++ {
		values += fmt.Sprintf(`,"v%d":%d`, i, i)
	}
	value := fmt.Sprintf(`{"tenant":%q,"device":%q,"ts":%d,"values":{%s}}`, tenant, device, at.UnixMilli(), values)
	w.log = append(w.log, admit.Record{Offset: int64(len(w.log)), Time: at.UnixMilli(), Value: []byte(value)})
}

// read takes what is in the log, and what may go on of what waits.
func (w *world) read(l *ingest.Local) {
	ctx := context.Background()
	for at := l.Position(); at < int64(len(w.log)); at++ {
		require.NoError(w.t, l.Take(ctx, w.log[at]))
	}
	w.takeDeferred(l)
	require.NoError(w.t, l.Step(ctx))
}

func (w *world) takeDeferred(l *ingest.Local) {
	for offset, ok := l.Deferred().Next(w.now); ok; offset, ok = l.Deferred().Next(w.now) {
		require.NoError(w.t, l.TakeDeferredRecord(context.Background(), w.at(offset)))
	}
}

// has returns how many readings a process holds of a tenant.
func has(l *ingest.Local, tenant string) (n int) {
	l.Bins().Holdings(tenant, func(h bins.Holding) { n += h.Readings })
	return n
}

// What is above a rate stays in the log, in order, and holds back the floor; others go on. It is taken as time pays for
// it, neither sooner nor later, and all of it in the end.
func TestReadingsOverRateAreDeferred(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits tenant.IngestLimits
		limit  string
		whole  bool
	}{
		{"readings", tenant.IngestLimits{Readings: 10, Burst: 5}, "readings", true},
		{"values", tenant.IngestLimits{Values: 30, Burst: 5}, "values", true},
		{"readings of a device", tenant.IngestLimits{DeviceReadings: 10, Burst: 5}, "device-readings", false},
		{"values of a device", tenant.IngestLimits{DeviceValues: 30, Burst: 5}, "device-values", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			l := w.limited(c.limits, nil)
			begin := w.now
			for i := range 200 { // a second's
				w.publish("loud", "l", begin.Add(time.Duration(i)*5*time.Millisecond), 3)
				if i%40 == 0 {
					w.publish("loud", "calm", begin.Add(time.Duration(i)*5*time.Millisecond), 1)
					w.publish("quiet", "q", begin.Add(time.Duration(i)*5*time.Millisecond), 1)
				}
				w.now = time.UnixMilli(w.log[len(w.log)-1].Time)
				if i%10 == 9 {
					w.read(l)
				}
			}
			require.Equal(t, 5, has(l, "quiet"))
			require.InDelta(t, 62, has(l, "loud"), 8, "the burst, and what a second brings")
			waiting := l.Deferred().Deferrals("")
			require.NotEmpty(t, waiting)
			require.Equal(t, "loud", waiting[0].Tenant)
			require.Equal(t, c.limit, waiting[0].Limit)
			require.Equal(t, c.whole, waiting[0].Device == "")
			require.Empty(t, l.Deferred().Deferrals("quiet"))
			require.LessOrEqual(t, l.Floor(), waiting[0].From)
			require.Positive(t, l.Deferred().Excesses("loud")[0].Delayed)

			// Each second brings so many, be it asked seldom or often.
			taken := has(l, "loud")
			for range 5 {
				w.now = w.now.Add(2 * time.Second)
				for range 3 {
					w.read(l)
				}
				more := has(l, "loud") - taken
				taken += more
				require.InDelta(t, 20, more, 4)
			}
			w.now = w.now.Add(time.Minute)
			w.read(l)
			require.Equal(t, 205, has(l, "loud"))
			require.Empty(t, l.Deferred().Deferrals(""))
			require.NoError(t, l.Finish(t.Context()))
			require.Equal(t, int64(len(w.log)), l.Floor())
			w.CheckChains()
			require.Equal(t, 210, w.storedReadings())
		})
	}
}

// When everything else is stored, the floor is where something waits.
func TestDeferredHoldsTheFloor(t *testing.T) {
	w := newWorld(t, nil)
	l := w.limited(tenant.IngestLimits{Readings: 1, Burst: 10}, nil)
	for range 20 {
		w.publish("acme", "d", w.now, 1)
	}
	w.read(l)
	require.Zero(t, l.Floor())
	require.NoError(t, l.Finish(t.Context()))
	require.Equal(t, int64(11), l.Floor())
	w.now = w.now.Add(4 * time.Second)
	w.read(l)
	require.NoError(t, l.Finish(t.Context()))
	require.Equal(t, int64(15), l.Floor())
	w.now = w.now.Add(time.Minute)
	w.read(l)
	require.NoError(t, l.Finish(t.Context()))
	require.Equal(t, int64(20), l.Floor())
}

func (w *world) storedReadings() (n int) {
	for _, h := range w.Headers() {
		n += h.Readings
	}
	return n
}

// After an outage of the ingester the log is read as fast as it can be: rates count by when records were published.
// What was above them then has waited long enough.
func TestLimitsDoNotSlowCatchUp(t *testing.T) {
	w := newWorld(t, nil)
	begin := w.now
	for i := range 3600 { // an hour, of a tenant within its rates but for a minute
		w.publish("acme", "d", begin.Add(time.Duration(i)*time.Second), 1)
		if i >= 600 && i < 660 {
			for j := range 20 {
				w.publish("acme", "d", begin.Add(time.Duration(i)*time.Second+time.Duration(j)*time.Millisecond), 1)
			}
		}
	}
	w.now = begin.Add(time.Hour)
	l := w.limited(tenant.IngestLimits{DeviceReadings: 2, Readings: 2, Burst: 60}, func(c *ingest.Config) {
		c.HeldFor = time.Minute
	})
	w.read(l)
	require.Empty(t, l.Deferred().Deferrals(""))
	require.Equal(t, len(w.log), has(l, "acme"))
	require.Empty(t, w.deadLetters)
}

// What has waited for too long is a dead letter that names the limit and the device. Nothing of its chain is stored
// before that is acknowledged.
func TestDeferredTooLongIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	l := w.limited(tenant.IngestLimits{Readings: 1, Burst: 10}, func(c *ingest.Config) { c.HeldFor = 30 * time.Second })
	for range 100 {
		w.publish("loud", "l", w.now, 1)
	}
	w.publish("quiet", "q", w.now, 1)
	w.read(l)
	require.Equal(t, 11, has(l, "loud"), "the burst may be overdrawn by one")
	w.now = w.now.Add(20 * time.Second)
	w.read(l)
	require.Equal(t, 31, has(l, "loud"))
	require.Empty(t, w.deadLetters)
	w.now = w.now.Add(11 * time.Second)
	w.read(l)
	require.Equal(t, 42, has(l, "loud"), "what has been paid for is taken, however old")
	require.Len(t, w.deadLetters, 58)
	require.Empty(t, l.Deferred().Deferrals(""))
	for i, deadLetter := range w.deadLetters {
		require.Equal(t, decode.Limit, deadLetter.Bad.Reason)
		require.Equal(t, int64(42+i), deadLetter.Record.Offset)
		require.Contains(t, deadLetter.Bad.Detail, "the limit readings of the tenant is passed by device l")
	}
	require.Equal(t, int64(58), l.Deferred().Excesses("loud")[0].Refused)
	require.Equal(t, "l", l.Deferred().Excesses("loud")[0].TopDevices[0].Device)
	require.NoError(t, l.Finish(t.Context()))
	require.Equal(t, int64(len(w.log)), l.Floor())
}

// A record with more refused readings than have letters of their own: none of them is passed by a chunk of its chain
// before its dead letter is acknowledged. Else a process that reads the record again after a crash would take it
// for stored.
func TestNoChunkPassesSharedDeadLetter(t *testing.T) {
	w := newWorld(t, nil)
	ctx := t.Context()
	l := w.limited(tenant.IngestLimits{Readings: 10, Burst: 1}, func(c *ingest.Config) { c.HeldFor = 30 * time.Second })
	for range 400 {
		w.publish("loud", "l", w.now, 1)
	}
	var many []string
	for i := range 1010 {
		many = append(many, fmt.Sprintf(`{"tenant":"loud","device":"d%d","ts":%d,"values":{"a":1}}`, i, w.now.UnixMilli()))
	}
	w.log = append(w.log, admit.Record{Offset: 400, Time: w.now.UnixMilli(),
		Value: []byte("[" + strings.Join(many, ",") + "]")})
	w.read(l)
	w.now = w.now.Add(31 * time.Second)
	w.takeDeferred(l) // what has waited for too long
	require.Empty(t, l.Deferred().Deferrals(""))
	w.now = w.now.Add(time.Minute)
	w.publish("loud", "d1005", w.now, 1)
	require.NoError(t, l.Take(ctx, w.at(401)))
	require.Empty(t, l.Deferred().Deferrals(""))
	l.Drain()
	var deadLetters []write.Job
	chunk := func() (created bool) {
		for jobs := l.Due(); len(jobs) > 0; jobs = l.Due() {
			for _, j := range jobs {
				switch c, ok := j.(*write.Create); {
				case ok:
					created = created || c.Key.Device == "d1005"
				default:
					if b, ok := j.(*write.Publish); ok && len(deadLetters) == 0 {
						require.NotEmpty(t, b.DeadLetters)
						deadLetters = append(deadLetters, b)
						continue
					}
				}
				require.NoError(t, l.Do(ctx, j))
			}
		}
		return created
	}
	require.False(t, chunk(), "nobody has acknowledged the dead letters")
	require.Len(t, deadLetters, 1)
	require.NoError(t, l.Do(ctx, deadLetters[0]))
	require.True(t, chunk())
	require.False(t, l.Busy())
	require.Equal(t, int64(402), l.Floor())
}

// Dead letters of readings that have waited for too long are bounded too, while Kafka takes none: the rest waits on.
func TestDeadLettersOfDeferredReadingsAreBounded(t *testing.T) {
	w := newWorld(t, nil)
	l := w.limited(tenant.IngestLimits{Readings: 1, Burst: 10}, func(c *ingest.Config) { c.HeldFor = 30 * time.Second })
	for range 100 {
		w.publish("loud", "l", w.now, 1)
		w.log[len(w.log)-1].Value = append(w.log[len(w.log)-1].Value, make([]byte, 1<<20)...)
	}
	for i := range w.log {
		r := &w.log[i]
		copy(r.Value[len(r.Value)-1<<20:], strings.Repeat(" ", 1<<20))
		require.NoError(t, l.Take(t.Context(), *r))
	}
	w.now = w.now.Add(31 * time.Second)
	for offset, ok := l.Deferred().Next(w.now); ok && !l.IsRefusing(); offset, ok = l.Deferred().Next(w.now) {
		require.NoError(t, l.TakeDeferredRecord(t.Context(), w.at(offset)))
	}
	require.Less(t, l.Held(), int64(40<<20))
	require.NotEmpty(t, l.Deferred().Deferrals(""))
	for range 3 {
		w.read(l)
	}
	require.False(t, l.IsRefusing())
}

// One record may overdraw a bucket for much longer than anything may wait: what comes behind it is refused in time all
// the same, and does not hold the floor until then.
func TestDeferralIsBounded(t *testing.T) {
	w := newWorld(t, nil)
	l := w.limited(tenant.IngestLimits{Values: 1, Burst: 10}, func(c *ingest.Config) { c.HeldFor = 30 * time.Second })
	w.publish("acme", "d", w.now, 1)
	w.publish("acme", "d", w.now, 600) // ten minutes' worth
	w.publish("acme", "d", w.now, 1)
	w.read(l)
	require.Equal(t, int64(2), l.Deferred().Deferrals("")[0].From)
	at, ok := l.Deferred().DueAt()
	require.True(t, ok)
	require.Equal(t, w.log[2].Time+30_001, at.UnixMilli())
	w.now = at.Add(-time.Millisecond)
	w.read(l)
	require.Len(t, l.Deferred().Deferrals(""), 1)
	w.now = at
	w.read(l)
	require.Empty(t, l.Deferred().Deferrals(""))
	require.Len(t, w.deadLetters, 1)
	require.NoError(t, l.Finish(t.Context()))
	require.Equal(t, int64(3), l.Floor())
}

// A tenant's policy may be to refuse what is above its rates at once.
func TestReadingsOverRateAreRefused(t *testing.T) {
	w := newWorld(t, nil)
	l := w.limited(tenant.IngestLimits{DeviceReadings: 1, Burst: 10, OnExcess: tenant.Refuse}, nil)
	for range 20 {
		w.publish("loud", "l", w.now, 1)
		w.publish("loud", "calm", w.now.Add(-time.Second), 1)
	}
	w.log = w.log[:len(w.log)-10]
	w.read(l)
	require.Empty(t, l.Deferred().Deferrals(""))
	require.Equal(t, 4+11, has(l, "loud")-7)
	require.NotEmpty(t, w.deadLetters)
	for _, deadLetter := range w.deadLetters {
		require.Equal(t, decode.Limit, deadLetter.Bad.Reason)
		require.Contains(t, deadLetter.Bad.Detail, "the limit device-readings of the tenant is passed by device")
	}
	w.now = w.now.Add(10 * time.Second)
	w.publish("loud", "l", w.now, 1)
	refused := len(w.deadLetters)
	w.read(l)
	require.Len(t, w.deadLetters, refused)
}

// Numbers and sizes are never delayed: what passes them is refused, with the limit and the device.
func TestLimitsOfNumbersAndSizes(t *testing.T) {
	at := time.UnixMilli(start).Add(time.Minute)
	message := func(device, labels, values string) string {
		return fmt.Sprintf(`{"tenant":"acme","device":%q,"ts":%d,"labels":{%s},"values":{%s}}`, device, at.UnixMilli(), labels,
			values)
	}
	few := message("d1", "", `"a":1`)
	for _, c := range []struct {
		limit  string
		limits tenant.IngestLimits
		good   []string
		bad    string
	}{
		{"payload", tenant.IngestLimits{Payload: 100}, []string{few}, message("d1", "", `"a":1,"b":2,"c":3,"d":4,"e":5,"f":6`)},
		{"labels", tenant.IngestLimits{Labels: 2}, []string{few, message("d1", `"x":"1","y":"2"`, `"a":1`)},
			message("d1", `"x":"1","y":"2","z":"3"`, `"a":1`)},
		{"devices", tenant.IngestLimits{Devices: 2}, []string{few, message("d2", "", `"a":1`), few},
			message("d3", "", `"a":1`)},
		{"series", tenant.IngestLimits{Series: 3},
			[]string{few, message("d1", "", `"a":1,"b":2`), message("d1", `"x":"1"`, `"a":1`), few, message("d2", "", `"a":1`)},
			message("d1", `"x":"2"`, `"a":1`)},
	} {
		t.Run(c.limit, func(t *testing.T) {
			w := newWorld(t, nil)
			l := w.limited(c.limits, nil)
			for i, value := range append(c.good, c.bad, few) {
				w.log = append(w.log, admit.Record{Offset: int64(i), Time: at.UnixMilli(), Value: []byte(value)})
			}
			w.read(l)
			require.Len(t, w.deadLetters, 1)
			require.Equal(t, int64(len(c.good)), w.deadLetters[0].Record.Offset)
			require.Equal(t, decode.Limit, w.deadLetters[0].Bad.Reason)
			require.Contains(t, w.deadLetters[0].Bad.Detail, "the limit "+c.limit+" of the tenant is passed by device d")
			require.Equal(t, len(c.good)+1, has(l, "acme"))
			require.Equal(t, c.limit, l.Deferred().Excesses("")[0].Limit)
			require.Contains(t, w.deadLetters[0].Bad.Detail, "by device "+l.Deferred().Excesses("")[0].TopDevices[0].Device)
		})
	}
}

// New devices count from an hour after a partition came here on, by the log's time.
func TestNewDevicesLimit(t *testing.T) {
	w := newWorld(t, nil)
	l := w.limited(tenant.IngestLimits{NewDevices: 10}, nil)
	for i := range 100 {
		w.publish("acme", fmt.Sprintf("old-%d", i), w.now, 1)
	}
	w.read(l)
	require.Empty(t, w.deadLetters)
	w.now = w.now.Add(time.Hour)
	for i := range 100 {
		w.publish("acme", fmt.Sprintf("new-%d", i), w.now, 1)
		w.publish("acme", fmt.Sprintf("old-%d", i), w.now, 1)
	}
	w.read(l)
	require.Len(t, w.deadLetters, 89)
	require.Contains(t, w.deadLetters[0].Bad.Detail, "the limit new-devices of the tenant is passed by device new-")
	w.now = w.now.Add(30 * time.Minute)
	for i := range 100 {
		w.publish("acme", fmt.Sprintf("newer-%d", i), w.now, 1)
	}
	w.read(l)
	require.InDelta(t, 89+95, len(w.deadLetters), 1)
}

// A tenant says for itself what is accepted, and how much it may have.
func TestTenantLimitsOverrideDefaults(t *testing.T) {
	w := newWorld(t, nil)
	l := w.worker(func(c *ingest.Config) { c.Limits, c.Hold = tenant.IngestLimits{Labels: 1}, time.Hour })
	w.publish("acme", "d", w.now, 1)
	w.publish("globex", "d", w.now, 1)
	w.read(l) // both are registered
	said := tenant.Ingest{IngestLimits: tenant.IngestLimits{Readings: 1, Burst: 5}, Past: 3600, Future: 3600}
	require.NoError(t, tenant.NewTenants(w.Docs).Set(t.Context(), "acme", said.Changes()...))
	l = w.worker(func(c *ingest.Config) { c.Hold = time.Hour })
	w.log = nil
	for _, tenant := range []string{"acme", "globex"} {
		for _, ahead := range []time.Duration{-2 * time.Hour, -time.Minute, 30 * time.Minute, 2 * time.Hour} {
			w.publish(tenant, "d", w.now.Add(ahead), 1)
		}
	}
	for i := range w.log {
		w.log[i].Time = w.now.UnixMilli()
	}
	w.read(l)
	why := map[string]int{}
	for _, deadLetter := range w.deadLetters {
		why[fmt.Sprintf("%s %d", deadLetter.Bad.Reason, deadLetter.Record.Offset)]++
	}
	require.Equal(t, map[string]int{"past 0": 1, "future 3": 1, "future 6": 1, "future 7": 1}, why)
	for range 20 {
		w.publish("acme", "d", w.now, 1)
		w.publish("globex", "d", w.now, 1)
	}
	w.read(l)
	require.Len(t, l.Deferred().Deferrals(""), 1)
	require.Equal(t, 2+20, has(l, "globex"))
	require.Equal(t, 4, has(l, "acme"), "six, with the two that were refused")

	// The limit is taken back, and nobody waits any more.
	said = tenant.Ingest{IngestLimits: tenant.IngestLimits{Readings: tenant.Unset}}
	require.NoError(t, tenant.NewTenants(w.Docs).Set(t.Context(), "acme", said.Changes()...))
	_, err := w.dir.Refresh(t.Context())
	require.NoError(t, err)
	w.publish("acme", "d", w.now, 1)
	w.now = w.now.Add(time.Second)
	w.read(l)
	w.now = w.now.Add(time.Second)
	w.read(l)
	require.Empty(t, l.Deferred().Deferrals(""))
	require.Equal(t, 23, has(l, "acme"))
}

// A partition lets a tenant have four times its even share at most, never less than one device may, and all where there
// are so few.
func TestLimitShares(t *testing.T) {
	for _, c := range []struct {
		partitions int
		limits     tenant.IngestLimits
		want       int
	}{
		{0, tenant.IngestLimits{Readings: 1000}, 1000},
		{4, tenant.IngestLimits{Readings: 1000}, 1000},
		{8, tenant.IngestLimits{Readings: 1000}, 500},
		{400, tenant.IngestLimits{Readings: 1000}, 10},
		{400, tenant.IngestLimits{Readings: 1000, DeviceReadings: 200}, 200},
		{8, tenant.IngestLimits{DeviceReadings: 200}, 200},
	} {
		c.limits.Burst = 1
		w := newWorld(t, nil)
		l := w.limited(c.limits, nil)
		l.Resume(worker.Assignment{Stream: 1, Partitions: c.partitions})
		for range 2000 {
			w.publish("acme", "d", w.now, 1)
		}
		w.read(l)
		require.Equal(t, c.want+1, has(l, "acme"), "%+v", c)
	}
}

// A record's readings of a device share their fate, since a cut falls between records; and so many devices that wait by
// themselves are one tenant that waits.
func TestDeferralKeepsRecordsWhole(t *testing.T) {
	w := newWorld(t, nil)
	l := w.limited(tenant.IngestLimits{DeviceReadings: 1, Burst: 3}, nil)
	for i := range 400 {
		value := "["
		for d := range 5 {
			for j := range 2 {
				value += fmt.Sprintf(`{"tenant":"acme","device":"d%d","ts":%d,"values":{"a":%d}},`, (i%20)*5+d,
					w.now.UnixMilli()+int64(j), i)
			}
		}
		whole := []byte(value[:len(value)-1] + "]")
		w.log = append(w.log, admit.Record{Offset: int64(i), Time: w.now.UnixMilli(), Value: whole})
	}
	w.read(l)
	waiting := l.Deferred().Deferrals("")
	require.Len(t, waiting, 65, "64 devices, and the tenant")
	for len(l.Deferred().Deferrals("")) > 0 {
		w.now = w.now.Add(time.Second)
		w.read(l)
		heldRows(t, l)
	}
	require.NoError(t, l.Finish(t.Context()))
	require.Equal(t, 4000, w.storedReadings(), "each once")
	w.CheckChains()
	require.Equal(t, int64(len(w.log)), l.Floor())
}

// What the log is about to lose is taken whatever the limits say; what it has lost is no longer waited for.
func TestDeferredIsTakenBeforeLogDeletes(t *testing.T) {
	w := newWorld(t, nil)
	l := w.limited(tenant.IngestLimits{Readings: 1, Burst: 10}, nil)
	for range 100 {
		w.publish("acme", "d", w.now, 1)
	}
	w.read(l)
	require.Equal(t, 11, has(l, "acme"))
	l.CutBelow(50, w.now)
	w.now = w.now.Add(time.Second)
	w.read(l)
	require.InDelta(t, 51, has(l, "acme")+w.storedReadings(), 2)
	from, ok := l.Deferred().Truncate(70)
	require.True(t, ok)
	require.InDelta(t, 51, from, 2)
	w.now = w.now.Add(time.Hour)
	w.read(l)
	require.InDelta(t, 51+30, has(l, "acme")+w.storedReadings(), 2)
	_, ok = l.Deferred().Truncate(70)
	require.False(t, ok)
}

// A partition that comes back goes on with what waited, less what somebody else has taken since.
func TestDeferralsAfterResume(t *testing.T) {
	w := newWorld(t, nil)
	l := w.limited(tenant.IngestLimits{Readings: 1, Burst: 10}, nil)
	for range 100 {
		w.publish("acme", "d", w.now, 1)
	}
	w.read(l)
	l.Resume(worker.Assignment{Stream: 1, Position: 40})
	require.Equal(t, int64(40), l.Deferred().Deferrals("")[0].From)
	w.now = w.now.Add(time.Hour)
	w.read(l)
	require.NoError(t, l.Finish(ingesttest.Deadline(t)))
	require.Equal(t, 60, w.storedReadings(), "what it had before is stored by somebody else")
}

// Readings that are refused count towards their tenant's rate, and so wait as others do.
func TestRefusedReadingsAreCharged(t *testing.T) {
	w := newWorld(t, nil)
	registered(w, "acme")
	l := w.worker(func(c *ingest.Config) { c.Limits, c.HeldFor = tenant.IngestLimits{Readings: 1, Burst: 3}, time.Hour })
	ctx := ingesttest.Deadline(t)
	late := fmt.Appendf(nil, `{"tenant":"acme","device":"d0","ts":%d,"values":{"a":1}}`, start+24*3600_000)
	for i := range int64(20) {
		w.log = append(w.log, admit.Record{Offset: i, Time: start, Value: late})
		require.NoError(t, l.Take(ctx, w.log[i]))
	}
	require.Len(t, l.Deferred().Deferrals("acme"), 1)
	require.NoError(t, l.Step(ctx))
	require.Len(t, w.deadLetters, 4, "three at once, and one that overdraws")
}
