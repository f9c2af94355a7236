package worker_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/worker"
	"binnacle/ingest/write"
	"binnacle/internal/catalog"
	"binnacle/internal/catalog/catalogcache"
	"binnacle/internal/store/storetest"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

// label has a process take a reading with a label, and do what is due a moment later. It reports whether the reading
// was taken.
func (w *world) label(l *ingest.Local, device, name, value string) bool {
	w.t.Helper()
	w.now = w.now.Add(time.Second)
	text := fmt.Sprintf(`{"tenant":"acme","device":%q,"ts":%d,"labels":{%q:%q},"values":{"a":1}}`, device,
		w.now.UnixMilli(), name, value)
	refused := len(w.deadLetters)
	rec := admit.Record{Offset: l.Position(), Time: w.now.UnixMilli(), Value: []byte(text)}
	require.NoError(w.t, l.Take(w.t.Context(), rec))
	require.NoError(w.t, l.Step(w.t.Context()))
	return len(w.deadLetters) == refused
}

// A label has as many values as it may; a reading with one more is refused, by a dead letter that names label, value
// and device, whichever device it is of and however long nothing was new. Readings with known values go on.
func TestLabelValuesLimit(t *testing.T) {
	w := newWorld(t, nil)
	l := w.limited(tenant.IngestLimits{LabelValues: 3}, nil)
	for i := range 3 {
		require.True(t, w.label(l, fmt.Sprint("d", i), "trip", fmt.Sprint(i)))
	}
	for range 3 {
		require.False(t, w.label(l, "d9", "trip", "9"))
		require.True(t, w.label(l, "d9", "trip", "2"))
		require.True(t, w.label(l, "d9", "route", "9"), "another label")
		for range 120 { // two hours in which nothing is new
			w.now = w.now.Add(time.Minute)
			require.NoError(t, l.Step(t.Context()))
		}
	}
	require.Equal(t, decode.Limit, w.deadLetters[0].Bad.Reason)
	require.Equal(t, `label trip has 3 values, and "9" would be one more: the limit label-values of the tenant is passed `+
		`by device d9`, w.deadLetters[0].Bad.Detail)
	over := l.Deferred().Excesses("acme")
	require.Len(t, over, 1)
	require.Equal(t, "label-values", over[0].Limit)
	require.Equal(t, []admit.TopDevice{{Device: "d9", Readings: 3}}, over[0].TopDevices)
	heldRows(t, l)
}

// Values count wherever they were read, and after a restart.
func TestLabelValuesLimitAcrossProcesses(t *testing.T) {
	w := newWorld(t, nil)
	limits := tenant.IngestLimits{LabelValues: 4}
	a, b := w.limited(limits, nil), w.limited(limits, nil)
	require.True(t, w.label(a, "a", "trip", "1"))
	require.True(t, w.label(a, "a", "trip", "2"))
	require.True(t, w.label(b, "b", "trip", "3"))
	w.now = w.now.Add(time.Minute)
	require.NoError(t, b.Step(t.Context()))
	require.True(t, w.label(b, "b", "trip", "4"))
	w.now = w.now.Add(time.Minute)
	require.NoError(t, b.Step(t.Context()))
	require.False(t, w.label(b, "b", "trip", "5"))
	require.True(t, w.label(b, "b", "trip", "1"), "somebody else's")
	require.NoError(t, a.Step(t.Context()))
	w.label(a, "a", "route", "1") // after a while without news the catalog is asked again
	require.True(t, w.label(a, "a", "trip", "4"))

	again := w.limited(limits, nil)
	require.True(t, w.label(again, "c", "trip", "2"))
	require.False(t, w.label(again, "c", "trip", "6"))
	require.True(t, w.label(again, "c", "trip", "3"))
	heldRows(t, a)
	heldRows(t, b)
}

// What the catalog said long ago is no reason to refuse: others may have taken the value since.
func TestStaleLabelValuesRefuseNothing(t *testing.T) {
	w := newWorld(t, nil)
	limits := tenant.IngestLimits{LabelValues: 2}
	a, b := w.limited(limits, nil), w.limited(limits, nil)
	require.True(t, w.label(a, "a", "trip", "1"))
	require.True(t, w.label(a, "a", "trip", "2"))
	require.True(t, w.label(b, "b", "trip", "3"), "it has not heard of the others yet")
	w.now = w.now.Add(2 * time.Minute)
	require.True(t, w.label(a, "a", "trip", "3"))
	require.False(t, w.label(a, "a", "trip", "4"))
	require.True(t, w.label(a, "a", "trip", "3"))
}

// As long as the catalog does not answer, each process takes as many values as there may be in all, and holds no more.
func TestLabelValuesLimitWithoutCatalog(t *testing.T) {
	w := newWorld(t, nil)
	w.Catalog.Fault = func(_, _, _ string) *storetest.Fault { return &storetest.Fault{Err: errors.New("down")} }
	l := w.limited(tenant.IngestLimits{LabelValues: 50}, nil)
	at, taken := w.now, func() int { return has(l, "acme") }
	for i := range 200 {
		text := fmt.Sprintf(`{"tenant":"acme","device":"d","ts":%d,"labels":{"trip":"%d"},"values":{"a":1}}`,
			at.UnixMilli(), i)
		require.NoError(t, l.Take(t.Context(), admit.Record{Offset: int64(i), Time: at.UnixMilli(), Value: []byte(text)}))
		w.now = w.now.Add(time.Second)
		for _, j := range l.Due() {
			if _, ok := j.(*write.Publish); ok {
				require.NoError(t, l.Do(t.Context(), j))
				continue
			}
			require.NoError(t, l.Try(t.Context(), j))
		}
	}
	require.Equal(t, 50, taken())
	heldRows(t, l)
}

// A tenant may have so many labels as are counted, and no more: names are not to do what values may not.
func TestLabelNamesLimit(t *testing.T) {
	w := newWorld(t, nil)
	l := w.limited(tenant.IngestLimits{LabelValues: 5}, nil)
	for i := range 1001 {
		text := fmt.Sprintf(`{"tenant":"acme","device":"d","ts":%d,"labels":{"l%d":"1"},"values":{"a":1}}`,
			w.now.UnixMilli(), i)
		w.log = append(w.log, admit.Record{Offset: int64(i), Time: w.now.UnixMilli(), Value: []byte(text)})
	}
	w.read(l)
	require.Len(t, w.deadLetters, 1)
	require.Contains(t, w.deadLetters[0].Bad.Detail, "there are 1000 labels, and l1000 would be one more")
	heldRows(t, l)
}

// A limit that is lifted is not counted for any more, and what was counted takes no memory.
func TestLabelValuesLimitIsLifted(t *testing.T) {
	w := newWorld(t, nil)
	l := w.worker(func(c *ingest.Config) { c.Hold, c.CommitEvery = time.Hour, time.Second })
	set := func(values tenant.Limit) {
		said := tenant.Ingest{IngestLimits: tenant.IngestLimits{LabelValues: values}}
		require.NoError(t, tenant.NewTenants(w.Docs).Set(t.Context(), "acme", said.Changes()...))
		_, err := w.dir.Refresh(t.Context())
		require.NoError(t, err)
	}
	require.True(t, w.label(l, "d", "trip", "1"))
	set(1)
	require.True(t, w.label(l, "d", "trip", "1"))
	require.False(t, w.label(l, "d", "trip", strings.Repeat("x", 200)))
	require.Less(t, len(w.deadLetters[0].Bad.Detail), 220, "a dead letter is no place for long values")
	set(tenant.Unset)
	require.True(t, w.label(l, "d", "trip", "2"))
	w.now = w.now.Add(time.Minute)
	require.NoError(t, l.Step(t.Context()))
	heldRows(t, l)
	require.Zero(t, worker.CountedLabels(l.Worker))
}

// What a copy of the catalog has is what is said of the labels of those devices, each value once.
func TestLabelValuesFromCatalog(t *testing.T) {
	w := newWorld(t, nil)
	l := w.limited(tenant.IngestLimits{LabelValues: 100}, nil)
	for i := range 20 {
		w.label(l, fmt.Sprint("d", i), "trip", fmt.Sprint(i%7))
	}
	devices := catalogcache.New(catalogcache.Config{Catalog: w.Catalog})
	known, err := devices.Get(t.Context(), "acme", time.Time{})
	require.NoError(t, err)
	known.Use(func(x *catalog.Index) {
		values := x.LabelValues()
		require.Equal(t, 1, values.Names())
		require.Equal(t, 7, values.Len("trip"))
		require.Equal(t, 7, values.MaxLen())
		require.True(t, values.Has("trip", catalog.ValueHash("6")))
		require.False(t, values.Has("trip", catalog.ValueHash("7")))
	})
}
