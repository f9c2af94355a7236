package prom_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/binning/rollup"
	"binnacle/internal/control"
	"binnacle/internal/rollups"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/query"
	"binnacle/query/prom"
	"binnacle/query/querytest"
	"binnacle/sharding"

	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"
)

var rollupQueries = flag.Int("prom.rollups", 150, "random queries of TestRollupsEqualChunks")

// history stores readings piece by piece, late, twice and corrected, with rounds of rollups in between, and leaves some
// in heads.
func (c chance) history(t testing.TB, s server, end time.Time) {
	var all []querytest.Record
	position := int64(1)
	for d := range 5 {
		device := fmt.Sprintf("m%d", d)
		tags := map[string]string{"site": pick(c, "hall", "yard"), "fleet": fmt.Sprint(d % 2)}
		s.world.Catalog.AddPage("acme", storetest.Entry(device, tags))
		records := c.device(device, &position, end)
		all = append(all, records...)
		if r := records[c.IntN(len(records))]; c.IntN(2) == 0 {
			r.Time, r.Position.Offset = telemetry.DayOf(end.UnixMilli()).Start(), position
			position++
			all = append(all, r)
		}
		for range c.IntN(3) { // some instants again, corrected
			if r := records[c.IntN(len(records))]; len(r.Fields) > 0 {
				r.Fields = slices.Clone(r.Fields)
				r.Fields[0].Value = telemetry.FloatValue(float64(c.IntN(1000)) / 10)
				r.Position.Offset = position
				position++
				all = append(all, r)
			}
		}
	}
	writer := c.writer(t, s)
	first, last := telemetry.DayOf(end.Add(-4*time.Hour).UnixMilli()), telemetry.DayOf(end.UnixMilli()-1)
	var days []telemetry.Day
	for day := first; day <= last; day++ {
		days = append(days, day)
	}
	var open []querytest.Record
	bins := make(map[string][]querytest.Record)
	for _, r := range all {
		if c.IntN(300) == 0 {
			open = append(open, r)
			continue
		}
		of := fmt.Sprint(r.Device, telemetry.DayOf(r.Time))
		bins[of] = append(bins[of], r)
	}
	names := make([]string, 0, len(bins))
	for of, records := range bins {
		slices.SortStableFunc(records, func(a, b querytest.Record) int {
			return cmp.Compare(a.Position.Offset, b.Position.Offset)
		})
		names = append(names, of)
	}
	slices.Sort(names)
	held := c.IntN(4) // of which there are rows in heads
	for round := 0; len(names) > 0 && round < 60; round++ {
		s.world.Now = s.world.Now.Add(c.between(time.Second, 20*time.Minute))
		at := c.IntN(len(names))
		records := bins[names[at]]
		n := min(len(records), 1+c.IntN(120))
		if len(names) <= held {
			open = append(open, records...)
			n = len(records)
		} else {
			s.world.Chunk(records[:n]...)
		}
		if bins[names[at]] = records[n:]; n == len(records) {
			names = slices.Delete(names, at, at+1)
		}
		if c.IntN(6) == 0 {
			for _, day := range days {
				for _, target := range writer.TargetsOf(day) {
					if _, err := writer.Round(t.Context(), target); !errors.Is(err, store.ErrNoContainer) {
						require.NoError(t, err)
					}
				}
			}
		}
	}
	for _, of := range names {
		open = append(open, bins[of]...)
	}
	slices.SortStableFunc(open, func(a, b querytest.Record) int {
		return cmp.Compare(a.Position.Offset, b.Position.Offset)
	})
	s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: position}, open...)
	s.world.Log.Set(position)
	s.world.Now = s.world.Now.Add(time.Minute)
}

// writer makes rollups of the world, by the world's clock.
func (c chance) writer(t testing.TB, s server) *rollups.Writer {
	known, batches := s.world.Tenant("acme"), 0
	month := sharding.Month.Of(telemetry.DayOf(noon.UnixMilli()))
	s.world.Rollups.CreateContainer(sharding.RollupsContainer(sharding.Container("", month)))
	w, err := rollups.New(rollups.Config{
		Chunks: s.world.Store, Rollups: s.world.Rollups, Tenants: func() []tenant.Tenant { return []tenant.Tenant{known} },
		Hold: pick(c, 0, time.Minute, 40*time.Minute), Now: func() time.Time { return s.world.Now },
		Sleep: func(context.Context, time.Duration) error { return nil },
		Name:  func() string { batches++; return fmt.Sprintf("b%d", batches) },
	})
	require.NoError(t, err)
	return w
}

// world keeps readings for ever, or for so long that those of the day before an end may expire while they are stored
// and asked for.
func (c chance) world(t testing.TB) *querytest.World {
	w := querytest.New(t, noon.AddDate(0, 0, -3))
	w.Store.Expiry = true
	w.Directory = control.NewDirectory(control.DirectoryConfig{Documents: w.Documents,
		Now: func() time.Time { return w.Now }, Retention: pick(c, 0, c.between(12*time.Hour, 26*time.Hour))})
	w.Tenant("acme")
	today := telemetry.DayOf(noon.UnixMilli())
	for day := today - 1; day <= today; day++ {
		if c.IntN(2) == 0 {
			e := sharding.Epoch{From: day, Slots: sharding.Spread("acme", 1+c.IntN(4))}
			require.NoError(t, w.Directory.AddEpoch(t.Context(), "acme", e))
		}
	}
	w.Now = noon
	_, err := w.Directory.Refresh(t.Context())
	require.NoError(t, err)
	return w
}

// gridded is a query that rollups may answer, as a rule.
func (c chance) gridded() string {
	metric := pick(c, "km_total", "starts", "velocity", "wide", "odd", "zeros", "far", "mixed")
	moved := pick(c, "", "", "", " offset 10m", " offset -30m")
	of := metric + moved
	if c.IntN(5) > 0 {
		of = fmt.Sprintf("%s(%s[%s]%s)", pick(c, "rate", "increase", "delta", "resets", "sum_over_time", "avg_over_time",
			"min_over_time", "max_over_time", "count_over_time", "present_over_time", "first_over_time", "last_over_time",
			"changes", "irate"), metric, pick(c, "1m", "5m", "10m", "30m", "1h", "97s"), moved)
	}
	if c.IntN(8) == 0 {
		names := pick(c, "velocity|starts", "starts|wide|odd", "none|mixed", "km_total|velocity|zeros|far|odd")
		of = fmt.Sprintf(pick(c, "{__name__=~%q}%[3]s", "last_over_time({__name__=~%q}[%s]%s)",
			"first_over_time({__name__=~%q}[%s]%s)"), names, pick(c, "1m", "10m", "1h"), moved)
	}
	if c.IntN(4) == 0 {
		of = fmt.Sprintf("%s((%s)[%s:%s]%s)", pick(c, "sum_over_time", "count_over_time", "max_over_time", "resets", "deriv"),
			of+pick(c, "", "", " > 1", " > bool 5", " * 2"), pick(c, "10m", "1h", "2h"), pick(c, "1m", "5m", "10m", "30m"),
			moved)
	}
	return fmt.Sprintf(pick(c, "%s", "%s", "sum by (fleet) (%s)", "topk(2, %s)", "avg without (device) (%s)", "count(%s)",
		"max by (fleet) (%s)", "bottomk by (fleet) (1, %s)"), of)
}

// What queries answer does not depend on whether there are rollups, whatever came late, twice, corrected, or is in
// heads: sums and averages by one unit in the last place at most, and what is made of them and all others not in one
// bit.
func TestRollupsEqualChunks(t *testing.T) {
	seed := *randomSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-prom.seed %d", seed)
	c := chance{rand.New(rand.NewPCG(seed, 1))}
	engine := engineOf()
	const each = 50
	queries, shown, answers, restless, expired, neighbours := 0, 0, 0, 0, 0, 0
	for queries < *rollupQueries {
		s := newServerIn(t, c.world(t), nil)
		end := pick(c, noon, noon.Truncate(24*time.Hour).Add(40*time.Minute))
		c.history(t, s, end)
		if c.IntN(3) == 0 { // then some devices show less than others, of what rollups have of both
			change, err := tenant.RetentionChange(pick(c, "m1=1s", "m1=forever,default=1s", "m*=12h,default=30d"),
				func() time.Time { return s.world.Now.Add(-2 * time.Hour) })
			require.NoError(t, err)
			require.NoError(t, tenant.NewTenants(s.world.Documents).Set(t.Context(), "acme", change))
			_, err = s.world.Directory.Refresh(t.Context())
			require.NoError(t, err)
		}
		with, err := query.New(query.Config{Reader: s.world.Store, Heads: s.world.Heads, Log: s.world.Log,
			Directory: s.world.Directory, Catalog: s.world.Catalog, Rollups: s.world.Rollups,
			Now: func() time.Time { return s.world.Now }})
		require.NoError(t, err)
		plain, withRollups := prom.Over(s.query, "acme"), prom.Over(with, "acme")
		for range each {
			text := c.gridded()
			opts := promql.NewPrometheusQueryOpts(false, pick(c, 0, 0, 90*time.Second, 12*time.Minute))
			at := end.Add(-c.between(0, 3*time.Hour)).Truncate(pick(c, time.Minute, time.Minute, 30*time.Minute, time.Second))
			step := pick(c, time.Minute, 5*time.Minute, 30*time.Minute, time.Hour)
			until := at.Add(time.Duration(c.IntN(30)) * step)
			over := func(r *prom.Readings) func() (promql.Query, error) {
				return func() (promql.Query, error) {
					e := prom.Pushdowns{QueryEngine: engine, Over: r}
					return e.NewRangeQuery(t.Context(), r, opts, text, at, until, step)
				}
			}
			sums := withRollups.Record() // which holds all series
			got := describe(t.Context(), over(withRollups), text)
			folded := prom.Over(with, "acme")
			differs(t.Context(), t, over(withRollups), text, got, describe(t.Context(), over(folded), text))
			plain.Take(sums, func(function string, own, other float64) {
				require.Equal(t, math.Nextafter(own, other), other, "%s in %s: %x %x", function, text,
					math.Float64bits(own), math.Float64bits(other))
				neighbours++
			})
			want := describe(t.Context(), over(plain), text)
			if want != got {
				t.Logf("%s from %s to %s by %s", text, at, until, step)
			}
			if differs(t.Context(), t, over(plain), text, want, got) {
				restless++
			}
			if acme := s.world.Tenant("acme"); acme.Expired(telemetry.DayOf(at.UnixMilli()), s.world.Now.UnixMilli()) {
				expired++
			}
			if withRollups.Cost().Rollups+withRollups.Cost().RollupsCached > 0 {
				shown++
			}
			queries++
			if !strings.HasPrefix(want, "\n") {
				answers++
			}
		}
		s.Close()
	}
	t.Logf("%d queries, %d from rollups, %d with an answer, %d that begin where readings have expired, %d that the "+
		"engine itself answers now so, now so; %d values of sums and averages are neighbours", queries, shown, answers,
		expired, restless, neighbours)
	require.Greater(t, answers, queries/3)
	require.Greater(t, shown, queries/5)
	require.Less(t, restless, queries/50+1)
}

// sealedDay stores three metrics of three devices for the two hours before a midnight, and makes their rollups.
func sealedDay(t *testing.T, s server, end time.Time) {
	storedDay(s, end)
	s.world.Now = s.world.Now.Add(time.Hour)
	seal(t, s, end)
}

func storedDay(s server, end time.Time) {
	offset := int64(1)
	for d := range 3 {
		var records []querytest.Record
		for at := end.Add(-2 * time.Hour); at.Before(end); at = at.Add(10 * time.Second) {
			records = append(records, record(offset, fmt.Sprintf("m%d", d), at, nil,
				float("starts", float64(offset*offset%1000-300)), float("velocity", float64(offset*offset%1000)/10),
				float("swing", float64(1-offset%2*int64(2-2*min(d, 1)))/10)))
			offset++
		}
		s.world.Chunk(records...)
	}
}

// seal makes the rollups of the day that ends then.
func seal(t *testing.T, s server, end time.Time) {
	w := chance{rand.New(rand.NewPCG(1, 1))}.writer(t, s)
	for _, target := range w.TargetsOf(telemetry.DayOf(end.UnixMilli() - 1)) {
		if _, err := w.Round(t.Context(), target); !errors.Is(err, store.ErrNoContainer) {
			require.NoError(t, err)
		}
	}
}

// Rollups of a key that several epochs use, with days of others between, are read by one scan, and are those of chunks.
func TestRollupsAcrossEpochs(t *testing.T) {
	w := querytest.New(t, noon.AddDate(0, 0, -9))
	w.Tenant("acme")
	midnight, keys := noon.Truncate(24*time.Hour), make(map[string]bool)
	for i, slots := range []int{2, 2, 1, 3, 2, 1} {
		from := telemetry.DayOf(midnight.AddDate(0, 0, i-6).UnixMilli())
		e := sharding.Epoch{From: from, Slots: sharding.Spread("acme", slots)}
		require.NoError(t, w.Directory.AddEpoch(t.Context(), "acme", e))
		for _, s := range e.Slots {
			keys[sharding.Shard("acme", s)] = true
		}
	}
	w.Now = noon
	s := newServerIn(t, w, nil)
	for i := range 6 {
		sealedDay(t, s, midnight.AddDate(0, 0, i-5))
	}
	w.Now = w.Now.Add(10 * time.Minute)
	engine := engineOf()
	ask := func(withRollups store.RollupReader, text string) (string, query.Explained) {
		t.Helper()
		q, err := query.New(query.Config{Reader: w.Store, Heads: w.Heads, Log: w.Log, Directory: w.Directory,
			Catalog: w.Catalog, Rollups: withRollups, Now: func() time.Time { return w.Now }})
		require.NoError(t, err)
		over := prom.Over(q, "acme")
		ctx, e := query.WithExplanation(t.Context())
		answer := describe(ctx, func() (promql.Query, error) {
			return prom.Pushdowns{QueryEngine: engine, Over: over}.NewRangeQuery(ctx, over, nil, text,
				midnight.AddDate(0, 0, -6).Add(time.Hour), midnight, time.Hour)
		}, text)
		require.Len(t, e.Reads(), 1)
		return answer, e.Reads()[0]
	}
	want, _ := ask(nil, "max_over_time(starts[1h])")
	got, read := ask(w.Rollups, "max_over_time(starts[1h])")
	require.Contains(t, want, "m2")
	require.Equal(t, want, got)
	require.Len(t, read.Covered, 2+2+1+3+2+1, "each key on each day that uses it")
	require.Len(t, read.RollupScans, len(keys), "manifests and documents in one scan")
	require.LessOrEqual(t, len(read.Scans), 2*len(keys))
}

// windowed notes the windows of each scan.
type windowed struct {
	store.Reader
	scans [][]store.Window
}

func (w *windowed) Scan(ctx context.Context, s store.Scan, yield func([]byte) error) (store.Usage, error) {
	w.scans = append(w.scans, s.Windows)
	return w.Reader.Scan(ctx, s, yield)
}

// Days with manifests of one moment are asked for as one.
func TestDaysOfOneMomentAreOneWindow(t *testing.T) {
	s, midnight := newServer(t, nil), noon.Truncate(24*time.Hour)
	for day := range 4 {
		storedDay(s, midnight.AddDate(0, 0, day-3))
	}
	s.world.Now = s.world.Now.Add(time.Hour)
	for _, day := range []int{-3, -2, 0} {
		seal(t, s, midnight.AddDate(0, 0, day))
	}
	s.world.Now = s.world.Now.Add(time.Hour)
	seal(t, s, midnight.AddDate(0, 0, -1))
	reader := &windowed{Reader: s.world.Store}
	ask := func(withRollups store.RollupReader) string {
		q, err := query.New(query.Config{Reader: reader, Heads: s.world.Heads, Log: s.world.Log, Fanout: 1,
			Directory: s.world.Directory, Catalog: s.world.Catalog, Rollups: withRollups,
			Now: func() time.Time { return s.world.Now }})
		require.NoError(t, err)
		over := prom.Over(q, "acme")
		return describe(t.Context(), func() (promql.Query, error) {
			return prom.Pushdowns{QueryEngine: engineOf(), Over: over}.NewRangeQuery(t.Context(), over, nil,
				"max_over_time(starts[30m])", midnight.AddDate(0, 0, -3).Add(-time.Hour), midnight, 30*time.Minute)
		}, "max_over_time(starts[30m])")
	}
	want := ask(nil)
	require.Contains(t, want, "m2")
	reader.scans = nil
	require.Equal(t, want, ask(s.world.Rollups))
	var lengths []time.Duration
	for _, windows := range reader.scans {
		for i, w := range windows {
			lengths = append(lengths, time.Duration(w.To-w.From)*time.Millisecond)
			require.True(t, i == 0 || w.From == windows[i-1].To && w.Since != windows[i-1].Since)
		}
	}
	require.Len(t, lengths, 4*3, "of each key two days, one, one: %v", lengths)
	require.Greater(t, lengths[0], 24*time.Hour)
}

// What a query from rollups is expected to cost is what it is charged, once their manifests are known.
func TestRollupsAreEstimated(t *testing.T) {
	s, end := newServer(t, nil), noon.Truncate(24*time.Hour)
	sealedDay(t, s, end)
	s.world.Now = s.world.Now.Add(10 * time.Minute)
	q, err := query.New(query.Config{Reader: s.world.Store, Heads: s.world.Heads, Log: s.world.Log,
		Directory: s.world.Directory, Catalog: s.world.Catalog, Rollups: s.world.Rollups,
		Now: func() time.Time { return s.world.Now }})
	require.NoError(t, err)
	over, engine := prom.Over(q, "acme"), engineOf()
	ask := func(text string) query.Explained {
		t.Helper()
		ctx, e := query.WithExplanation(t.Context())
		describe(ctx, func() (promql.Query, error) {
			return prom.Pushdowns{QueryEngine: engine, Over: over}.NewRangeQuery(ctx, over, nil, text,
				end.Add(-100*time.Minute), end.Add(-5*time.Minute), 5*time.Minute)
		}, text)
		require.Len(t, e.Reads(), 1)
		return e.Reads()[0]
	}
	first := ask("max_over_time(starts[5m])")
	require.True(t, first.Estimate.Guessed, "no manifest was read")
	require.NotEmpty(t, first.RollupScans)
	require.Positive(t, first.Estimate.RequestUnits)
	fits := func(r query.Explained) {
		t.Helper()
		require.False(t, r.Estimate.Guessed)
		require.Equal(t, len(r.Scans)+len(r.RollupScans), r.Estimate.Scans)
		require.InEpsilon(t, r.Stats.RequestUnits, r.Estimate.RequestUnits, 0.25)
	}
	second := ask("max_over_time(velocity[5m])")
	require.NotEmpty(t, second.RollupScans, "of another metric")
	fits(second)
	third := ask("max_over_time(velocity[5m])")
	require.Empty(t, third.RollupScans, "all is known but what came since")
	fits(third)
	require.Less(t, third.Estimate.RequestUnits, second.Estimate.RequestUnits)
}

// Sums and averages are answered from rollups alone, but where the values nearly cancel each other. Those of integers
// are the same in all bits.
func TestSumsFromRollups(t *testing.T) {
	s, end := newServer(t, nil), noon.Truncate(24*time.Hour)
	sealedDay(t, s, end)
	s.world.Now = s.world.Now.Add(10 * time.Minute)
	over := func(withRollups store.RollupReader) *prom.Readings {
		q, err := query.New(query.Config{Reader: s.world.Store, Heads: s.world.Heads, Log: s.world.Log,
			Directory: s.world.Directory, Catalog: s.world.Catalog, Rollups: withRollups,
			Now: func() time.Time { return s.world.Now }})
		require.NoError(t, err)
		return prom.Over(q, "acme")
	}
	engine := engineOf()
	ask := func(of *prom.Readings, text string) (string, query.Stats) {
		answer := describe(t.Context(), func() (promql.Query, error) {
			return prom.Pushdowns{QueryEngine: engine, Over: of}.NewRangeQuery(t.Context(), of, nil, text,
				end.Add(-100*time.Minute), end.Add(-5*time.Minute), 2*time.Minute)
		}, text)
		return answer, of.Cost()
	}
	for _, c := range []struct {
		text  string
		alone bool // rollups are enough
		same  bool // in all bits
	}{
		{"sum_over_time(starts[5m])", true, true},
		{"avg_over_time(starts[5m])", true, true},
		{"sum_over_time(velocity[5m])", true, false},
		{"avg_over_time(velocity[5m])", true, false},
		{"avg_over_time(swing[5m])", false, true},
	} {
		plain, with := over(nil), over(s.world.Rollups)
		sums := with.Record()
		got, cost := ask(with, c.text)
		plain.Take(sums, func(_ string, own, other float64) {
			require.False(t, c.same, c.text)
			require.Equal(t, math.Nextafter(own, other), other, c.text)
		})
		want, _ := ask(plain, c.text)
		require.Contains(t, want, "m2")
		require.Equal(t, want, got, c.text)
		require.NotZero(t, cost.Rollups, c.text)
		require.Equal(t, c.alone, cost.Documents == 0, c.text)
	}
	_, held := ask(over(s.world.Rollups), "avg_over_time(swing[5m])")
	_, folded := ask(over(s.world.Rollups), "count(avg_over_time(swing[5m]))")
	require.Equal(t, held, folded, "the device that is read again comes behind those that are folded")
}

// What ingesters do not tell of new devices makes an answer by tags incomplete, also one from rollups.
func TestCatalogGapsWarnFromRollups(t *testing.T) {
	s, end := newServer(t, nil), noon.Truncate(24*time.Hour)
	sealedDay(t, s, end)
	s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 1 << 20})
	s.world.Log.Set(1)
	s.world.Now = s.world.Now.Add(10 * time.Minute)
	s.world.Heads.Fail(errors.New("one of two does not answer"))
	with, err := query.New(query.Config{Reader: s.world.Store, Heads: s.world.Heads, Log: s.world.Log,
		Directory: s.world.Directory, Catalog: s.world.Catalog, Rollups: s.world.Rollups,
		Now: func() time.Time { return s.world.Now }})
	require.NoError(t, err)
	engine := engineOf()
	for text, incomplete := range map[string]bool{`max_over_time(starts[5m])`: false,
		`max_over_time(starts{site!="hall"}[5m])`: true} {
		for _, over := range []*prom.Readings{prom.Over(s.query, "acme"), prom.Over(with, "acme")} {
			got := describe(t.Context(), func() (promql.Query, error) {
				return prom.Pushdowns{QueryEngine: engine, Over: over}.NewRangeQuery(t.Context(), over, nil, text,
					end.Add(-100*time.Minute), end.Add(-5*time.Minute), 5*time.Minute)
			}, text)
			require.Contains(t, got, "m2")
			require.Equal(t, incomplete, strings.Contains(got, "incomplete"), "%s: %s", text, got)
		}
	}
}

// Where matchers leave few of many devices, no others are read where rollups show nothing.
func TestFewDevicesAreReadFromChunks(t *testing.T) {
	s := newServer(t, nil)
	for d := range 64 {
		device, site := fmt.Sprintf("m%02d", d), "hall"
		if d < 4 {
			site = "roof"
		}
		s.world.Catalog.AddPage("acme", storetest.Entry(device, map[string]string{"site": site}))
		s.world.Chunk(record(int64(d), device, noon.Add(-time.Hour), nil, float("temp", float64(d))))
	}
	chance{rand.New(rand.NewPCG(1, 1))}.writer(t, s)
	with, err := query.New(query.Config{Reader: s.world.Store, Heads: s.world.Heads, Log: s.world.Log,
		Directory: s.world.Directory, Catalog: s.world.Catalog, Rollups: s.world.Rollups,
		Now: func() time.Time { return s.world.Now }})
	require.NoError(t, err)
	over, engine := prom.Over(with, "acme"), engineOf()
	for text, documents := range map[string]int{`max_over_time(temp{site="roof"}[30m])`: 4,
		`max_over_time(temp{site="hall"}[30m])`: 64} {
		got := describe(t.Context(), func() (promql.Query, error) {
			return prom.Pushdowns{QueryEngine: engine, Over: over}.NewRangeQuery(t.Context(), over, nil, text,
				noon.Add(-2*time.Hour), noon, 30*time.Minute)
		}, text)
		require.Contains(t, got, "site=")
		require.Equal(t, documents, over.Cost().Documents, text)
	}
}

// What is read of a key's other devices, where rollups show nothing, is not decoded: it counts in no limit.
func TestOnlyMatchingChunksAreDecoded(t *testing.T) {
	s := newServer(t, nil)
	var named []string
	for d := range 40 {
		device := fmt.Sprintf("m%02d", d)
		if d < 20 {
			named = append(named, device)
		}
		s.world.Chunk(record(int64(d), device, noon.Add(-time.Hour), nil, float("temp", float64(d))))
	}
	chance{rand.New(rand.NewPCG(1, 1))}.writer(t, s)
	with, err := query.New(query.Config{Reader: s.world.Store, Heads: s.world.Heads, Log: s.world.Log,
		Directory: s.world.Directory, Catalog: s.world.Catalog, Rollups: s.world.Rollups,
		Limits: tenant.QueryLimits{Samples: 20}, Now: func() time.Time { return s.world.Now }})
	require.NoError(t, err)
	var found []string
	_, err = with.Series(t.Context(), query.Request{Tenant: "acme", Devices: named, Metrics: []string{"temp"},
		Range:   telemetry.Range{From: noon.Add(-2 * time.Hour).UnixMilli(), To: noon.UnixMilli()},
		Rollups: &query.RollupsRequest{Grid: rollup.Minute, Columns: rollup.Newest}},
		func(s query.Curve) error {
			found = append(found, s.Device)
			return nil
		})
	require.NoError(t, err)
	require.Equal(t, named, found)
}

// counted counts the documents of rollups that are read.
type counted struct {
	store.RollupReader
	documents int
}

func (c *counted) ScanRollups(ctx context.Context, s store.RollupScan, yield func([]byte) error) (store.Usage, error) {
	return c.RollupReader.ScanRollups(ctx, s, func(doc []byte) error {
		if bytes.Contains(doc, []byte(`"type":"rollup"`)) {
			c.documents++
		}
		return yield(doc)
	})
}

// Rollups that have no room are not read to the end, and not decoded first.
func TestRollupsAreBoundedInMemory(t *testing.T) {
	s, end := newServer(t, nil), noon.Truncate(24*time.Hour)
	sealedDay(t, s, end)
	s.world.Now = s.world.Now.Add(10 * time.Minute)
	ask := func(bytes int64) (string, int) {
		rollups := &counted{RollupReader: s.world.Rollups}
		q, err := query.New(query.Config{Reader: s.world.Store, Heads: s.world.Heads, Log: s.world.Log,
			Directory: s.world.Directory, Catalog: s.world.Catalog, Rollups: rollups, MemoryBytes: bytes, Fanout: 1,
			Now: func() time.Time { return s.world.Now }})
		require.NoError(t, err)
		over := prom.Over(q, "acme")
		return describe(t.Context(), func() (promql.Query, error) {
			return prom.Pushdowns{QueryEngine: engineOf(), Over: over}.NewRangeQuery(t.Context(), over, nil,
				"max_over_time(starts[5m])", end.Add(-100*time.Minute), end.Add(-5*time.Minute), 5*time.Minute)
		}, "max_over_time(starts[5m])"), rollups.documents
	}
	got, all := ask(1 << 20)
	require.Contains(t, got, "m2")
	require.Greater(t, all, 1)
	got, some := ask(1 << 10)
	require.Contains(t, got, "memory")
	require.Less(t, some, all)
	got, some = ask(1 << 14)
	require.Contains(t, got, "memory")
	require.Equal(t, all, some)
}

// Rollups of devices of several classes show each as far as its own retention does (rule X1).
func TestRollupsHideDevices(t *testing.T) {
	s, end := newServer(t, nil), noon.Truncate(24*time.Hour)
	sealedDay(t, s, end)
	s.world.Now = noon.Add(time.Hour)
	engine := engineOf()
	q, err := query.New(query.Config{Reader: s.world.Store, Heads: s.world.Heads, Log: s.world.Log,
		Directory: s.world.Directory, Catalog: s.world.Catalog, Rollups: s.world.Rollups, CacheBytes: 1 << 20,
		Now: func() time.Time { return s.world.Now }})
	require.NoError(t, err)
	for i, retention := range []string{"", "m1=1h", "default=1h,m2=forever"} {
		if retention != "" {
			change, err := tenant.RetentionChange(retention, func() time.Time {
				return s.world.Now.Add(time.Duration(2*i-6) * time.Hour)
			})
			require.NoError(t, err)
			require.NoError(t, tenant.NewTenants(s.world.Documents).Set(t.Context(), "acme", change))
		}
		_, err := s.world.Directory.Refresh(t.Context())
		require.NoError(t, err)
		of := prom.Over(q, "acme")
		answer := describe(t.Context(), func() (promql.Query, error) {
			return prom.Pushdowns{QueryEngine: engine, Over: of}.NewRangeQuery(t.Context(), of, nil,
				"max_over_time(starts[5m])", end.Add(-100*time.Minute), end.Add(-5*time.Minute), 5*time.Minute)
		}, "max_over_time(starts[5m])")
		require.Positive(t, of.Cost().Rollups+of.Cost().RollupsCached)
		require.Equal(t, retention != "default=1h,m2=forever", strings.Contains(answer, "m0"), retention)
		require.Equal(t, retention == "", strings.Contains(answer, "m1"), retention)
		require.Contains(t, answer, "m2")
	}
}
