package prom_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/rollups"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/prom"
	"binnacle/query/querytest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stretchr/testify/require"
)

var keptQueries = flag.Int("prom.kept", 150, "random queries of TestKeptAnswersEqualColdAnswers")

// growing is a world in which devices go on reporting: some late, some readings twice and corrected.
type growing struct {
	chance
	t        testing.TB
	cold     server // keeps nothing
	warm     server
	position int64
	open     []querytest.Record // in heads
	stored   []querytest.Record // in heads, too
	counts   *prometheus.Registry
	writer   *rollups.Writer  // nil for none
	owner    uint64           // of the heads
	taken    map[string]int64 // through of what another process has stored, by device and day, until heads know it
	copies   bool             // chunks come that no head knows
}

func newGrowing(t testing.TB, c chance) *growing {
	w := querytest.New(t, noon.AddDate(0, 0, -1))
	w.Store.Expiry = true
	w.Directory = control.NewDirectory(control.DirectoryConfig{Documents: w.Documents,
		Now: func() time.Time { return w.Now }, Retention: pick(c, 0, c.between(50*time.Minute, 90*time.Minute))})
	w.Now = pick(c, noon, noon.Add(11*time.Hour+30*time.Minute))
	_, err := w.Directory.Refresh(t.Context())
	require.NoError(t, err)
	g := &growing{chance: c, t: t, counts: prometheus.NewRegistry(), owner: 1,
		taken: make(map[string]int64)}
	g.cold = newServerIn(t, w, func(q *query.Config, _ *prom.Config) { q.CacheBytes = -1 })
	withRollups := c.IntN(2) == 0
	g.warm = newServerIn(t, w, func(q *query.Config, _ *prom.Config) {
		q.CacheBytes, q.Registerer = 64<<20, g.counts
		if withRollups {
			q.Rollups = w.Rollups
		}
	})
	if withRollups {
		g.writer = c.writer(t, g.cold)
	}
	for d := range devices {
		g.tag(d)
	}
	return g
}

// tag gives a device tags, of which some replace earlier ones.
func (g *growing) tag(d int) {
	g.cold.world.Catalog.AddPage("acme", storetest.Entry(fmt.Sprintf("m%d", d),
		map[string]string{"fleet": fmt.Sprint(g.IntN(3)), "site": pick(g.chance, "hall", "yard")}))
}

// devices is how many there are.
const devices = 5

// grow lets some time pass.
func (g *growing) grow() {
	w := g.cold.world
	before := w.Now
	w.Now = w.Now.Add(pick(g.chance, 10*time.Second, g.between(time.Second, 4*time.Minute)))
	for d := range devices {
		if d%2 == 0 && g.IntN(2) == 0 { // it is silent for a while
			continue
		}
		for at := before; at.Before(w.Now); at = at.Add(g.between(20*time.Second, 2*time.Minute)) {
			g.report(fmt.Sprintf("m%d", d), at)
		}
	}
	if g.IntN(8) == 0 {
		g.report(fmt.Sprintf("m%d", g.IntN(devices)), w.Now.Add(-g.between(0, 3*time.Hour)))
	}
	if g.IntN(12) == 0 {
		g.tag(g.IntN(devices))
	}
	if g.IntN(20) == 0 { // the rows of a bin are refused in the end
		g.learn() // which no other process has stored
		g.open = slices.DeleteFunc(g.open, func(r querytest.Record) bool { return r.Reading.Device == "m1" })
	}
	g.disturb()
	if g.IntN(4) == 0 {
		g.store()
	}
	g.show()
	if g.writer != nil && g.IntN(6) == 0 {
		today := telemetry.DayOf(w.Now.UnixMilli())
		for day := today - 1; day <= today; day++ {
			for _, target := range g.writer.TargetsOf(day) {
				if _, err := g.writer.Round(g.t.Context(), target); !errors.Is(err, store.ErrNoContainer) {
					require.NoError(g.t, err)
				}
			}
		}
	}
}

// report adds a reading to the heads.
func (g *growing) report(device string, at time.Time) {
	// Sums of eighths are those of Prometheus in all bits, also from rollups.
	fields := []telemetry.Field{float("velocity", float64(g.IntN(1000))/8), float("km_total", float64(g.position)/4)}
	if g.IntN(300) == 0 {
		fields = append(fields, telemetry.Field{Metric: "big", Value: telemetry.IntValue(1<<53 + 1)})
	} else {
		fields = append(fields, telemetry.Field{Metric: "big", Value: telemetry.IntValue(g.position)})
	}
	g.open = append(g.open, record(g.position, device, at, nil, fields...))
	g.position++
}

// disturb has other processes store, heads forget, and partitions change their owner.
func (g *growing) disturb() {
	w := g.cold.world
	if g.IntN(3) == 0 {
		g.learn()
	}
	switch g.IntN(30) {
	case 0:
		w.Heads.Forget()
	case 1:
		g.learn()
		g.owner++
	case 2: // a process that has lost the partition stores what heads have, and they do not know of it
		g.learn()
		w.Heads.Unaware(g.store)
	case 3:
		if g.copies {
			copied := record(g.position, "m3", w.Now.Add(-g.between(0, 3*time.Hour)), nil, float("velocity", 7))
			copied.Position.Stream = 2
			g.position++
			w.Heads.Unaware(func() { w.Chunk(copied) })
		}
	}
	if !g.copies && g.IntN(200) == 0 {
		g.copies = true
		copied, err := stream.NewStreams(w.Documents).CopiedStream(g.t.Context(), "other", 1)
		require.NoError(g.t, err)
		require.EqualValues(g.t, 2, copied.Number)
		_, err = w.Directory.Refresh(g.t.Context())
		require.NoError(g.t, err)
	}
}

// learn has heads know what another process has stored.
func (g *growing) learn() {
	g.open = slices.DeleteFunc(g.open, func(r querytest.Record) bool {
		through, ok := g.taken[fmt.Sprint(r.Reading.Device, telemetry.DayOf(r.Reading.Time))]
		return ok && r.Position.Offset <= through
	})
	clear(g.taken)
	g.cold.world.Heads.Learn()
}

// store makes chunks of what heads have of one device, or of all.
func (g *growing) store() {
	others := g.cold.world.Heads.IsUnaware()
	if !others {
		g.learn()
	}
	device := pick(g.chance, "", "m0", "m1", "m2")
	bins := make(map[string][]querytest.Record)
	var rest []querytest.Record
	for _, r := range g.open {
		if device == "" || r.Reading.Device == device {
			of := fmt.Sprint(r.Reading.Device, telemetry.DayOf(r.Reading.Time))
			bins[of] = append(bins[of], r)
		} else {
			rest = append(rest, r)
		}
	}
	for of, records := range bins {
		g.cold.world.Chunk(records...)
		if others {
			g.taken[of] = records[len(records)-1].Position.Offset
		}
	}
	if others {
		return
	}
	if g.open = rest; g.IntN(5) == 0 { // they stay in heads for a moment
		for _, records := range bins {
			g.stored = append(g.stored, records...)
		}
	}
}

func (g *growing) show() {
	all := slices.Concat(g.open, g.stored)
	slices.SortFunc(all, func(a, b querytest.Record) int { return int(a.Position.Offset - b.Position.Offset) })
	g.cold.world.Heads.SetOnly(store.PartitionHead{Stream: 1, Position: g.position, Owner: g.owner}, all...)
	g.stored = nil
	g.cold.world.Log.Set(g.position)
}

// panel is a query that is asked again and again.
type panel struct {
	text         string
	length, step time.Duration
}

func (g *growing) panels() (out []panel) {
	texts := []string{
		"velocity", "avg by (fleet) (velocity)", "sum by (site) (rate(km_total[5m]))", "topk(2, velocity)",
		"max(max_over_time(velocity[10m])) * 2 > 50", "abs(velocity - 40)", "count(big)", "delta(velocity[7m] offset 3m)",
		"quantile by (fleet) (0.5, avg_over_time(velocity[5m]))", "rate(velocity[90s])", "sum(velocity offset -2m)",
		"stddev(velocity)", "none", "rate(none[5m])", "last_over_time(big[20m])", "avg(sum by (fleet) (velocity))",
		"stddev(sum by (fleet) (velocity))",
		"velocity / km_total", `velocity{fleet="1"}`, "count_values(\"v\", changes(velocity[3m]))", "-velocity",
		"sum_over_time((rate(velocity[5m]) * 2)[1h:5m])", "sum by (fleet) (velocity) / count by (fleet) (velocity)",
		"sum(max_over_time(sum by (fleet) (velocity)[2h:10m]))", "max_over_time(rate(km_total[5m])[1h:7m] offset 3m)",
	}
	for i := range 6 {
		text := texts[g.IntN(len(texts))]
		if i%3 == 0 { // samples, aggregates or rollups are read for whatever there is
			text = g.instant(i % 2)
			for strings.Contains(text, "%s") {
				text = strings.Replace(text, "%s", g.instant(0), 1)
			}
		}
		out = append(out, panel{text, g.between(time.Hour, 5*time.Hour),
			pick(g.chance, time.Minute, 10*time.Minute, 37*time.Second, 20*time.Second)})
	}
	return out
}

// shownWarnings is how many warnings an answer shows at most; Prometheus' engine picks them by chance.
const shownWarnings = 10

// Answers that are kept and continued are what a querier answers that keeps nothing, in all bits.
func TestKeptAnswersEqualColdAnswers(t *testing.T) {
	seed := *randomSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-prom.seed %d", seed)
	c := chance{rand.New(rand.NewPCG(seed, 2))}
	hits, asked := 0.0, 0
	for asked < *keptQueries {
		g := newGrowing(t, c)
		for range 40 {
			g.grow()
		}
		panels, ended := g.panels(), g.cold.world.Now.Add(-g.between(time.Hour, 2*time.Hour))
		for range 25 {
			p := panels[c.IntN(len(panels))]
			// What ended long ago is read no further than that.
			end := g.cold.world.Now.Add(pick(c, 0, 0, 0, -10*time.Minute, time.Minute, -c.between(time.Hour, 4*time.Hour)))
			if c.IntN(4) == 0 {
				end = ended
			}
			if c.IntN(4) > 0 {
				end = end.Truncate(p.step)
			}
			parameters := []string{"query", p.text, "step", fmt.Sprint(p.step.Seconds()),
				"end", fmt.Sprint(end.Unix()), "start", fmt.Sprint(end.Add(-p.length).Truncate(p.step).Unix())}
			path := "/api/v1/query_range"
			if c.IntN(4) == 0 && !strings.Contains(p.text, "count_values") { // its vectors have no order
				path, parameters = "/api/v1/query", []string{"query", p.text, "time", fmt.Sprint(end.Unix())}
			}
			want := g.cold.ask(t, path, parameters...)
			for range 1 + c.IntN(2) {
				got := g.warm.ask(t, path, parameters...)
				require.True(t, bytes.Equal(want.Data, got.Data), "%s\n%s\n%s", parameters, want.Data, got.Data)
				if len(want.Warnings) <= shownWarnings {
					require.ElementsMatch(t, want.Warnings, got.Warnings, "%s", parameters)
				}
				require.ElementsMatch(t, want.Infos, got.Infos, "%s", parameters)
				require.Equal(t, want.Error, got.Error, "%s", parameters)
			}
			asked++
			if c.IntN(3) > 0 {
				g.grow()
			}
		}
		hits += kept(t, g.counts)
		g.cold.Close()
		g.warm.Close()
	}
	t.Logf("%d queries, %.0f of them with a kept part", asked, hits)
	require.Greater(t, hits, float64(asked)/20)
}

// kept returns how many answers had a kept part.
func kept(t testing.TB, counts *prometheus.Registry) (hits float64) {
	t.Helper()
	all, err := counts.Gather()
	require.NoError(t, err)
	for _, family := range all {
		for _, m := range family.GetMetric() {
			if family.GetName() == "binnacle_query_kept_answers_total" && m.GetLabel()[0].GetValue() == "hit" {
				hits += m.GetCounter().GetValue()
			}
		}
	}
	return hits
}

// An answer that lacks something is neither kept nor continued with what is kept, nor are those about other moments.
func TestOnlyCompleteAnswersAreKept(t *testing.T) {
	g := newGrowing(t, chance{rand.New(rand.NewPCG(1, 3))})
	for range 40 {
		g.grow()
	}
	end := g.warm.world.Now.Truncate(time.Minute)
	ask := func(more ...string) response {
		parameters := []string{"query", "sum(velocity)", "step", "60", "start", fmt.Sprint(end.Add(-2 * time.Hour).Unix()),
			"end", fmt.Sprint(end.Unix())}
		got := g.warm.ask(t, "/api/v1/query_range", append(parameters, more...)...)
		require.Equal(t, "success", got.Status, got.Error)
		return got
	}
	g.warm.world.Heads.Reset()
	require.NotEmpty(t, ask().Warnings)
	require.NotEmpty(t, ask().Warnings)
	require.Zero(t, kept(t, g.counts))
	g.show()
	whole := ask()
	require.Empty(t, whole.Warnings)
	require.Equal(t, whole.Data, ask().Data)
	require.Equal(t, 1.0, kept(t, g.counts))
	ask("as_of", fmt.Sprint(end.Unix()))
	ask("stats", "true")
	g.warm.world.Heads.Reset()
	require.NotEmpty(t, ask().Warnings)
	require.Equal(t, 1.0, kept(t, g.counts))
}

// refreshed is a world in which a panel over many devices is asked again and again.
type refreshed struct {
	*growing
	query string
	// end is the end of the panel; zero stands for the present.
	end time.Time
}

// newRefreshed makes one in which nothing expires soon.
func newRefreshed(t *testing.T, withRollups bool) *refreshed {
	for seed := uint64(1); ; seed++ {
		g := newGrowing(t, chance{rand.New(rand.NewPCG(seed, 7))})
		acme, _ := g.cold.world.Directory.Snapshot().Tenant("acme")
		if (g.writer != nil) != withRollups || acme.Retention > 0 {
			continue
		}
		for range 40 {
			g.grow()
		}
		if g.copies {
			continue
		}
		g.learn()
		g.show()
		return &refreshed{growing: g, query: "sum by (fleet) (velocity)"}
	}
}

// ask asks the panel of the last two hours, and returns how many scans of the store it took.
func (r *refreshed) ask(after time.Duration) int {
	r.t.Helper()
	w := r.warm.world
	w.Now = w.Now.Add(after)
	before := w.Store.Calls(storetest.Scan)
	end := w.Now.Truncate(time.Minute)
	if !r.end.IsZero() {
		end = r.end
	}
	parameters := []string{"query", r.query, "step", "60",
		"start", fmt.Sprint(end.Add(-2 * time.Hour).Unix()), "end", fmt.Sprint(end.Unix())}
	got := r.warm.ask(r.t, "/api/v1/query_range", parameters...)
	scans := w.Store.Calls(storetest.Scan) - before
	want := r.cold.ask(r.t, "/api/v1/query_range", parameters...)
	require.Equal(r.t, "success", got.Status, got.Error)
	require.Empty(r.t, got.Warnings)
	require.Equal(r.t, string(want.Data), string(got.Data))
	return scans
}

// While nothing is stored a refresh asks the store nothing, and what an ingester has stored unchanged is known.
func TestRefreshAsksNothingWhileNothingIsStored(t *testing.T) {
	for name, withRollups := range map[string]bool{"chunks": false, "rollups": true} {
		t.Run(name, func(t *testing.T) { refreshWhileNothingIsStored(t, newRefreshed(t, withRollups)) })
	}
}

func refreshWhileNothingIsStored(t *testing.T, r *refreshed) {
	require.Positive(t, r.ask(0), "nothing is known")
	for range 20 {
		r.report("m0", r.warm.world.Now)
		r.show()
		require.Zero(t, r.ask(10*time.Second), "rows have come to heads")
	}
	require.Positive(t, r.ask(2*time.Minute), "a replica may have lagged when the store was asked first")
	for range 5 {
		require.Zero(t, r.ask(time.Minute))
	}
	r.storeOf("m0")
	require.Zero(t, r.ask(10*time.Second), "the rows are known")
	require.Zero(t, r.ask(10*time.Second))
	r.report("m0", r.warm.world.Now.Add(-2*time.Minute))
	r.storeOf("m0")
	require.Positive(t, r.ask(10*time.Second), "a row was stored that heads did not show")
	require.Zero(t, r.ask(10*time.Second))
	r.warm.world.Heads.Forget()
	require.Zero(t, r.ask(10*time.Second), "what was known is forgotten")
	r.report("m0", r.warm.world.Now.Add(-2*time.Minute))
	r.show()
	r.ask(10 * time.Second)
	require.Zero(t, r.ask(10*time.Second))
	r.storeOf("m0")
	r.warm.world.Heads.Forget()
	require.Positive(t, r.ask(10*time.Second), "heads have forgotten what was stored since")
	r.report("m0", r.warm.world.Now.Add(-2*time.Minute))
	r.show()
	r.ask(10 * time.Second)
	require.Zero(t, r.ask(10*time.Second))
	r.report("m0", r.warm.world.Now.Add(-time.Minute))
	r.storeOf("m0")
	r.warm.world.Heads.ForgetDuringAnswer()
	require.Positive(t, r.ask(10*time.Second), "heads forget what was stored while they answer")
	require.Positive(t, r.ask(31*time.Minute), "whatever heads tell")
}

// Averages of decimals are kept as all others.
func TestAveragesOfDecimalsAreKept(t *testing.T) {
	r := newRefreshed(t, true)
	r.query = "avg by (fleet) (avg_over_time(velocity[5m]))"
	r.ask(10 * time.Second)
	for range 5 {
		r.report("m0", r.warm.world.Now)
		r.show()
		require.Zero(t, r.ask(10*time.Second))
	}
	require.Equal(t, 5.0, kept(t, r.counts))
}

// storeOf stores what heads have of a device.
func (r *refreshed) storeOf(device string) {
	var rest, stored []querytest.Record
	for _, x := range r.open {
		if x.Reading.Device == device {
			stored = append(stored, x)
		} else {
			rest = append(rest, x)
		}
	}
	byDay := make(map[telemetry.Day][]querytest.Record)
	for _, x := range stored {
		byDay[telemetry.DayOf(x.Reading.Time)] = append(byDay[telemetry.DayOf(x.Reading.Time)], x)
	}
	for _, records := range byDay {
		r.warm.world.Chunk(records...)
	}
	r.open = rest
	r.show()
}

// Where heads change, the store is asked each time for as long as a process that is gone may store something.
func TestRefreshAsksWhileHeadsAreNew(t *testing.T) {
	r := newRefreshed(t, false)
	r.ask(0)
	require.Zero(t, r.ask(10*time.Second))
	r.owner++
	r.show()
	for range 20 {
		require.Positive(t, r.ask(14*time.Second))
	}
	r.ask(time.Minute)
	require.Zero(t, r.ask(10*time.Second))
	r.warm.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 1, Owner: 100})
	for range 3 {
		require.Positive(t, r.ask(10*time.Second), "of two heads of one partition")
	}
}

// While chunks may come that no head knows, the store is asked each time.
func TestRefreshAsksDuringCopies(t *testing.T) {
	r := newRefreshed(t, false)
	r.ask(0)
	require.Zero(t, r.ask(10*time.Second))
	_, err := stream.NewStreams(r.warm.world.Documents).CopiedStream(t.Context(), "other", 1)
	require.NoError(t, err)
	require.Positive(t, r.ask(10*time.Second))
	require.Positive(t, r.ask(10*time.Second))
}

// What expires while the store is not asked is not answered.
func TestRefreshWhileChunksExpire(t *testing.T) {
	for seed := uint64(1); ; seed++ {
		g := newGrowing(t, chance{rand.New(rand.NewPCG(seed, 11))})
		acme, _ := g.cold.world.Directory.Snapshot().Tenant("acme")
		if acme.Retention == 0 || g.cold.world.Now.Equal(noon) {
			continue
		}
		r := &refreshed{growing: g, query: "sum by (fleet) (velocity)"}
		midnight := noon.Add(12 * time.Hour)
		for g.cold.world.Now.Before(midnight.Add(15 * time.Minute)) {
			g.grow()
		}
		g.learn()
		g.show()
		for range 90 { // all of the day before is gone by then
			r.ask(time.Minute)
		}
		return
	}
}

// That the store was asked for one range says nothing of another one, which was read before and has known chunks.
func TestRefreshOfAnotherRange(t *testing.T) {
	r := newRefreshed(t, false)
	now := time.Time{}
	ended := r.warm.world.Now.Add(-3 * time.Hour).Truncate(time.Minute)
	ask := func(end time.Time) int {
		r.end = end
		return r.ask(time.Second)
	}
	for _, pair := range [][2]time.Time{{now, ended}, {ended, now}, {ended, ended.Add(-time.Hour)}} {
		one, other := pair[0], pair[1]
		for range 2 {
			ask(one)
			ask(other)
		}
		require.Zero(t, ask(one), "the other one does not make it unknown")
		require.Zero(t, ask(other))
		for _, end := range pair { // no query has seen in heads what is stored
			if end.IsZero() {
				end = r.warm.world.Now.Add(-time.Minute)
			}
			r.report("m0", end.Add(-time.Minute))
			r.storeOf("m0")
		}
		ask(other)
		ask(one)
	}
}

// Values that are kept stay as they are, whatever a query makes of them that can't keep them again, because the catalog
// has changed while it ran.
func TestKeptValuesAreNotChanged(t *testing.T) {
	r := newRefreshed(t, false)
	w := r.warm.world
	end := fmt.Sprint(w.Now.Truncate(time.Minute).Unix())
	ask := func(s server) string {
		got := s.ask(t, "/api/v1/query", "query", "min_over_time(velocity[1h:1m])", "time", end)
		require.Equal(t, "success", got.Status, got.Error)
		return string(got.Data)
	}
	want := ask(r.cold)
	require.Equal(t, want, ask(r.warm))
	pages := 0
	w.Heads.OnCall(func() { // the query has begun
		if pages++; pages == 1 {
			w.Catalog.AddPage("acme", storetest.Entry("new", nil, "other"))
			w.Heads.SetUpdates("acme", storetest.Entry("new", nil, "other"))
			_, _, err := r.warm.query.Devices(t.Context(), query.Search{Tenant: "acme", Limit: 1})
			require.NoError(t, err)
		}
	})
	require.Equal(t, want, ask(r.warm))
	require.Equal(t, 1.0, kept(t, r.counts), "it used what was kept")
	for range 2 {
		require.Equal(t, want, ask(r.warm))
	}
}
