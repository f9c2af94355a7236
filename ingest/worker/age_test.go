package worker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/ingesttest"
	"binnacle/internal/control"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

const day = 24 * time.Hour

// How old a reading may be, by its tenant's retention, the setting, and the clock that counts.
func TestAcceptedAge(t *testing.T) {
	for _, c := range []struct {
		name      string
		retention time.Duration
		past      time.Duration
		recordAge time.Duration // of the record's timestamp
		age       time.Duration // of the event time
		want      decode.Reason // empty: taken
	}{
		{"a year", 0, 0, 0, 399 * day, ""},
		{"a year and more", 0, 0, 0, 401 * day, decode.Past},
		{"the setting", 0, 10 * day, 0, 11 * day, decode.Past},
		{"within the setting", 0, 10 * day, 0, 9 * day, ""},
		{"any age", 0, -1, 0, 5000 * day, ""},
		{"the retention", 30 * day, 0, 0, 33 * day, decode.Expired},
		{"within the retention", 1000 * day, 0, 0, 900 * day, ""},
		{"a setting below the retention", 30 * day, 10 * day, 0, 11 * day, decode.Past},
		{"a retention below the setting", 30 * day, 90 * day, 0, 33 * day, decode.Expired},
		{"the record waited in the log: its time counts", 0, 10 * day, 5 * day, 14 * day, ""},
		{"the record waited in the log, and was late before", 0, 10 * day, 5 * day, 16 * day, decode.Past},
		{"a record that claims to be as old as its reading", 0, 10 * day, 3000 * day, 3000 * day, decode.Past},
		{"such a record, and a retention", 30 * day, 0, 3000 * day, 3000 * day, decode.Expired},
		{"such a record, and a year", 0, 0, 401 * day, 401 * day, decode.Past},
		{"a record without a timestamp", 0, 10 * day, -1, 11 * day, decode.Past},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			dir := control.NewDirectory(control.DirectoryConfig{Documents: w.Docs, Retention: c.retention,
				Now: func() time.Time { return w.now }})
			_, err := dir.Register(t.Context(), "acme")
			require.NoError(t, err)
			l := w.worker(func(cfg *ingest.Config) { cfg.Past = c.past })
			rec := of(0, "acme", "d0", w.now.Add(-c.age).UnixMilli())
			rec.Time = w.now.Add(-c.recordAge).UnixMilli()
			if c.recordAge < 0 {
				rec.Time = -1
			}
			require.NoError(t, l.Take(ingesttest.Deadline(t), rec))
			attempt(t, l)
			if c.want == "" {
				require.Empty(t, w.deadLetters)
				require.Equal(t, 1, l.OpenBins())
				return
			}
			require.Len(t, w.deadLetters, 1)
			require.Equal(t, c.want, w.deadLetters[0].Bad.Reason, w.deadLetters[0].Bad.Detail)
			require.Len(t, months(t, w), 0, "what is refused asks for nothing")
		})
	}
}

// months returns the containers that were asked for.
func months(t *testing.T, w *world) (out []string) {
	v, err := control.NewDirectory(control.DirectoryConfig{Documents: w.Docs}).Refresh(t.Context())
	require.NoError(t, err)
	for _, m := range v.Containers() {
		out = append(out, m.Container)
	}
	return out
}

// hundreds returns a record with a reading in each of so many months, the newest first.
func hundreds(offset int64, tenant string, n int) admit.Record {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,{"tenant":%q,"device":"d0","ts":%d,"values":{"a":1}}`, tenant,
			start-int64(i)*31*telemetry.DayMillis)
	}
	return admit.Record{Offset: offset, Time: start, Value: []byte("[" + b.String()[1:] + "]")}
}

// One record with readings of hundreds of months, which any producer can make up, requests a few: its other
// readings are dead letters, those of others are stored, and the snapshot is read once, not for each of them.
func TestMonthsAreBounded(t *testing.T) {
	w := newWorld(t, nil)
	l := w.worker(func(c *ingest.Config) { c.Past = -1 })
	require.NoError(t, l.Take(ingesttest.Deadline(t), hundreds(0, "acme", 300)))
	attempt(t, l)
	require.Len(t, months(t, w), 12)
	require.Len(t, w.deadLetters, 1)
	require.Equal(t, 288, w.deadLetters[0].Elements.Count())
	for _, b := range w.deadLetters {
		require.Equal(t, decode.Limit, b.Bad.Reason)
	}
	lists := 0
	w.Docs.Fault = func(op, _, _ string) *storetest.Fault {
		if op == storetest.OpList {
			lists++
		}
		return nil
	}
	for i := range 20 {
		require.NoError(t, l.Take(ingesttest.Deadline(t), hundreds(int64(1+i), "acme", 300)))
	}
	require.LessOrEqual(t, lists, 4, "the map is read once a second at most")
	require.NoError(t, l.Take(ingesttest.Deadline(t), of(21, "good", "g0", start-20*12*31*telemetry.DayMillis)))
	require.Len(t, months(t, w), 13, "another tenant has a bound of its own")
}

// A backfill lets in what it covers, and no more; a tenant that the snapshot lacks is looked up.
func TestBackfill(t *testing.T) {
	w := newWorld(t, nil)
	l := w.worker(nil)
	require.NoError(t, l.Take(t.Context(), of(0, "acme", "d0", start))) // the snapshot is read before the grant is written
	old := int64(start) - 2000*telemetry.DayMillis
	dir := control.NewDirectory(control.DirectoryConfig{Documents: w.Docs, Now: func() time.Time { return w.now }})
	_, err := dir.Refresh(t.Context())
	require.NoError(t, err)
	grant, err := dir.GrantBackfill(t.Context(), "acme", telemetry.Range{From: old, To: old + 1000*telemetry.DayMillis},
		time.Hour)
	require.NoError(t, err)
	record := func(offset int64, tenant string, ts int64, id string) admit.Record {
		r := of(offset, tenant, "d0", ts)
		if id != "" {
			r.Headers = []admit.Header{{Key: control.BackfillHeader, Value: []byte(id)}}
		}
		return r
	}
	feed := func(r admit.Record) (refused []decode.Reason) {
		w.deadLetters = nil
		require.NoError(t, l.Take(ingesttest.Deadline(t), r))
		attempt(t, l)
		for _, b := range w.deadLetters {
			refused = append(refused, b.Bad.Reason)
		}
		return refused
	}
	past := []decode.Reason{decode.Past}
	require.Empty(t, feed(record(1, "acme", old, grant.ID)))
	require.Equal(t, past, feed(record(2, "acme", old, "")), "a device whose clock is wrong, meanwhile")
	require.Equal(t, past, feed(record(3, "acme", old, "made up")))
	require.Equal(t, past, feed(record(4, "acme", old-1, grant.ID)), "before its range")
	require.Equal(t, past, feed(record(5, "globex", old, grant.ID)), "somebody else's")
	for i := range int64(30) {
		require.Empty(t, feed(record(6+i, "acme", old+i*31*telemetry.DayMillis, grant.ID)), "as many months as it covers")
	}
	w.now = w.now.Add(time.Hour)
	require.Equal(t, past, feed(record(50, "acme", old, grant.ID)), "it is over")
}

// The map can't be read: the records wait, and are judged when it can.
func TestMonthRefusedWhileSnapshotIsFresh(t *testing.T) {
	w := newWorld(t, nil)
	l := w.worker(nil)
	broken := true
	w.Docs.Fault = func(op, kind, _ string) *storetest.Fault {
		if broken && op == storetest.OpCreate && kind == control.KindMonth {
			return &storetest.Fault{Err: context.DeadlineExceeded}
		}
		return nil
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.Error(t, l.Take(short, one(0, "d0")))
	require.Zero(t, l.Position())
	require.Empty(t, w.deadLetters)
	broken = false
	require.NoError(t, l.Take(ingesttest.Deadline(t), one(0, "d0")))
	require.EqualValues(t, 1, l.Position())
}

// A reading is held against the retention of its device's class and against the first day that is visible of it (rule
// X1), and its chunk lives as long.
func TestRetentionOfClasses(t *testing.T) {
	w := newWorld(t, nil)
	ctx := ingesttest.Deadline(t)
	dir := control.NewDirectory(control.DirectoryConfig{Documents: w.Docs, Now: func() time.Time { return w.now }})
	_, err := dir.Register(ctx, "acme")
	require.NoError(t, err)
	for i, text := range []string{"d0=10d,d1=40d,default=forever", "d2=2d,d1=40d,default=forever", "d3=1h,d2=2d,d1=40d"} {
		change, err := tenant.RetentionChange(text, func() time.Time {
			return w.now.Add(time.Duration(2*i-5) * time.Hour)
		})
		require.NoError(t, err)
		require.NoError(t, tenant.NewTenants(w.Docs).Set(ctx, "acme", change))
	}
	l := w.worker(func(c *ingest.Config) { c.Past = -1 })
	old := w.now.Add(-20 * 24 * time.Hour)
	for i, device := range []string{"d0", "d1", "d2", "d3"} {
		require.NoError(t, l.Take(ctx, of(int64(i), "acme", device, old.UnixMilli())))
	}
	require.NoError(t, l.Finish(ctx))
	var refused []int64
	for _, x := range w.deadLetters {
		require.Equal(t, decode.Expired, x.Bad.Reason)
		refused = append(refused, x.Record.Offset)
	}
	require.ElementsMatch(t, []int64{0, 2}, refused, "d0 is kept for ever by now, but that day was hidden; "+
		"what was set of d3 is still to come")
	lives := map[string]int{}
	for _, s := range w.Chunks.Documents() {
		c, err := chunk.Parse(s.Doc)
		require.NoError(t, err)
		lives[s.Key.Device] = c.Header.TTL
	}
	day := telemetry.DayOf(old.UnixMilli())
	ttl := tenant.Tenant{Retention: 40 * 24 * time.Hour}.TTL(day, w.now.UnixMilli())
	require.Equal(t, map[string]int{"d1": ttl, "d3": 0}, lives)
}
