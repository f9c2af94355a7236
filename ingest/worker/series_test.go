package worker_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/worker"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

// send appends a reading with metrics and, unless it is empty, a label.
func (w *world) send(device string, at time.Time, label string, metrics ...string) {
	values, labels := "", ""
	for _, m := range metrics {
		values += fmt.Sprintf(`,%q:1`, m)
	}
	if label != "" {
		labels = fmt.Sprintf(`"labels":{"l":%q},`, label)
	}
	value := fmt.Sprintf(`{"tenant":"acme","device":%q,"ts":%d,%s"values":{%s}}`, device, at.UnixMilli(), labels,
		values[1:])
	w.log = append(w.log, admit.Record{Offset: int64(len(w.log)), Time: w.now.UnixMilli(), Value: []byte(value)})
}

// refused returns the offsets of the dead letters.
func (w *world) refused() (out []int64) {
	for _, deadLetter := range w.deadLetters {
		out = append(out, deadLetter.Record.Offset)
	}
	return out
}

// A tenant's devices together have as many series in a day as they may. A reading with one more is refused, by a dead
// letter that names also the device that has most of them; what is known goes on, and so do other days and other
// tenants.
func TestTotalSeriesLimit(t *testing.T) {
	w := newWorld(t, nil)
	l := w.limited(tenant.IngestLimits{TotalSeries: 6}, nil)
	w.send("d1", w.now, "", "a", "b", "c")
	w.send("d1", w.now, "x", "a")
	w.send("d2", w.now, "", "a", "b")
	w.send("d2", w.now, "", "a", "c") // 3: one more
	w.send("d3", w.now, "", "a")      // 4: so
	w.send("d1", w.now, "", "a", "b")
	w.send("d3", w.now.Add(-24*time.Hour), "", "a", "b", "c", "d", "e", "f")
	w.publish("globex", "d", w.now, 3)
	w.read(l)
	require.Equal(t, []int64{3, 4}, w.refused())
	require.Equal(t, "the tenant has 6 series in that day already in this partition, and more than 6 are not allowed, "+
		"4 of them of device d1: the limit total-series of the tenant is passed by device d2", w.deadLetters[0].Bad.Detail)
	require.Equal(t, decode.Limit, w.deadLetters[0].Bad.Reason)
	require.Equal(t, "total-series", l.Deferred().Excesses("acme")[0].Limit)
	heldRows(t, l)
}

// A partition lets a tenant have four times its even share of series.
func TestSeriesLimitShare(t *testing.T) {
	w := newWorld(t, nil)
	l := w.limited(tenant.IngestLimits{TotalSeries: 400}, nil)
	l.Resume(worker.Assignment{Stream: 1, Partitions: 40})
	for i := range 100 {
		w.send(fmt.Sprint("d", i), w.now, "", "a")
	}
	w.read(l)
	require.Equal(t, 40, has(l, "acme"))
}

// What is counted is what a plain set would hold, whatever readings look like and in whatever order they come: many
// shapes, labels, days.
func TestSeriesCountEqualsSet(t *testing.T) {
	const seed = 17
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 20 {
		w := newWorld(t, nil)
		most, all := 4+rnd.IntN(12), 10+rnd.IntN(30)
		l := w.limited(tenant.IngestLimits{Series: tenant.Limit(most), TotalSeries: tenant.Limit(all)}, nil)
		sets, total, want := map[string]map[string]bool{}, map[int]int{}, []int64(nil)
		for i := range 150 {
			device, ago, label := fmt.Sprint("d", rnd.IntN(3)), rnd.IntN(3), []string{"", "x", "y"}[rnd.IntN(3)]
			var metrics []string
			for m := range 6 {
				if rnd.IntN(3) == 0 {
					metrics = append(metrics, string(rune('a'+m)))
				}
			}
			if len(metrics) == 0 {
				metrics = []string{"a"}
			}
			w.send(device, w.now.Add(-time.Duration(ago)*24*time.Hour), label, metrics...)
			key := fmt.Sprint(device, ago)
			var fresh []string
			for _, m := range metrics {
				if s := label + "/" + m; !sets[key][s] {
					fresh = append(fresh, s)
				}
			}
			if n := len(fresh); n > 0 && (len(sets[key])+n > most || total[ago]+n > all) {
				want = append(want, int64(i))
				continue
			}
			if sets[key] == nil {
				sets[key] = map[string]bool{}
			}
			for _, s := range fresh {
				sets[key][s] = true
			}
			total[ago] += len(fresh)
		}
		w.read(l)
		got := w.refused()
		slices.Sort(got)
		require.Equal(t, want, got)
		heldRows(t, l)
	}
}

// Series of days of which a device has nothing any more are not kept: neither of the device nor of its tenant.
func TestOldSeriesAreForgotten(t *testing.T) {
	w := newWorld(t, nil)
	l := w.limited(tenant.IngestLimits{Series: 10, TotalSeries: 1000}, func(c *ingest.Config) { c.Hold = time.Second })
	day := func() string { return w.now.UTC().Format("20060102") }
	for range 8 {
		w.log = nil
		for _, device := range []string{"d1", "d2"} {
			for _, metrics := range []string{"a b", "c", "a d"} {
				w.send(device, w.now, "", strings.Fields(metrics)...)
			}
		}
		for i := range w.log {
			w.log[i].Offset = l.Position() + int64(i)
			require.NoError(t, l.Take(t.Context(), w.log[i]))
		}
		require.Equal(t, 8, worker.SeriesByDay(l.Worker, "acme")[day()], worker.SeriesByDay(l.Worker, "acme"))
		require.LessOrEqual(t, len(worker.SeriesByDay(l.Worker, "acme")), 3)
		heldRows(t, l)
		for range 20 { // chains are forgotten when they were idle for a day; the devices have another one by then
			w.now = w.now.Add(time.Hour)
			require.NoError(t, l.Step(t.Context()))
		}
	}
	require.Empty(t, w.deadLetters)
}
