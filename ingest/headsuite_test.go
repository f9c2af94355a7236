package ingest_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// headFixture is a head under test that has taken nothing, and what it stores chunks in.
type headFixture struct {
	Heads store.Heads

	// Take gives the head the records of its one partition from an offset on, a reading each. When it returns they are
	// taken.
	Take func(offset int64, readings ...telemetry.Reading)
	// Store has all that was taken stored as chunks, and returns when that is acknowledged. Rows may stay in the head
	// for a while.
	Store func()
	// Documents are the stored chunks.
	Documents func() [][]byte
}

// runHeads checks an implementation of store.Heads; open returns a new one with one partition.
func runHeads(t *testing.T, open func(t *testing.T) headFixture) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, headFixture)
	}{
		{"a head has what it took", headRows},
		{"of the asked tenant, devices, metrics and instants alone", headDevicesOnly},
		{"positions alone", headPositions},
		{"a snapshot stays as it is", headReadIsAtomic},
		{"of one instant the last value", headNewest},
		{"of bins that are known what is new", headBins},
		{"of many readings those that are asked for", headMany},
		{"heads report what is stored", headStored},
		{"heads count what is stored", headCounts},
		{"no row is ever nowhere", headUnknownTenant},
		{"devices are listed without rows", headDevices},
		{"a context that has ended", headEnded},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

// headDay is the day of the readings that heads take. It lies in the past, whatever the clock says.
const headDay = telemetry.Day(20023) // 2024-10-27

// reading returns a reading of a device at a time in ms of the day; the fields are metrics with different floats.
func reading(device string, at int64, value float64, metrics ...string) telemetry.Reading {
	r := telemetry.Reading{Tenant: "acme", Device: device, Time: headDay.Start() + at}
	for _, m := range metrics {
		r.Fields = append(r.Fields, telemetry.Field{Metric: m, Value: telemetry.FloatValue(value)})
	}
	return r
}

func headMillis(from, to int64) telemetry.Range {
	return telemetry.Range{From: headDay.Start() + from, To: headDay.Start() + to}
}

// seen is the values of one partition's rows, the newest source first, as device, ms of the day, metric, value.
type seen map[string]seenValue

type seenValue struct {
	source store.Source
	value  float64
}

func (s seen) take(device string, source store.Source, f chunk.Frame) {
	for _, g := range f.Groups {
		for _, c := range g.Columns {
			k := 0
			for i, at := range g.Times {
				if !c.Present.Has(i) {
					continue
				}
				key := fmt.Sprintf("%s %d %s", device, at-headDay.Start(), c.Metric)
				if old, ok := s[key]; !ok || old.source.Compare(source) < 0 {
					s[key] = seenValue{source, c.Value(k).Float()}
				}
				k++
			}
		}
	}
}

func (s seen) takeHead(t *testing.T, h store.PartitionHead) {
	t.Helper()
	for r, err := range h.Rows {
		require.NoError(t, err)
		require.Equal(t, h.Stream, r.Source.Stream)
		require.Equal(t, h.Partition, r.Source.Partition)
		require.Less(t, r.Source.Through, h.Position, "below its position")
		s.take(r.Device, r.Source, r.Frame)
	}
}

func (s seen) lines() []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(s)) {
		out = append(out, fmt.Sprintf("%s %g", k, s[k].value))
	}
	return out
}

func one(t *testing.T, f headFixture, r store.HeadRequest) store.PartitionHead {
	t.Helper()
	heads, err := f.Heads.Heads(t.Context(), r)
	require.NoError(t, err)
	require.Len(t, heads, 1)
	return heads[0]
}

func headLines(t *testing.T, f headFixture, r store.HeadRequest) []string {
	t.Helper()
	s := make(seen)
	s.takeHead(t, one(t, f, r))
	return s.lines()
}

func headRows(t *testing.T, f headFixture) {
	whole := store.HeadRequest{Tenant: "acme", Range: headMillis(0, telemetry.DayMillis)}
	before := one(t, f, whole)
	require.EqualValues(t, 0, before.Position)
	require.Empty(t, headLines(t, f, whole))
	f.Take(0, reading("m1", 10, 1, "a", "b"), reading("m2", 10, 2, "a"), reading("m1", 20, 3, "b"))
	require.Equal(t, []string{"m1 10 a 1", "m1 10 b 1", "m1 20 b 3", "m2 10 a 2"}, headLines(t, f, whole))
	after := one(t, f, whole)
	require.EqualValues(t, 3, after.Position)
	require.Equal(t, before.Topic, after.Topic)
	require.NotEmpty(t, after.Topic)
	require.LessOrEqual(t, after.CaughtUp, after.Position)
	f.Take(3, reading("m3", 5, 4, "a"))
	require.Contains(t, headLines(t, f, whole), "m3 5 a 4")
	require.EqualValues(t, 4, one(t, f, whole).Position)
}

func headDevicesOnly(t *testing.T, f headFixture) {
	other := reading("m1", 10, 9, "a")
	other.Tenant = "globex"
	tomorrow := reading("m1", telemetry.DayMillis, 5, "a")
	f.Take(0, reading("m1", 10, 1, "a", "b"), reading("m2", 20, 2, "a"), other, reading("m3", 30, 3, "c"), tomorrow)
	all := headMillis(0, 2*telemetry.DayMillis)
	for _, c := range []struct {
		r    store.HeadRequest
		want []string
	}{
		{store.HeadRequest{Tenant: "globex", Range: all}, []string{"m1 10 a 9"}},
		{store.HeadRequest{Tenant: "nobody", Range: all}, nil},
		{store.HeadRequest{Tenant: "acme", Range: all, Devices: []string{"m2", "m3", "none"}},
			[]string{"m2 20 a 2", "m3 30 c 3"}},
		{store.HeadRequest{Tenant: "acme", Range: all, Devices: []string{}}, nil},
		{store.HeadRequest{Tenant: "acme", Range: all, Metrics: []string{"b", "c"}}, []string{"m1 10 b 1", "m3 30 c 3"}},
		{store.HeadRequest{Tenant: "acme", Range: headMillis(20, 30)}, []string{"m2 20 a 2"}},
		{store.HeadRequest{Tenant: "acme", Range: headMillis(telemetry.DayMillis, telemetry.DayMillis+1)},
			[]string{"m1 86400000 a 5"}},
	} {
		require.Equal(t, c.want, headLines(t, f, c.r), "%+v", c.r)
		require.EqualValues(t, 5, one(t, f, c.r).Position, "positions are everybody's")
	}
}

func headPositions(t *testing.T, f headFixture) {
	f.Take(0, reading("m1", 0, 1, "a"))
	f.Store()
	f.Take(1, reading("m1", 1, 1, "a"))
	h := one(t, f, store.HeadRequest{Tenant: "acme"})
	require.EqualValues(t, 2, h.Position)
	require.Empty(t, h.Chains)
	for range h.Rows {
		require.Fail(t, "a row of no instant")
	}
}

func headReadIsAtomic(t *testing.T, f headFixture) {
	f.Take(0, reading("m1", 10, 1, "a"), reading("m2", 10, 2, "a"))
	h := one(t, f, store.HeadRequest{Tenant: "acme", Range: headMillis(0, 1000)})
	f.Take(2, reading("m1", 10, 8, "a"), reading("m1", 20, 9, "a"), reading("m9", 10, 9, "a"))
	f.Store()
	s := make(seen)
	s.takeHead(t, h)
	require.Equal(t, []string{"m1 10 a 1", "m2 10 a 2"}, s.lines())
	require.EqualValues(t, 2, h.Position)
}

func headNewest(t *testing.T, f headFixture) {
	r := store.HeadRequest{Tenant: "acme", Range: headMillis(0, 1000)}
	f.Take(0, reading("m1", 10, 1, "a", "b"), reading("m1", 10, 2, "a"))
	require.Equal(t, []string{"m1 10 a 2", "m1 10 b 1"}, headLines(t, f, r))
	f.Store()
	f.Take(2, reading("m1", 10, 3, "a"))
	require.Contains(t, headLines(t, f, r), "m1 10 a 3", "also against what may linger")
}

// binKeeper keeps the bins of a head, and asks for what came since.
type binKeeper struct {
	owner uint64
	bins  map[store.HeadBin][]store.HeadRows
}

// ask returns what the keeper has after one more request, and how many rows the head sent.
func (k *binKeeper) ask(t *testing.T, f headFixture, r store.HeadRequest) (lines []string, rows int) {
	t.Helper()
	r.Bins = true
	if k.owner != 0 {
		known := store.HeadKnown{Owner: k.owner}
		for name, parts := range k.bins {
			name.Through = parts[len(parts)-1].Source.Through
			known.Bins = append(known.Bins, name)
		}
		strange := store.HeadKnown{Owner: k.owner + 1, Bins: []store.HeadBin{{Device: "m1", Day: headDay, Through: 1 << 40}}}
		r.Known = []store.HeadKnown{strange, known}
	}
	h := one(t, f, r)
	require.NotZero(t, h.Owner)
	require.True(t, k.owner == 0 || k.owner == h.Owner, "the owner has not changed")
	shown, all := make(map[store.HeadBin][]store.HeadRows), make(seen)
	for part, err := range h.Rows {
		require.NoError(t, err)
		rows += part.Frame.Rows()
		name := store.HeadBin{Device: part.Device, Day: part.Day, First: part.First}
		require.NotContains(t, shown, name, "each bin once")
		if part.Above >= 0 {
			require.NotEmpty(t, k.bins[name])
			require.Equal(t, k.bins[name][len(k.bins[name])-1].Source.Through, part.Above)
			shown[name] = slices.Clone(k.bins[name])
		}
		shown[name] = append(shown[name], part)
		for _, p := range shown[name] {
			all.take(p.Device, p.Source, p.Frame)
		}
	}
	k.owner, k.bins = h.Owner, shown
	return all.lines(), rows
}

// headBins requires that a client that keeps bins and asks for newer rows has the same as a client that asks for all.
func headBins(t *testing.T, f headFixture) {
	r := store.HeadRequest{Tenant: "acme", Range: headMillis(0, 2*telemetry.DayMillis), Metrics: []string{"a"}}
	var k binKeeper
	ask := func(want int, why string) {
		t.Helper()
		lines, rows := k.ask(t, f, r)
		require.Equal(t, headLines(t, f, r), lines, why)
		if want >= 0 {
			require.Equal(t, want, rows, why)
		}
	}
	f.Take(0, reading("m1", 10, 1, "a", "b"), reading("m2", 10, 2, "a"), reading("m3", 10, 3, "b"))
	require.Zero(t, one(t, f, r).Owner, "nobody has asked for bins")
	k.ask(t, f, r) // over HTTP the head knows an owner's bins from the next request on
	k = binKeeper{owner: k.owner}
	ask(2, "nothing was known")
	ask(0, "nothing is new")
	f.Take(3, reading("m1", 20, 4, "a"), reading("m3", 20, 5, "a"), reading("m1", 10, 6, "a"),
		reading("m1", telemetry.DayMillis, 7, "a"), reading("m4", 10, 8, "a"))
	ask(5, "a bin has grown, one has the metric now, an instant is repeated, two are new")
	position := int64(8)
	for i := range int64(200) { // more than are open at a time
		f.Take(position, reading("m1", 30+i, float64(i), "a"))
		position++
		if i%50 == 13 {
			ask(-1, fmt.Sprint(i))
		}
	}
	ask(-1, "most are in blocks")
	f.Take(position, reading("m1", 40, 9, "a"))
	ask(1, "behind blocks")
	f.Store()
	ask(-1, "what is stored may stay for a while, and what has gone is not kept")
	f.Take(position+1, reading("m1", 11, 10, "a"), reading("m2", 41, 11, "a"))
	ask(2, "bins begin anew")
	r.Devices = []string{"m2"}
	ask(0, "of a device alone")
}

// headMany holds that of bins with many readings, late ones, corrected ones and such without the metric, those are
// answered that are asked for.
func headMany(t *testing.T, f headFixture) {
	// want has the values by ms of the day, then metric.
	want := make(map[int64]map[string]float64)
	for i := range int64(500) {
		at, metrics := 10*i, []string{"a", "b", "c"}
		switch {
		case i%97 == 50:
			at -= 333
		case i%41 == 7:
			at -= 20
		case i >= 200 && i < 330:
			metrics = metrics[:1+i%2]
		}
		if want[at] == nil {
			want[at] = make(map[string]float64)
		}
		for _, m := range metrics {
			want[at][m] = float64(i)
		}
		f.Take(i, reading("m1", at, float64(i), metrics...))
	}
	for _, metrics := range [][]string{nil, {"b"}, {"a", "c"}, {"none"}} {
		for _, span := range [][2]int64{{0, telemetry.DayMillis}, {700, 3100}, {2500, 2501}, {1999, 2001}, {4990, 9000}} {
			all := make(seen)
			for at, values := range want {
				for m, v := range values {
					if at >= span[0] && at < span[1] && (metrics == nil || slices.Contains(metrics, m)) {
						all[fmt.Sprintf("m1 %d %s", at, m)] = seenValue{value: v}
					}
				}
			}
			r := store.HeadRequest{Tenant: "acme", Range: headMillis(span[0], span[1]), Metrics: metrics}
			require.Equal(t, all.lines(), headLines(t, f, r), "%v in %v", metrics, span)
			for rows, err := range one(t, f, r).Rows {
				require.NoError(t, err)
				for _, g := range rows.Frame.Groups {
					require.GreaterOrEqual(t, g.Times[0], r.Range.From)
					require.Less(t, g.Times[len(g.Times)-1], r.Range.To)
				}
			}
		}
	}
}

func headStored(t *testing.T, f headFixture) {
	r := store.HeadRequest{Tenant: "acme", Range: headMillis(0, telemetry.DayMillis)}
	f.Take(0, reading("m1", 10, 1, "a"), reading("m1", 30, 2, "a"), reading("m2", 40, 2, "a"))
	require.Empty(t, one(t, f, r).Chains, "nothing is stored")
	f.Store()
	f.Take(3, reading("m1", 20, 3, "a"), reading("m3", 1, 1, "a"))
	f.Store()
	tails := make(map[string]store.Tail)
	for _, doc := range f.Documents() {
		c, err := chunk.Parse(doc)
		require.NoError(t, err)
		if h := c.Header; tails[h.Device] == (store.Tail{}) || tails[h.Device].Number < h.ID.Number {
			tails[h.Device] = store.Tail{Number: h.ID.Number, Through: h.Through, From: h.From, To: h.To}
		}
	}
	require.Len(t, tails, 3)
	h := one(t, f, r)
	require.Len(t, h.Chains, 3)
	for _, c := range h.Chains {
		require.Equal(t, headDay, c.Day)
		require.Equal(t, tails[c.Device], c.Tail, c.Device)
	}
	r.Devices = []string{"m2"}
	h = one(t, f, r)
	require.Len(t, h.Chains, 1)
	require.Equal(t, "m2", h.Chains[0].Device)
	r.Range = headMillis(telemetry.DayMillis, 2*telemetry.DayMillis)
	require.Empty(t, one(t, f, r).Chains, "of another day")
	r.Tenant = "globex"
	require.Empty(t, one(t, f, r).Chains)
}

// headCounts requires that a head that counts stored chunks answers each later tail once, above a known count.
func headCounts(t *testing.T, f headFixture) {
	r := store.HeadRequest{Tenant: "acme", Range: headMillis(0, telemetry.DayMillis), Metrics: []string{"a"}, Bins: true}
	f.Take(0, reading("m1", 10, 1, "a"), reading("m2", 10, 2, "a"))
	require.Nil(t, one(t, f, r).Stored, "nobody has asked for counts")
	r.Stored = true
	h := one(t, f, r)
	require.NotNil(t, h.Stored)
	require.Positive(t, h.Stored.Count)
	require.Zero(t, h.Stored.Above)
	above := func() store.PartitionHead {
		r.Known = []store.HeadKnown{{Owner: h.Owner, Stored: h.Stored.Count}}
		return one(t, f, r)
	}
	same := above()
	require.Equal(t, h.Stored.Count, same.Stored.Count, "nothing was stored")
	require.Equal(t, h.Stored.Count, same.Stored.Above)
	require.Empty(t, same.Chains)
	f.Store()
	later := above()
	require.Greater(t, later.Stored.Count, h.Stored.Count)
	require.Equal(t, h.Stored.Count, later.Stored.Above)
	require.LessOrEqual(t, later.Stored.Exact, h.Stored.Count, "the tails explain what was stored")
	require.Len(t, later.Chains, 2)
	h = later
	require.Empty(t, above().Chains, "they are known")
	f.Take(2, reading("m1", 20, 3, "a"))
	f.Store()
	chains := above().Chains
	require.Len(t, chains, 1)
	require.Equal(t, "m1", chains[0].Device)
	r.Known[0].Owner++
	require.Len(t, one(t, f, r).Chains, 2, "of another owner")
}

// headUnknownTenant requires rule R1: a client that asks the head first and the store then finds everything below the
// head's position.
func headUnknownTenant(t *testing.T, f headFixture) {
	r := store.HeadRequest{Tenant: "acme", Range: headMillis(0, telemetry.DayMillis)}
	const records = 60
	done := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		for {
			heads, err := f.Heads.Heads(context.Background(), r)
			if err != nil || len(heads) != 1 {
				t.Errorf("%d heads, %v", len(heads), err)
				return
			}
			found := make(map[int64]bool)
			note := func(f chunk.Frame) {
				for _, g := range f.Groups {
					for _, at := range g.Times {
						found[at-headDay.Start()] = true
					}
				}
			}
			for rows, err := range heads[0].Rows {
				if err != nil {
					t.Errorf("rows: %v", err)
				}
				note(rows.Frame)
			}
			for _, doc := range f.Documents() {
				c, err := chunk.Parse(doc)
				if err != nil {
					t.Errorf("stored: %v", err)
					return
				}
				frame, err := c.Frame(nil)
				if err != nil {
					t.Errorf("stored: %v", err)
					return
				}
				note(frame)
			}
			for i := range heads[0].Position {
				if !found[i] {
					t.Errorf("record %d is nowhere, at position %d", i, heads[0].Position)
				}
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for i := range int64(records) {
		f.Take(i, reading(fmt.Sprintf("m%d", i%3), i, 1, "a"))
		if i%7 == 6 {
			f.Store()
		}
	}
	close(done)
	asking.Wait()
}

func headDevices(t *testing.T, f headFixture) {
	other := reading("m1", 10, 9, "a")
	other.Tenant = "globex"
	text := reading("m1", 50, 1, "a")
	text.Fields = append(text.Fields, telemetry.Field{Metric: "b", Value: telemetry.TextValue("x")})
	f.Take(0, reading("m1", 10, 1, "a"), text, reading("m1", 5, 1, "b"), reading("truck", 10, 1, "v"), other)
	require.Equal(t, []string{"m1 5 50", "truck 10 10"}, deviceLines(t, f, store.ListRequest{Tenant: "acme"}))
	some := store.ListRequest{Tenant: "acme", Devices: []string{"other", "truck"}}
	require.Equal(t, []string{"truck 10 10"}, deviceLines(t, f, some))
	require.Equal(t, []string{"m1 10 10"}, deviceLines(t, f, store.ListRequest{Tenant: "globex"}))
	require.Empty(t, deviceLines(t, f, store.ListRequest{Tenant: "nobody"}))
}

// deviceLines returns a list of devices: id, first and last instant as ms of the day.
func deviceLines(t *testing.T, f headFixture, r store.ListRequest) (out []string) {
	t.Helper()
	held, err := f.Heads.Devices(t.Context(), r)
	require.NoError(t, err)
	devices := make(map[string]telemetry.Range)
	for _, h := range held {
		d, known := devices[h.Device]
		if !known {
			d = telemetry.Range{From: h.First, To: h.Last}
		}
		devices[h.Device] = telemetry.Range{From: min(d.From, h.First), To: max(d.To, h.Last)}
	}
	for _, id := range slices.Sorted(maps.Keys(devices)) {
		d := devices[id]
		out = append(out, fmt.Sprintf("%s %d %d", id, d.From-headDay.Start(), d.To-headDay.Start()))
	}
	return out
}

func headEnded(t *testing.T, f headFixture) {
	f.Take(0, reading("m1", 0, 1, "a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.Heads.Heads(ctx, store.HeadRequest{Tenant: "acme", Range: headMillis(0, 1)})
	require.ErrorIs(t, err, context.Canceled)
	_, err = f.Heads.Devices(ctx, store.ListRequest{Tenant: "acme"})
	require.ErrorIs(t, err, context.Canceled)
}
